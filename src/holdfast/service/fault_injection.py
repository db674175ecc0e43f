"""Faults on purpose, for the fault tests: a crash at a named point, a stall in a named phase."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from holdfast.core.crash_points import CrashHook, CrashPoint, no_crash
from holdfast.core.errors import HoldfastError


def parse_crash_point(spec: str) -> CrashHook:
    """`"end_committed:3"` kills the process the third time that point is passed; "" never does."""
    if not spec:
        return no_crash
    name, _, times = spec.partition(":")
    if name not in list(CrashPoint) or not (times or "1").isdigit():
        points = ", ".join(CrashPoint)
        raise HoldfastError(
            "HOLDFAST_CRASH_AT: {spec!r} is not POINT[:TIMES]; {points}",
            spec=spec,
            points=points,
        )
    return _countdown(CrashPoint(name), int(times or 1))


def _countdown(target: CrashPoint, left: int) -> CrashHook:
    def passed(point: CrashPoint) -> None:
        nonlocal left
        if point is target:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return passed


_FREEZE_SECONDS = 86_400
_SLEEP_SLICE = 0.05


class StallKind(StrEnum):
    BLOCK = "block"  # the event loop is blocked
    FREEZE = "freeze"  # the whole interpreter is blocked, with every thread
    TERM = "term"  # a SIGTERM arrives at this moment
    HANG = "hang"  # the phase never ends
    FAIL = "fail"  # the phase fails


class Stall:
    """Stalls in the configured phases; none are configured outside of fault tests.

    `watchdog_timeout` replaces the watchdog's own timeout, in seconds.
    """

    def __init__(
        self, phases: Mapping[str, StallKind], *, watchdog_timeout: float | None = None
    ) -> None:
        self._phases = phases
        self.watchdog_timeout = watchdog_timeout

    def enter(self, phase: str) -> None:
        how = self._phases.get(phase)
        if how in _STALL_ACTIONS:
            _STALL_ACTIONS[how]()

    async def inside(self, phase: str) -> None:
        match self._phases.get(phase):
            case StallKind.HANG:
                await asyncio.Event().wait()
            case StallKind.FAIL:
                raise HoldfastError("{phase!r} fails on purpose (HOLDFAST_STALL_AT)", phase=phase)


def parse_stall(spec: str) -> Stall:
    """`"record intent:fail,close the store:hang"`; "drain:block,1.5" sets the watchdog's timeout to
    1.5 s; "" never stalls."""
    phases, watchdog_timeout = {}, None
    for part in filter(None, spec.split(",")):
        phase, _, how = part.rpartition(":")
        if how in list(StallKind):
            phases[phase] = StallKind(how)
        elif not phase and how.replace(".", "").isdigit():
            watchdog_timeout = float(how)
        else:
            raise HoldfastError(
                "HOLDFAST_STALL_AT: {part!r} is not PHASE:{kinds}",
                part=part,
                kinds="|".join(StallKind),
            )
    return Stall(phases, watchdog_timeout=watchdog_timeout)


def _block() -> None:
    """Blocks in short sleeps: a signal that arrives as a sleep begins is handled only after it."""
    while True:
        time.sleep(_SLEEP_SLICE)


def _freeze() -> None:
    import ctypes  # noqa: PLC0415 - for fault tests only

    ctypes.PyDLL(None).sleep(_FREEZE_SECONDS)  # a call that keeps the GIL


_STALL_ACTIONS: dict[StallKind | None, Callable[[], object]] = {
    StallKind.BLOCK: _block,
    StallKind.FREEZE: _freeze,
    StallKind.TERM: lambda: os.kill(os.getpid(), signal.SIGTERM),
}
