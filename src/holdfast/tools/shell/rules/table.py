"""All rules of the judge, and their reasons in the language of a person."""

from collections import defaultdict
from collections.abc import Sequence

from holdfast.core.text.translation import translate_filled
from holdfast.tools.shell.invocation import Hazard, PathAction
from holdfast.tools.shell.rules import base, files, machine, network, packages, services
from holdfast.tools.shell.rules.base import HazardRule, PathRule, ProgramRule, ShellRule

ALL_RULES: tuple[ShellRule, ...] = (
    *files.DELETION_RULES,
    *machine.DISK_RULES,
    *machine.MACHINE_RULES,
    *files.PERMISSION_RULES,
    *machine.PRIVILEGE_RULES,
    *files.SYSTEM_FILE_RULES,
    *files.SECRET_RULES,
    *network.UPLOAD_RULES,
    *services.GIT_RULES,
    *services.DATABASE_RULES,
    *network.PUBLISHING_RULES,
    *packages.PACKAGE_RULES,
    *services.INFRASTRUCTURE_RULES,
    *machine.SYSTEM_SETTING_RULES,
    *machine.SECURITY_RULES,
    *base.HAZARD_RULES,
)


class RuleTable:
    """The rules by program, path action and hazard."""

    def __init__(self, rules: tuple[ShellRule, ...] = ALL_RULES) -> None:
        self.by_program: dict[str, list[ProgramRule]] = defaultdict(list)
        self.by_action: dict[PathAction, list[PathRule]] = {action: [] for action in PathAction}
        self.by_hazard: dict[Hazard, HazardRule] = {}
        for rule in rules:
            self._add(rule)

    def for_program(self, name: str) -> Sequence[ProgramRule]:
        """The rules of a program, also if its name ends with a version."""
        found = self.by_program.get(name)
        return found if found is not None else self.by_program.get(name.rstrip("0123456789."), ())

    def _add(self, rule: ShellRule) -> None:
        match rule:
            case ProgramRule():
                for program in rule.programs:
                    self.by_program[program].append(rule)
            case PathRule():
                for action in rule.actions:
                    self.by_action[action].append(rule)
            case HazardRule():
                self.by_hazard[rule.hazard] = rule


def reason_for_person(rule_name: str, reason: str) -> str:
    """The reason of a verdict in the language of the context. Verdicts, and the rows of approvals,
    contain it in English. It stays English if today's rule has another text."""
    template = _TEMPLATES.get(rule_name)
    return reason if template is None else translate_filled(reason, template)


_TEMPLATES = {rule.name: rule.why for rule in ALL_RULES}
