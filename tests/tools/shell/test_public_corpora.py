"""The judge on commands from public sources, of which it has seen one half."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.people.approval import CommandRisk
from holdfast.tools.shell.corpus import CorpusHalf, CorpusScore, read_corpus, score
from holdfast.tools.shell.judge import ShellJudge

# Of the held-out half. The seen half has rules for nearly all of its commands.
MOST_MISSED = 0.05
MOST_ASKED_NEEDLESSLY = 0.02
CORPORA = Path(__file__).parent / "corpora"
DANGEROUS = read_corpus(CORPORA / "dangerous.toml")
HARMLESS = read_corpus(CORPORA / "harmless.toml")


@pytest.fixture(scope="module")
def scores() -> dict[CorpusHalf, CorpusScore]:
    judge = ShellJudge()
    judge.judge("true")  # loads the grammar
    return {
        half: score(judge, [one for one in (*DANGEROUS, *HARMLESS) if one.half == half])
        for half in CorpusHalf
    }


def test_the_public_corpora_are_large_and_every_command_has_a_source_and_one_label() -> None:
    assert len(DANGEROUS) >= 300
    assert len(HARMLESS) >= 300
    commands = [one.command for one in (*DANGEROUS, *HARMLESS)]
    assert len(set(commands)) == len(commands)
    for name in ("dangerous.toml", "harmless.toml"):
        for page in tomllib.loads((CORPORA / name).read_text())["page"]:
            assert page["source"].startswith(("https://", "http://")) or ": " in page["source"]


@pytest.mark.parametrize("level", [CommandRisk.DANGEROUS, CommandRisk.HARMLESS])
def test_each_half_has_many_commands_of_each_label(
    scores: dict[CorpusHalf, CorpusScore], level: CommandRisk
) -> None:
    for half in CorpusHalf:
        assert len(scores[half].with_level(level)) >= 200


@pytest.mark.parametrize("half", list(CorpusHalf))
def test_few_dangerous_commands_are_missed_and_few_harmless_ones_are_asked_about(
    scores: dict[CorpusHalf, CorpusScore],
    half: CorpusHalf,
    record_property: Callable[[str, object], None],
) -> None:
    figure = f"judge, {half} half of the public corpora: {scores[half].rates()}"
    print(f"\n{figure}")
    record_property("figure", figure)
    assert scores[half].missed <= MOST_MISSED
    assert scores[half].over_asked <= MOST_ASKED_NEEDLESSLY
