"""Runs named shutdown phases in order, each with a deadline; a failed one skips no other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

import msgspec

log = logging.getLogger(__name__)

_UNWIND = 0.25  # seconds that a phase has to let go, at the end of its time


class Phase(msgspec.Struct, frozen=True):
    name: str
    seconds: float  # of which the last are for letting go
    run: Callable[[], Awaitable[None]]

    @property
    def unwind(self) -> float:
        return min(_UNWIND, self.seconds / 4)


async def _nothing(name: str) -> None:
    """The default of `inside`: does nothing."""


async def run_phases(
    phases: Iterable[Phase],
    *,
    progress: Callable[[str], None],
    inside: Callable[[str], Awaitable[None]] = _nothing,
    took: dict[str, float] | None = None,
) -> None:
    """Run every phase in order, also after a failed one.

    The next phase starts when the one before it has ended. `inside` is awaited first in each, and
    counts as part of it. `took` gets the seconds of each when it has ended.
    """
    now = asyncio.get_running_loop().time
    took = {} if took is None else took
    for phase in phases:
        began = now()
        progress(phase.name)
        await _run(phase, inside)
        took[phase.name] = round(now() - began, 4)
    log.info(
        "All shutdown phases have ended after %.2f s",
        sum(took.values()),
        extra={"action": "shutdown_phases_done", "seconds": took},
    )


async def _run(phase: Phase, inside: Callable[[str], Awaitable[None]]) -> None:
    """Run a phase in a task of its own; one that cannot be cancelled in time is abandoned."""

    async def work() -> None:
        await inside(phase.name)
        await phase.run()

    task = asyncio.create_task(work(), name=f"phase {phase.name!r}")
    try:
        done, _ = await asyncio.wait({task}, timeout=phase.seconds - phase.unwind)
        if not done:
            _log_late(phase)
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=phase.unwind)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if done and not task.cancelled() and (error := task.exception()) is not None:
        log.error(
            "Shutdown phase %r failed; the next phases run all the same",
            phase.name,
            exc_info=error,
            extra={"action": "phase_failed"},
        )


def _log_late(phase: Phase) -> None:
    log.error(
        "Shutdown phase %r took longer than %g s and was cancelled; the next phases run all the "
        "same",
        phase.name,
        phase.seconds,
        extra={"action": "phase_late"},
    )
