"""The second hearing: what turned red among many is run once more, alone.

Thousands of tests drive browsers, servers and processes that are killed, three at a time, on a
machine that others may use as well. A test that is red there and green by itself nearly always
tells of the machine. It does not fail the run, and is named at its end, for whoever mends it.
"""

import re
import subprocess
import sys
from collections.abc import Generator

import pytest
from xdist import is_xdist_worker

# A machine does not turn more than this red; a fault in the source does. Tests of one file share a
# server or a browser, and turn red together where that one fails.
MOST, MOST_FILES = 20, 3


class BrokenLaw(AssertionError):
    """What must hold in every run did not hold in this one. That is never heard again."""


_BROKEN = re.compile(rf"^E .*\b{BrokenLaw.__name__}\b", re.MULTILINE)  # also as somebody's cause


class Hearing:
    """Owns the names of those that turned red in this run, and whether it is red in any case."""

    def __init__(self) -> None:
        self._red: dict[str, None] = {}
        self._final = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._final = self._final or report.failed  # nobody has run what is in that file

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        self._final = self._final or error is not None  # nor what that worker was to run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._red[report.nodeid] = None
            self._final = self._final or _BROKEN.search(report.longreprtext) is not None

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after the summary of the run is printed
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        yield
        whole = not (session.shouldfail or session.shouldstop)
        failed = session.exitstatus == pytest.ExitCode.TESTS_FAILED
        if whole and failed and self._may_be_heard() and self._green_alone():
            print("Green alone, red among others: to be mended", *self._red, sep="\n  ")
            session.exitstatus = pytest.ExitCode.OK

    def _may_be_heard(self) -> bool:
        files = {name.partition("::")[0] for name in self._red}
        few = 0 < len(self._red) <= MOST and len(files) <= MOST_FILES
        return few and not self._final

    def _green_alone(self) -> bool:
        """Each of them: one that is skipped now has not been heard."""
        print(f"\nHeard again, alone: {', '.join(self._red)}", flush=True)
        command = [sys.executable, "-m", "pytest", "-n0", *self._red]
        again = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        print(again.stdout, flush=True)
        passed = re.search(r"\b(\d+) passed", again.stdout)
        return again.returncode == 0 and passed is not None and int(passed[1]) == len(self._red)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--hear-again", action="store_true", help="run what turned red once more")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("--hear-again") and not is_xdist_worker(session):
        session.config.pluginmanager.register(Hearing(), "hearing")
