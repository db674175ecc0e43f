"""Settings of the whole test run: shared fixtures, Hypothesis and the order of the files."""

from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

# No deadline: how long an example takes depends on the machine's load; `bench/` measures speed.
# Examples are the same in each run, so a failure comes from a change; `make soak` tries others.
settings.register_profile(
    "holdfast", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("holdfast")

# Fixtures that tests of several folders share, each in the module that defines its type.
pytest_plugins = [
    "tests.support.command_line",
    "tests.support.gateway_harness",
    "tests.support.gateway_process",
    "tests.support.model_process",
    "tests.support.process_harness",
    "tests.support.v1_client",
]

# One worker runs all tests of a file. The slowest files start first, so that none is left for last.
_LONGEST_FIRST = (
    "tools/browser/test_tool.py",
    "server/page/test_chat.py",
    "state_machine/test_state_machine.py",
    "faults/test_schedules.py",
    "faults/test_crash_points.py",
    "service/supervisors/test_systemd.py",
    "server/page/test_accessibility.py",
    "docs/test_readme.py",
    "service/test_handover.py",
    "server/page/test_dashboard.py",
    "server/page/test_reconnect.py",
    "docs/test_examples.py",
    "faults/test_kill_start_stop.py",
    "service/test_stop.py",
)

# The others are mixed, in the same way each time: files of one folder are much alike, and where
# all workers compute or all of them wait, half of the machine is idle. The range says where in the
# run the files of a folder may stand: slow folders are not among the last, and those that need
# servers which are still being downloaded are not among the first.
_EARLY, _ANYWHERE = (0, 700), (0, 1000)
_RANGES = {
    "docs/": _EARLY,
    "faults/": _EARLY,
    "service/": _EARLY,
    "store/": _EARLY,
    "server/page/": _EARLY,
    "platforms/": (400, 1000),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_position)  # stable: within a file nothing changes


def _position(item: pytest.Item) -> tuple[int, int]:
    file = item.path.relative_to(item.config.rootpath / "tests").as_posix()
    if file in _LONGEST_FIRST:
        return _LONGEST_FIRST.index(file), 0
    first, last = next(
        (span for folder, span in _RANGES.items() if file.startswith(folder)), _ANYWHERE
    )
    return len(_LONGEST_FIRST), first + crc32(file.encode()) % (last - first)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what tests measured: each `record_property("figure", text)`."""
    figures = [
        text
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        for name, text in report.user_properties
        if name == "figure" and report.when == "call"
    ]
    if figures:
        terminalreporter.section("figures")
        for text in figures:
            terminalreporter.line(str(text))
