"""The mutants are fresh: each still applies to the source, and names tests that are there.

Whether those tests notice it is for `make mutants` to say, which takes minutes.
"""

from pathlib import Path

import pytest
from tests.mutants.mutants import ROOT, Mutant, copy_tree, known

TWENTY = 20
# The faults that no suite of this kind may let pass.
CLASSIC = {
    "g1_ack_before_commit",
    "g2_duplicate_event_accepted",
    "h1_cancellation_loses_closing_write",
    "h2_never_class_call_replayed",
    "i3_deliveries_overtake_in_a_chat",
    "i2_unknown_outcome_resent_forever",
    "f6_interruption_noted_twice",
    "f7_interruption_counter_not_persisted",
}
# The lines of the contract on the way of a message: in, through its turn, and out.
WAY = "G1 G2 G3 G4 G5 H1 H2 H3 H4 H5 H6 H7 F5 F6 F7 I1 I2 I3 I4"


def test_there_are_twenty_deliberate_faults_or_more() -> None:
    assert len(known()) >= TWENTY
    assert {each.name for each in known()} >= CLASSIC


def test_every_line_on_the_way_of_a_message_is_broken_by_some_fault() -> None:
    assert set(WAY.split()) <= {each.breaks.partition(":")[0] for each in known()}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutants")


@pytest.mark.parametrize("mutant", known(), ids=lambda each: each.name)
def test_a_mutant_applies_to_the_source_and_names_tests_that_exist(
    trees: Path, mutant: Mutant
) -> None:
    """A patch that went stale breaks nothing, and would be called killed for no merit of ours."""
    tree = trees / mutant.name
    copy_tree(tree, only=mutant.changes)
    before = {name: (tree / name).read_text() for name in mutant.changes}
    assert mutant.apply(tree) == ""
    assert all((tree / name).read_text() != before[name] for name in before)
    assert mutant.files
    assert [name for name in mutant.files if not (ROOT / name).is_file()] == []
