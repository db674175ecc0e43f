"""Crashing on purpose: the process kills itself at a point that the fault tests name."""

import os
import signal

from holdfast.core.crash_points import Crash, CrashPoint, never
from holdfast.core.errors import HoldfastError


def crash_at(order: str) -> Crash:
    """`"end_committed:3"` dies the third time that point is passed; "" never does."""
    if not order:
        return never
    name, _, times = order.partition(":")
    if name not in list(CrashPoint) or not (times or "1").isdigit():
        points = ", ".join(CrashPoint)
        raise HoldfastError(f"HOLDFAST_CRASH_AT: {order!r} is none of POINT[:TIMES]; {points}")
    return _countdown(CrashPoint(name), int(times or 1))


def _countdown(wanted: CrashPoint, left: int) -> Crash:
    def passed(point: CrashPoint) -> None:
        nonlocal left
        if point is wanted:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return passed
