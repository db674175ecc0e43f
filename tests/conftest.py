"""The order of the whole run, and that no test judges by the speed of a machine."""

from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is; what must be quick is in `bench/`. And
# examples are the same in each run: one that turns red has to do with what was changed. Other
# lives of the machine are looked for by `make soak`.
settings.register_profile(
    "holdfast", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("holdfast")

pytest_plugins = ["tests.hearing"]

# A file is run by one worker, and what takes longest begins first, so that nobody waits at the end.
_LONGEST_FIRST = (
    "tools/test_browser.py",
    "web/test_chat.py",
    "machine/test_lives.py",
    "faults/test_schedules.py",
    "faults/test_crash_points.py",
    "service/test_under_systemd.py",
    "web/test_access.py",
    "docs/test_readme.py",
    "faults/test_succession.py",
    "web/test_dashboard.py",
    "web/test_reconnecting.py",
    "docs/test_examples.py",
    "faults/test_kill_start_stop.py",
    "faults/test_stop_process.py",
)

# The others are mixed, and in the same way each time: the files of a folder are much alike, and
# where all workers compute or all of them wait, the machine does one thing only. From where to
# where in the run those of a folder may stand: what takes long is not among the last, and what
# needs servers that are still being fetched is not among the first.
_LONG, _ANYWHERE = (0, 700), (0, 1000)
_BETWEEN = {
    "docs": _LONG,
    "faults": _LONG,
    "service": _LONG,
    "web": _LONG,
    "platforms": (400, 1000),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)  # stable: within a file nothing changes


def _place(item: pytest.Item) -> tuple[int, int]:
    file = item.path.relative_to(item.config.rootpath / "tests").as_posix()
    if file in _LONGEST_FIRST:
        return _LONGEST_FIRST.index(file), 0
    first, last = _BETWEEN.get(file.partition("/")[0], _ANYWHERE)
    return len(_LONGEST_FIRST), first + crc32(file.encode()) % (last - first)
