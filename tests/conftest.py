"""The order of the whole run: what takes longest begins first, so that nobody waits at the end."""

import pytest

# Folders by how long their slowest file takes; what is not named comes after them.
_LONGEST_FIRST = ("machine", "faults", "web", "service", "docs", "cli")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)  # stable: within a folder nothing changes


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(item.config.rootpath / "tests").parts[0]
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)
