"""Stalling on purpose: the process is held up in the phases that the fault tests name."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from holdfast.core.errors import HoldfastError

_FOREVER = 86_400
_A_MOMENT = 0.05


class How(StrEnum):
    BLOCK = "block"  # the event loop stands still
    FREEZE = "freeze"  # the interpreter does, with every thread
    TERM = "term"  # a SIGTERM arrives at this very instant
    HANG = "hang"  # the phase never ends
    FAIL = "fail"  # the phase fails


class Stall:
    """Told each phase as it begins; the one that ships does nothing.

    `patience`: seconds after which the watchdog loses it, instead of its own.
    """

    def __init__(self, phases: Mapping[str, How], *, patience: float | None = None) -> None:
        self._phases = phases
        self.patience = patience

    def passed(self, phase: str) -> None:
        how = self._phases.get(phase)
        if how in _AT_ONCE:
            _AT_ONCE[how]()

    async def inside(self, phase: str) -> None:
        match self._phases.get(phase):
            case How.HANG:
                await asyncio.Event().wait()
            case How.FAIL:
                raise HoldfastError(f"{phase!r} was told to fail")


def stall_at(order: str) -> Stall:
    """`"record intent:fail,close the store:hang"`; "drain:block,1.5" has the watchdog wait so
    long; "" never stalls."""
    phases, patience = {}, None
    for part in filter(None, order.split(",")):
        phase, _, how = part.rpartition(":")
        if how in list(How):
            phases[phase] = How(how)
        elif not phase and how.replace(".", "").isdigit():
            patience = float(how)
        else:
            raise HoldfastError(f"HOLDFAST_STALL_AT: {part!r} is none of PHASE:{'|'.join(How)}")
    return Stall(phases, patience=patience)


def _block() -> None:
    """In short sleeps: a signal that comes as one begins would be slept through to its end."""
    while True:
        time.sleep(_A_MOMENT)


def _freeze() -> None:
    import ctypes  # noqa: PLC0415 - for these tests alone

    ctypes.PyDLL(None).sleep(_FOREVER)  # a call that keeps the interpreter's lock


_AT_ONCE: dict[How | None, Callable[[], object]] = {
    How.BLOCK: _block,
    How.FREEZE: _freeze,
    How.TERM: lambda: os.kill(os.getpid(), signal.SIGTERM),
}
