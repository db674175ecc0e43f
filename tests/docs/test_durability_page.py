"""docs/durability.md: its picture has every crash point, and its figures are those of the tests."""

from xml.etree import ElementTree

from tests.faults.crash_point_groups import all_pairs
from tests.faults.random_schedule import (
    CHAINS,
    RUNS_PER_CHAIN,
    SOAK_CHAINS,
    SOAK_RUNS_PER_CHAIN,
    SOAK_TESTS,
    VENDORS,
)
from tests.mutants.mutants import ROOT
from tests.support.doc_pages import Pages

from holdfast.core.crash_points import CrashPoint

PICTURE = "docs/pictures/crash-points.svg"


def test_every_crash_point_is_on_the_path_of_a_message() -> None:
    drawn = ElementTree.parse(ROOT / PICTURE).iter("{http://www.w3.org/2000/svg}text")
    names = {text.text for text in drawn if text.get("class") == "name"}
    assert names == {point.value for point in CrashPoint}


def test_the_figures_of_the_page_are_those_of_the_tests(page: Pages) -> None:
    text = page("docs/durability.md").text
    assert f"{len(VENDORS) * CHAINS * RUNS_PER_CHAIN} in `make test`" in text
    assert f"{SOAK_TESTS * SOAK_CHAINS * SOAK_RUNS_PER_CHAIN:,} in `make soak`" in text
    assert f"all {len(list(all_pairs()))} pairs" in text


def test_the_figures_of_the_readme_are_those_of_the_tests(page: Pages) -> None:
    text = page("README.md").text
    assert f"{len(CrashPoint)} crash points" in text
    assert f"{SOAK_TESTS * SOAK_CHAINS * SOAK_RUNS_PER_CHAIN:,} random schedules" in text
    assert len([*(ROOT / "tests/mutants").glob("*.patch")]) > 100
