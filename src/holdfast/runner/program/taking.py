"""What jobs take: processor time and memory of all that each has started, as /proc shows them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from . import tree

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Taken(NamedTuple):
    cpu: float  # seconds, of those that have ended too
    memory: int  # bytes that are resident


def taken(keepers: Sequence[int]) -> dict[int, Taken]:
    """For each keeper, what is below it. The keeper itself is ours, and not reckoned: but it has
    reaped what ended, and the kernel counts that there."""
    fields = dict(_all()) if keepers else {}
    below: dict[int, list[int]] = {}
    for pid, each in fields.items():
        below.setdefault(int(each[1]), []).append(pid)
    return {keeper: _of(keeper, fields, below) for keeper in keepers}


def _of(keeper: int, fields: dict[int, list[str]], below: dict[int, list[int]]) -> Taken:
    found = list(below.get(keeper, ()))
    for pid in found:
        found.extend(below.get(pid, ()))
    ticks = sum(map(int, fields[keeper][13:15])) if keeper in fields else 0
    ticks += sum(sum(map(int, fields[pid][11:15])) for pid in found)
    return Taken(cpu=ticks / _TICK, memory=sum(int(fields[pid][21]) for pid in found) * _PAGE)


def _all() -> list[tuple[int, list[str]]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append((int(name), tree.stat_fields(int(name))))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
    return found
