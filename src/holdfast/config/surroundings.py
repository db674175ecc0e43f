"""The surroundings: what this process was told by whoever started it, for those who deal with
supervisors and need more of it than a configuration holds."""

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType


def process_environment() -> Mapping[str, str]:
    return MappingProxyType(dict(os.environ))


def pop_variables(names: Iterable[str]) -> dict[str, str]:
    """These variables, which are taken out: they were meant for this process, and neither it nor
    a program that it starts is to find them a second time."""
    found = {name: os.environ.pop(name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}
