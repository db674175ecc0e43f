"""Stalling on purpose: the process is held up in a phase that the fault tests name."""

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable
from enum import StrEnum

from holdfast.core.errors import HoldfastError

_FOREVER = 86_400


class How(StrEnum):
    BLOCK = "block"  # the event loop stands still
    FREEZE = "freeze"  # the interpreter does, with every thread
    TERM = "term"  # a SIGTERM arrives at this very instant
    HANG = "hang"  # the phase never ends
    FAIL = "fail"  # the phase fails


class Stall:
    """Told each phase as it begins; the one that ships does nothing."""

    def __init__(self, phase: str = "", how: How = How.BLOCK) -> None:
        self._phase = phase
        self._how = how

    def passed(self, phase: str) -> None:
        if phase == self._phase and self._how in _AT_ONCE:
            _AT_ONCE[self._how]()

    async def inside(self, phase: str) -> None:
        if phase != self._phase:
            return
        if self._how is How.HANG:
            await asyncio.Event().wait()
        elif self._how is How.FAIL:
            raise HoldfastError(f"{phase!r} was told to fail")


def stall_at(order: str) -> Stall:
    """`"close the store:hang"`; "" never stalls."""
    phase, _, how = order.rpartition(":")
    if not order:
        return Stall()
    if how not in list(How):
        raise HoldfastError(f"HOLDFAST_STALL_AT: {order!r} is none of PHASE:{'|'.join(How)}")
    return Stall(phase, How(how))


def _freeze() -> None:
    ctypes.PyDLL(None).sleep(_FOREVER)  # a call that keeps the interpreter's lock


_AT_ONCE: dict[How, Callable[[], object]] = {
    How.BLOCK: lambda: time.sleep(_FOREVER),
    How.FREEZE: _freeze,
    How.TERM: lambda: os.kill(os.getpid(), signal.SIGTERM),
}
