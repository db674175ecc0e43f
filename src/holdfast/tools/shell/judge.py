"""The judge: the worst thing that a command may do, according to the rules."""

import re
from collections.abc import Iterator

from holdfast.core.people.approval import HARMLESS, CommandRisk, CommandVerdict
from holdfast.tools.shell.invocation import FoundHazard, Hazard, PathAction, to_excerpt
from holdfast.tools.shell.markers import UNKNOWN, sanitise
from holdfast.tools.shell.parser import BashParser, ScriptTooComplex
from holdfast.tools.shell.path_effects import path_effects_of
from holdfast.tools.shell.paths import PathResolver
from holdfast.tools.shell.rules.base import ShellRule
from holdfast.tools.shell.rules.table import RuleTable
from holdfast.tools.shell.walker import ScriptWalker

MAX_COMMAND = 100_000

_SEVERITY = {CommandRisk.HARMLESS: 0, CommandRisk.DANGEROUS: 1, CommandRisk.FORBIDDEN: 2}
# A script that cannot be parsed is a hazard only if it contains one of these, which a shell might
# still run; otherwise it is a mistake that the shell will report.
_RISKY_WORDS = re.compile(
    r"\b(rm|dd|mkfs\S*|sudo|su|doas|shutdown|reboot|halt|poweroff|eval|exec|source|chmod|chown|kill"
    r"|pkill|killall|curl|wget|nc|ssh|scp|sh|bash|zsh|dash|git\s+(push|reset|clean)|drop|truncate"
    r"|crontab|shred|wipefs|mv|base64|xxd|python\d?|perl|ruby|node|find|xargs|terraform|kubectl|aws"
    r"|docker)\b|/dev/(sd|nvme|vd|tcp)|>\s*/|:\(\)|\\x|\$'",
    re.IGNORECASE,
)


class ShellJudge:
    """Owns the parser and the rules; it keeps no state between commands.

    `workspaces` are the folders where deleting is everyday work. `home` is treated as a person's
    home even if the sandbox has another one: the judge must not depend on the sandbox."""

    def __init__(
        self, *, workspaces: tuple[str, ...] = ("/workspace",), home: str = "/home/agent"
    ) -> None:
        self._paths = PathResolver(workspaces=workspaces, home=home)
        self._parser = BashParser()
        self._rules = RuleTable()

    def judge(self, command: str) -> CommandVerdict:
        """The worst finding in the command, parsed as a shell would."""
        if len(command) > MAX_COMMAND:
            return self._judgement(self._rules.by_hazard[Hazard.TOO_COMPLEX], to_excerpt(command))
        worst = HARMLESS
        for rule, part in self._findings(sanitise(command)):
            if _SEVERITY[rule.level] > _SEVERITY[worst.level]:
                worst = self._judgement(rule, part)
        return worst

    @staticmethod
    def _judgement(rule: ShellRule, part: str) -> CommandVerdict:
        why = rule.why.format(part=part)
        return CommandVerdict(level=rule.level, rule=rule.name, why=why, part=part)

    def _findings(self, command: str) -> Iterator[tuple[ShellRule, str]]:
        walker = ScriptWalker(self._parser, self._paths)
        try:
            walker.walk_script(command)
        except (ScriptTooComplex, RecursionError):
            # What was found up to there still counts.
            walker.hazards.append(FoundHazard(hazard=Hazard.TOO_COMPLEX, part=to_excerpt(command)))
        for found in walker.hazards:
            if found.hazard != Hazard.UNREADABLE or _RISKY_WORDS.search(command):
                yield self._rules.by_hazard[found.hazard], found.part
        yield from self._program_findings(walker)
        yield from self._path_findings(walker)

    def _program_findings(self, walker: ScriptWalker) -> Iterator[tuple[ShellRule, str]]:
        for run in walker.programs:
            for rule in self._rules.for_program(run.program):
                if rule.matches(run):
                    yield rule, run.excerpt
            walker.path_effects.extend(path_effects_of(run))

    def _path_findings(self, walker: ScriptWalker) -> Iterator[tuple[ShellRule, str]]:
        for effect in walker.path_effects:
            path = effect.path.rstrip()
            if not path or (path == UNKNOWN and effect.action is not PathAction.DELETE):
                continue
            location = effect.paths.locate(path)
            for rule in self._rules.by_action[effect.action]:
                if rule.matches(effect, location):
                    yield rule, to_excerpt(path)
