"""The table: every rule, and those that concern a program, a deed or a sight."""

from collections import defaultdict
from collections.abc import Sequence

from holdfast.tools.shell.rules import (
    databases,
    deletion,
    disks,
    history,
    infrastructure,
    machine,
    permissions,
    privilege,
    publishing,
    secrets,
    security,
    sending,
    system_files,
    unseen,
)
from holdfast.tools.shell.rules.rule import HazardRule, PathRule, ProgramRule, ShellRule
from holdfast.tools.shell.run import Hazard, PathAction

ALL_RULES: tuple[ShellRule, ...] = (
    *deletion.DELETION_RULES,
    *disks.DISK_RULES,
    *machine.MACHINE_RULES,
    *permissions.PERMISSION_RULES,
    *privilege.PRIVILEGE_RULES,
    *system_files.SYSTEM_FILE_RULES,
    *secrets.SECRET_RULES,
    *sending.UPLOAD_RULES,
    *history.GIT_RULES,
    *databases.DATABASE_RULES,
    *publishing.PUBLISHING_RULES,
    *infrastructure.INFRASTRUCTURE_RULES,
    *security.SECURITY_RULES,
    *unseen.HAZARD_RULES,
)


class RuleTable:
    """Finds rules by what they are about."""

    def __init__(self, rules: tuple[ShellRule, ...] = ALL_RULES) -> None:
        self.by_program: dict[str, list[ProgramRule]] = defaultdict(list)
        self.by_action: dict[PathAction, list[PathRule]] = {deed: [] for deed in PathAction}
        self.by_hazard: dict[Hazard, HazardRule] = {}
        for rule in rules:
            self._add(rule)

    def for_program(self, name: str) -> Sequence[ProgramRule]:
        """Its rules, also where it is called with its version."""
        found = self.by_program.get(name)
        return found if found is not None else self.by_program.get(name.rstrip("0123456789."), ())

    def _add(self, rule: ShellRule) -> None:
        match rule:
            case ProgramRule():
                for program in rule.programs:
                    self.by_program[program].append(rule)
            case PathRule():
                for deed in rule.actions:
                    self.by_action[deed].append(rule)
            case HazardRule():
                self.by_hazard[rule.hazard] = rule
