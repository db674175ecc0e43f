"""docs/simulated.md: every option and fault there is, and programs that run."""

import subprocess
import sys

from tests.docs.conftest import Pages

from holdfast.platforms.simulated.wire import Faults


def test_the_page_has_every_option_and_no_other(page: Pages) -> None:
    told = {name for name in page("docs/simulated.md").named() if name.startswith("--")}
    program = [sys.executable, "-m", "holdfast.platforms.simulated", "--help"]
    helped = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    words = helped.replace("[", " ").replace(",", " ").replace("]", " ").split()
    assert told == {word for word in words if word.startswith("--")} - {"--help"}


def test_the_page_has_every_fault_and_no_other(page: Pages) -> None:
    told = set(page("docs/simulated.md").named())
    assert {name for name in told if not name.startswith("--") and " " not in name} == set(
        Faults.__struct_fields__
    )


def test_the_program_of_the_page_runs(page: Pages) -> None:
    """G2: what is given twice is accepted once."""
    [block] = [block for block in page("docs/simulated.md").blocks if block.language == "python"]
    program = [sys.executable, "-W", "error", "-c", block.text]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=50, check=True)
    assert ran.stdout == "2 handed over, 1 accepted\n"
