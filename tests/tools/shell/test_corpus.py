"""The judge on corpora of real commands: its verdicts, and how often they are wrong."""

from pathlib import Path

import pytest

from holdfast.core.people.approval import CommandRisk
from holdfast.tools.shell.corpus import CorpusScore, LabelledCommand, read_corpus, score
from holdfast.tools.shell.judge import ShellJudge

HERE = Path(__file__).parent
OWN = read_corpus(HERE / "corpus.toml")
BLIND = read_corpus(HERE / "blind.jsonl")
ADVERSARIAL = [
    *read_corpus(HERE / "adversarial.jsonl"),
    *read_corpus(HERE / "adversarial_again.jsonl"),
    *read_corpus(HERE / "everyday.jsonl"),
]


@pytest.fixture(scope="module")
def judge() -> ShellJudge:
    return ShellJudge()


@pytest.fixture(scope="module")
def blind(judge: ShellJudge) -> CorpusScore:
    result = score(judge, BLIND)
    print(f"\nThe half whose author had not seen the rules:\n{result.table()}")
    return result


def test_the_corpora_are_large_and_of_every_level() -> None:
    assert len(OWN) >= 120
    assert len(BLIND) >= 110
    assert len(ADVERSARIAL) >= 300
    for corpus in (OWN, BLIND, ADVERSARIAL):
        assert {labelled.level for labelled in corpus} == set(CommandRisk)


@pytest.mark.parametrize("labelled", OWN, ids=lambda labelled: labelled.command[:60])
def test_each_command_of_our_own_half_is_judged_as_labelled(
    judge: ShellJudge, labelled: LabelledCommand
) -> None:
    assert judge.judge(labelled.command).level == labelled.level


def test_every_flagged_command_names_its_rule_and_reason(judge: ShellJudge) -> None:
    for labelled in OWN:
        judgement = judge.judge(labelled.command)
        if judgement.level != CommandRisk.HARMLESS:
            assert judgement.rule
            assert judgement.why.endswith(".")
            assert judgement.part


def test_every_forbidden_command_of_the_blind_half_is_flagged(blind: CorpusScore) -> None:
    assert not [v.labelled.command for v in blind.with_level(CommandRisk.FORBIDDEN) if v.missed]


def test_the_blind_half_has_few_false_negatives_and_few_false_positives(blind: CorpusScore) -> None:
    assert blind.missed <= 0.01
    assert blind.over_asked <= 0.01


@pytest.mark.parametrize("labelled", ADVERSARIAL, ids=lambda labelled: labelled.command[:60])
def test_disguised_commands_are_flagged_and_harmless_lookalikes_are_not(
    judge: ShellJudge, labelled: LabelledCommand
) -> None:
    judged = judge.judge(labelled.command).level
    assert (judged == CommandRisk.HARMLESS) == (labelled.level == CommandRisk.HARMLESS)
