"""The judge: the worst thing that a command may do, according to the rules."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from holdfast.core.people.approval import HARMLESS, CommandRisk, CommandVerdict
from holdfast.tools.shell.invocation import FoundHazard, Hazard, PathAction, to_excerpt
from holdfast.tools.shell.markers import UNKNOWN, sanitise
from holdfast.tools.shell.parser import BashParser, ScriptTooComplex
from holdfast.tools.shell.path_effects import path_effects_of
from holdfast.tools.shell.paths import PathResolver
from holdfast.tools.shell.rules import base, files, machine, network, services
from holdfast.tools.shell.rules import files as permissions
from holdfast.tools.shell.rules import files as secrets
from holdfast.tools.shell.rules import files as system_files
from holdfast.tools.shell.rules import machine as disks
from holdfast.tools.shell.rules import machine as privilege
from holdfast.tools.shell.rules import machine as security
from holdfast.tools.shell.rules import network as sending
from holdfast.tools.shell.rules import services as history
from holdfast.tools.shell.rules import services as infrastructure
from holdfast.tools.shell.rules.base import HazardRule, PathRule, ProgramRule, ShellRule
from holdfast.tools.shell.walker import ScriptWalker

ALL_RULES: tuple[ShellRule, ...] = (
    *files.DELETION_RULES,
    *disks.DISK_RULES,
    *machine.MACHINE_RULES,
    *permissions.PERMISSION_RULES,
    *privilege.PRIVILEGE_RULES,
    *system_files.SYSTEM_FILE_RULES,
    *secrets.SECRET_RULES,
    *sending.UPLOAD_RULES,
    *history.GIT_RULES,
    *services.DATABASE_RULES,
    *network.PUBLISHING_RULES,
    *infrastructure.INFRASTRUCTURE_RULES,
    *security.SECURITY_RULES,
    *base.HAZARD_RULES,
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


MAX_COMMAND = 100_000

_SEVERITY = {CommandRisk.HARMLESS: 0, CommandRisk.DANGEROUS: 1, CommandRisk.FORBIDDEN: 2}
# A text that the grammar cannot read matters if it has one of these where a shell might still
# find them; the rest of it is a mistake that the shell will tell its author about.
_RISKY_WORDS = re.compile(
    r"\b(rm|dd|mkfs\S*|sudo|su|doas|shutdown|reboot|halt|poweroff|eval|exec|source|chmod|chown|kill"
    r"|pkill|killall|curl|wget|nc|ssh|scp|sh|bash|zsh|dash|git\s+(push|reset|clean)|drop|truncate"
    r"|crontab|shred|wipefs|mv|base64|xxd|python\d?|perl|ruby|node|find|xargs|terraform|kubectl|aws"
    r"|docker)\b|/dev/(sd|nvme|vd|tcp)|>\s*/|:\(\)|\\x|\$'",
    re.IGNORECASE,
)


class ShellJudge:
    """Owns the grammar and the rules; nothing of one command is kept for the next.

    `workspaces` are the folders where deleting is everyday work. `home` is read as a person's
    home even where the sandbox has another: a second fence must not lean on the first."""

    def __init__(
        self, *, workspaces: tuple[str, ...] = ("/workspace",), home: str = "/home/agent"
    ) -> None:
        self._paths = PathResolver(workspaces=workspaces, home=home)
        self._parser = BashParser()
        self._rules = RuleTable()

    def judge(self, command: str) -> CommandVerdict:
        """The worst thing that the command, as a shell would read it, may do."""
        if len(command) > MAX_COMMAND:
            return self._judgement(self._rules.by_hazard[Hazard.TOO_COMPLEX], to_excerpt(command))
        worst = HARMLESS
        for rule, part in self._findings(sanitise(command)):
            if _SEVERITY[rule.level] > _SEVERITY[worst.level]:
                worst = self._judgement(rule, part)
        return worst

    @staticmethod
    def _judgement(rule: ShellRule, part: str) -> CommandVerdict:
        why = rule.why.replace("{part}", part)
        return CommandVerdict(level=rule.level, rule=rule.name, why=why, part=part)

    def _findings(self, command: str) -> Iterator[tuple[ShellRule, str]]:
        reading = ScriptWalker(self._parser, self._paths)
        try:
            reading.walk_script(command)
        except (ScriptTooComplex, RecursionError):
            # What was found up to there still counts.
            reading.hazards.append(FoundHazard(hazard=Hazard.TOO_COMPLEX, part=to_excerpt(command)))
        for seen in reading.hazards:
            if seen.hazard != Hazard.UNREADABLE or _RISKY_WORDS.search(command):
                yield self._rules.by_hazard[seen.hazard], seen.part
        yield from self._program_findings(reading)
        yield from self._path_findings(reading)

    def _program_findings(self, walker: ScriptWalker) -> Iterator[tuple[ShellRule, str]]:
        for run in walker.programs:
            for rule in self._rules.for_program(run.program):
                if rule.matches(run):
                    yield rule, run.excerpt
            walker.path_effects.extend(path_effects_of(run))

    def _path_findings(self, walker: ScriptWalker) -> Iterator[tuple[ShellRule, str]]:
        for touch in walker.path_effects:
            path = touch.path.rstrip()
            if not path or (path == UNKNOWN and touch.action not in ("delete",)):
                continue
            ground = touch.paths.locate(path)
            for rule in self._rules.by_action[touch.action]:
                if rule.matches(touch, ground):
                    yield rule, to_excerpt(path)
