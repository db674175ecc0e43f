"""The mutants are fresh: each still applies to the source, and names tests that are there.

Whether those tests notice it is for `make mutants` to say, which takes minutes.
"""

from pathlib import Path

import pytest
from tests.mutants.mutants import ROOT, Mutant, copy_tree, known

TWENTY = 20


def test_there_are_twenty_deliberate_faults_or_more() -> None:
    assert len(known()) >= TWENTY


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
