"""What jobs take: processor time and memory of all that each has started, as /proc shows them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from . import tree

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


class ResourceUsage(NamedTuple):
    cpu: float  # seconds, of those that have ended too
    memory: int  # bytes that are resident


def resource_usage(keepers: Sequence[int]) -> dict[int, ResourceUsage]:
    """For each keeper, what is below it. The keeper itself is ours, and not reckoned: but it has
    reaped what ended, and the kernel counts that there."""
    fields = dict(_all_stat_fields()) if keepers else {}
    below: dict[int, list[int]] = {}
    for pid, each in fields.items():
        below.setdefault(int(each[1]), []).append(pid)
    return {keeper: _usage_below(keeper, fields, below) for keeper in keepers}


def _usage_below(
    keeper: int, fields: dict[int, list[str]], below: dict[int, list[int]]
) -> ResourceUsage:
    found = list(below.get(keeper, ()))
    for pid in found:
        found.extend(below.get(pid, ()))
    ticks = sum(map(int, fields[keeper][13:15])) if keeper in fields else 0
    ticks += sum(sum(map(int, fields[pid][11:15])) for pid in found)
    return ResourceUsage(
        cpu=ticks / _TICKS_PER_SECOND,
        memory=sum(int(fields[pid][21]) for pid in found) * _PAGE_SIZE,
    )


def _all_stat_fields() -> list[tuple[int, list[str]]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append((int(name), tree.stat_fields(int(name))))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
    return found
