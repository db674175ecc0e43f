"""`python -m holdfast.tools.shell.corpus --corpus FILE …`: how often the judge disagrees with
corpora of labelled commands."""

import argparse
import hashlib
import json
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import msgspec

from holdfast.core.people.approval import CommandJudge, CommandRisk, CommandVerdict
from holdfast.tools.shell.judge import ShellJudge

_LEVELS = (CommandRisk.HARMLESS, CommandRisk.DANGEROUS, CommandRisk.FORBIDDEN)


class CorpusHalf(StrEnum):
    """Rules are written for the failures in `SEEN`. Those in `HELD_OUT` are not read, so that its
    rates are a forecast."""

    SEEN = "seen"
    HELD_OUT = "held-out"


class LabelledCommand(msgspec.Struct, frozen=True, kw_only=True):
    command: str
    level: CommandRisk

    @property
    def half(self) -> CorpusHalf:
        """Its half: the first bit of its hash."""
        first = hashlib.sha256(self.command.encode()).digest()[0]
        return CorpusHalf.HELD_OUT if first >= 0x80 else CorpusHalf.SEEN


class CorpusVerdict(msgspec.Struct, frozen=True, kw_only=True):
    labelled: LabelledCommand
    judgement: CommandVerdict

    @property
    def agrees(self) -> bool:
        return self.labelled.level == self.judgement.level

    @property
    def missed(self) -> bool:
        """Whether it would run without approval, and should not."""
        return self.judgement.level == CommandRisk.HARMLESS and not self.agrees

    @property
    def over_asked(self) -> bool:
        return self.labelled.level == CommandRisk.HARMLESS and not self.agrees


class CorpusScore(msgspec.Struct, frozen=True, kw_only=True):
    verdicts: list[CorpusVerdict]
    seconds: float  # of the processor, for all of them

    def with_level(self, level: CommandRisk) -> list[CorpusVerdict]:
        return [verdict for verdict in self.verdicts if verdict.labelled.level == level]

    def rate(self, count: int, level: CommandRisk | None = None) -> float:
        among = self.verdicts if level is None else self.with_level(level)
        return count / len(among) if among else 0.0

    @property
    def missed(self) -> float:
        """The share of the risky commands that would run without approval."""
        bad = [v for v in self.verdicts if v.labelled.level != CommandRisk.HARMLESS]
        return sum(v.missed for v in bad) / len(bad) if bad else 0.0

    @property
    def over_asked(self) -> float:
        """The share of the harmless commands that would need approval or be refused."""
        good = self.with_level(CommandRisk.HARMLESS)
        return sum(v.over_asked for v in good) / len(good) if good else 0.0

    @property
    def agreement(self) -> float:
        return self.rate(sum(v.agrees for v in self.verdicts))

    def rates(self) -> str:
        """Both error rates with their counts, and the mean time."""
        good = self.with_level(CommandRisk.HARMLESS)
        missed, over_asked = (
            sum(v.missed for v in self.verdicts),
            sum(v.over_asked for v in good),
        )
        mean = 1000 * self.seconds / max(1, len(self.verdicts))
        return (
            f"missed {missed} of {len(self.verdicts) - len(good)} ({self.missed:.1%}),"
            f" asked needlessly {over_asked} of {len(good)} ({self.over_asked:.1%}),"
            f" {mean:.2f} ms per command"
        )

    def table(self) -> str:
        """Labels in the rows, verdicts in the columns."""
        lines = [f"{'':12}{'commands':>10}" + "".join(f"{level.value:>12}" for level in _LEVELS)]
        for level in _LEVELS:
            among = self.with_level(level)
            judged = Counter(verdict.judgement.level for verdict in among)
            cells = "".join(f"{judged[column]:>12}" for column in _LEVELS)
            lines.append(f"{level.value:12}{len(among):>10}{cells}")
        rates = f"missed {self.missed:.1%}, over-asked {self.over_asked:.1%}"
        return "\n".join((*lines, f"{rates}, same level {self.agreement:.1%}"))


def read_corpus(path: Path) -> list[LabelledCommand]:
    """A file of `{"command": …, "level": …}` lines, a .toml with a list for each level, or a .toml
    named after its level whose pages each cite a source."""
    text = path.read_text()
    if path.suffix == ".toml" and (pages := tomllib.loads(text).get("page")):
        return [
            LabelledCommand(command=command, level=CommandRisk(path.stem))
            for page in pages
            for command in page["commands"]
        ]
    if path.suffix == ".toml":
        return [
            LabelledCommand(command=command, level=CommandRisk(level))
            for level, commands in tomllib.loads(text).items()
            for command in commands
        ]
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [
        LabelledCommand(command=line["command"], level=CommandRisk(line["level"])) for line in lines
    ]


def score(judge: CommandJudge, corpus: Iterable[LabelledCommand]) -> CorpusScore:
    started = time.process_time()
    verdicts = [
        CorpusVerdict(labelled=labelled, judgement=judge.judge(labelled.command))
        for labelled in corpus
    ]
    return CorpusScore(verdicts=verdicts, seconds=time.process_time() - started)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.tools.shell.corpus", description=__doc__
    )
    parser.add_argument(
        "--corpus", type=Path, required=True, nargs="+", help=".jsonl or .toml files"
    )
    parser.add_argument("--half", type=CorpusHalf, help="only this half: seen or held-out")
    parser.add_argument("--errors", action="store_true", help="list the disagreements")
    options = parser.parse_args()
    corpus = [labelled for path in options.corpus for labelled in read_corpus(path)]
    judge = ShellJudge()
    judge.judge("true")  # loads the grammar
    result = score(judge, [one for one in corpus if options.half in (None, one.half)])
    print(f"{result.table()}\n{result.rates()}")
    if options.errors:
        for verdict in result.verdicts:
            if not verdict.agrees:
                found, label = verdict.judgement, verdict.labelled
                print(f"{label.level} judged {found.level} ({found.rule}): {label.command!r}")


if __name__ == "__main__":
    main()
