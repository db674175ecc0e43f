"""Pytest plugin: runs the failed tests of a parallel run once more, alone (`--rerun-failed`).

Thousands of tests drive browsers, servers and processes that are killed, three at a time, on a
machine that may be busy otherwise. A test that fails there and passes alone is nearly always too
sensitive to load. It does not fail the run, and the last lines name it as one to fix.
"""

import re
import subprocess
import sys
from collections.abc import Generator

import pytest
from xdist import is_xdist_worker

# Load does not make more tests fail than this; a fault in the source does. Tests of one file share
# a server or a browser, and fail together when that one fails.
MAX_TESTS, MAX_FILES = 20, 3


class ConservationError(AssertionError):
    """Something was lost or done twice. Such a failure is never rerun."""


_BROKEN = re.compile(
    rf"^E .*\b{ConservationError.__name__}\b", re.MULTILINE
)  # also as the cause of another error


class FailedTestRerun:
    """Collects the failed tests of this run, and whether the run fails whatever a rerun says."""

    def __init__(self) -> None:
        self._failed: dict[str, None] = {}
        self._final = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._final = self._final or report.failed  # the tests of that file did not run

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        self._final = self._final or error is not None  # nor did those of a dead worker

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None
            self._final = self._final or _BROKEN.search(report.longreprtext) is not None

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after the summary of the run is printed
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        yield
        whole = not (session.shouldfail or session.shouldstop)
        failed = session.exitstatus == pytest.ExitCode.TESTS_FAILED
        if whole and failed and self._may_rerun() and self._pass_alone():
            print("Passed alone, failed among others; please fix:", *self._failed, sep="\n  ")
            session.exitstatus = pytest.ExitCode.OK

    def _may_rerun(self) -> bool:
        files = {name.partition("::")[0] for name in self._failed}
        few = 0 < len(self._failed) <= MAX_TESTS and len(files) <= MAX_FILES
        return few and not self._final

    def _pass_alone(self) -> bool:
        """Whether each test passes; a test that is skipped now does not count as passed."""
        print(f"\nRerun, alone: {', '.join(self._failed)}", flush=True)
        command = [sys.executable, "-m", "pytest", "-n0", *self._failed]
        again = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        print(again.stdout, flush=True)
        passed = re.search(r"\b(\d+) passed", again.stdout)
        return again.returncode == 0 and passed is not None and int(passed[1]) == len(self._failed)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rerun-failed", action="store_true", help="run failed tests once more, alone"
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.getoption("--rerun-failed") and not is_xdist_worker(session):
        session.config.pluginmanager.register(FailedTestRerun(), "rerun_failed")
