"""The order of the whole run, and that no test judges by the speed of a machine."""

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is; what must be quick is in `bench/`.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")

# Folders by how long their slowest file takes: what takes longest begins first, so that nobody
# waits at the end. What is not named comes after them.
_LONGEST_FIRST = ("machine", "faults", "web", "service", "docs", "cli")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)  # stable: within a folder nothing changes


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(item.config.rootpath / "tests").parts[0]
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)
