"""Crashing on purpose: the process kills itself at a point that the fault tests name."""

import os
import signal

from holdfast.core.crash_points import CrashHook, CrashPoint, no_crash
from holdfast.core.errors import HoldfastError


def parse_crash_point(spec: str) -> CrashHook:
    """`"end_committed:3"` dies the third time that point is passed; "" never does."""
    if not spec:
        return no_crash
    name, _, times = spec.partition(":")
    if name not in list(CrashPoint) or not (times or "1").isdigit():
        points = ", ".join(CrashPoint)
        raise HoldfastError(f"HOLDFAST_CRASH_AT: {spec!r} is none of POINT[:TIMES]; {points}")
    return _countdown(CrashPoint(name), int(times or 1))


def _countdown(target: CrashPoint, left: int) -> CrashHook:
    def passed(point: CrashPoint) -> None:
        nonlocal left
        if point is target:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return passed
