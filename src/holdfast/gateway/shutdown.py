"""Shutdown: named phases in a fixed order, each with a deadline; one that fails skips no other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    seconds: float
    run: Callable[[], Awaitable[None]]


async def run_phases(phases: Sequence[Phase], *, progress: Callable[[str], None]) -> None:
    """Every phase is run, in order, whatever became of the ones before it."""
    for phase in phases:
        progress(phase.name)
        try:
            async with asyncio.timeout(phase.seconds):
                await phase.run()
        except TimeoutError:
            log.error(
                "Stopping: %r took longer than %g s and was left.",
                phase.name,
                phase.seconds,
                extra={"action": "phase_late"},
            )
        except Exception:  # the edge of the process: a phase that fails must not keep the others
            log.exception("Stopping: %r failed.", phase.name, extra={"action": "phase_failed"})
