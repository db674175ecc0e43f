"""The judge: the worst thing that a command may do, by the rules."""

import re
from collections.abc import Iterator

from holdfast.core.people.judgement import HARMLESS, Judgement, Level
from holdfast.tools.shell.grammar import Grammar
from holdfast.tools.shell.limits import Tangled
from holdfast.tools.shell.markers import UNKNOWN, cleaned
from holdfast.tools.shell.paths import Place
from holdfast.tools.shell.reading import Reading
from holdfast.tools.shell.rules.rule import Rule
from holdfast.tools.shell.run import Seen, Sight, part_of
from holdfast.tools.shell.table import Table
from holdfast.tools.shell.touching import touches_of

LONGEST = 100_000

_SEVERITY = {Level.HARMLESS: 0, Level.DANGEROUS: 1, Level.HOPELESS: 2}
# A text that the grammar cannot read matters if it has one of these where a shell might still
# find them; the rest of it is a mistake that the shell will tell its author about.
_MATTERS = re.compile(
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
        self._place = Place(workspaces=workspaces, home=home)
        self._grammar = Grammar()
        self._table = Table()

    def judge(self, command: str) -> Judgement:
        """The worst thing that the command, as a shell would read it, may do."""
        if len(command) > LONGEST:
            return self._judgement(self._table.by_sight[Sight.TANGLED], part_of(command))
        worst = HARMLESS
        for rule, part in self._findings(cleaned(command)):
            if _SEVERITY[rule.level] > _SEVERITY[worst.level]:
                worst = self._judgement(rule, part)
        return worst

    @staticmethod
    def _judgement(rule: Rule, part: str) -> Judgement:
        why = rule.why.replace("{part}", part)
        return Judgement(level=rule.level, rule=rule.name, why=why, part=part)

    def _findings(self, command: str) -> Iterator[tuple[Rule, str]]:
        reading = Reading(self._grammar, self._place)
        try:
            reading.read(command)
        except (Tangled, RecursionError):
            # What was found up to there still counts.
            reading.seen.append(Seen(sight=Sight.TANGLED, part=part_of(command)))
        for seen in reading.seen:
            if seen.sight != Sight.UNREADABLE or _MATTERS.search(command):
                yield self._table.by_sight[seen.sight], seen.part
        yield from self._of_runs(reading)
        yield from self._of_paths(reading)

    def _of_runs(self, reading: Reading) -> Iterator[tuple[Rule, str]]:
        for run in reading.runs:
            for rule in self._table.of_program(run.program):
                if rule.sees(run):
                    yield rule, run.said
            reading.touches.extend(touches_of(run))

    def _of_paths(self, reading: Reading) -> Iterator[tuple[Rule, str]]:
        for touch in reading.touches:
            path = touch.path.rstrip()
            if not path or (path == UNKNOWN and touch.deed not in ("delete",)):
                continue
            ground = touch.place.ground(path)
            for rule in self._table.by_deed[touch.deed]:
                if rule.sees(touch, ground):
                    yield rule, part_of(path)
