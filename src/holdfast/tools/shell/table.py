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
from holdfast.tools.shell.rules.rule import PathRule, Rule, RunRule, SightRule
from holdfast.tools.shell.run import Deed, Sight

RULES: tuple[Rule, ...] = (
    *deletion.RULES,
    *disks.RULES,
    *machine.RULES,
    *permissions.RULES,
    *privilege.RULES,
    *system_files.RULES,
    *secrets.RULES,
    *sending.RULES,
    *history.RULES,
    *databases.RULES,
    *publishing.RULES,
    *infrastructure.RULES,
    *security.RULES,
    *unseen.RULES,
)


class Table:
    """Finds rules by what they are about."""

    def __init__(self, rules: tuple[Rule, ...] = RULES) -> None:
        self.by_program: dict[str, list[RunRule]] = defaultdict(list)
        self.by_deed: dict[Deed, list[PathRule]] = {deed: [] for deed in Deed}
        self.by_sight: dict[Sight, SightRule] = {}
        for rule in rules:
            self._add(rule)

    def of_program(self, name: str) -> Sequence[RunRule]:
        """Its rules, also where it is called with its version."""
        found = self.by_program.get(name)
        return found if found is not None else self.by_program.get(name.rstrip("0123456789."), ())

    def _add(self, rule: Rule) -> None:
        match rule:
            case RunRule():
                for program in rule.programs:
                    self.by_program[program].append(rule)
            case PathRule():
                for deed in rule.deeds:
                    self.by_deed[deed].append(rule)
            case SightRule():
                self.by_sight[rule.sight] = rule
