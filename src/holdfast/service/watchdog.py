"""The watchdog of a stop: a thread that ends a process that cannot end itself in time."""

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any, Self

from holdfast.system import exit_codes

log = logging.getLogger(__name__)

_STDERR = 2
_FLUSH_TIMEOUT = 2.0
_BACKSTOP_DELAY = _FLUSH_TIMEOUT + 1.0  # later than the thread, which can tell more


class Watchdog:
    """Owns the thread that waits for the deadline of a stop; leaving its context disarms it.

    `flush` writes what was logged, within so many seconds. Should the interpreter itself stand
    still, so that no thread of it can run, the stacks go to standard error and the process ends
    a little later.
    """

    def __init__(self, *, flush: Callable[[float], object]) -> None:
        self._flush = flush
        self._armed: threading.Event | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.disarm()

    def arm(
        self, loop: asyncio.AbstractEventLoop, seconds: float, *, code: int = exit_codes.FAILED
    ) -> None:
        """End the process with this code in so many seconds. This replaces an earlier deadline."""
        self.disarm()
        off = self._armed = threading.Event()
        waiting = threading.Thread(
            target=self._wait, args=(loop, off, seconds, code), name="stop watchdog", daemon=True
        )
        waiting.start()
        faulthandler.dump_traceback_later(seconds + _BACKSTOP_DELAY, exit=True, file=_STDERR)

    def disarm(self) -> None:
        if self._armed is not None:
            self._armed.set()
            self._armed = None
            faulthandler.cancel_dump_traceback_later()

    def _wait(
        self, loop: asyncio.AbstractEventLoop, off: threading.Event, seconds: float, code: int
    ) -> None:
        if off.wait(seconds):
            return
        log.critical(
            "The stop hangs: it has taken longer than %g s, and the process is ended. What was "
            "accepted is in the store. Stacks of all threads:\n%s",
            seconds,
            dump_stacks(loop),
            extra={"action": "stop_timed_out"},
        )
        self._flush(_FLUSH_TIMEOUT)
        os._exit(code)


def dump_stacks(loop: asyncio.AbstractEventLoop) -> str:
    """Writes the stack of every task of the loop and of every thread, innermost frame last."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        [
            *(f"Task {task.get_name()!r}:\n{_format_stack(_frames(task))}" for task in tasks),
            *(
                f"Thread {names.get(ident, ident)!r}:\n{''.join(traceback.format_stack(frame))}"
                for ident, frame in sys._current_frames().items()
            ),
        ]
    )


def _format_stack(frames: Iterator[FrameType]) -> str:
    lines = [
        traceback.FrameSummary(f.f_code.co_filename, f.f_lineno, f.f_code.co_name) for f in frames
    ]
    return "".join(traceback.format_list(lines))


def _frames(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """The stack of a task from its beginning to what it waits for. `Task.get_stack` returns only
    the first frame."""
    waits: Awaitable[Any] | Any = task.get_coro()
    while waits is not None:
        frame, waits = _next_frame(waits)
        if frame is not None:
            yield frame


def _next_frame(waits: object) -> tuple[FrameType | None, object]:
    match waits:
        case CoroutineType():
            return waits.cr_frame, waits.cr_await
        case GeneratorType():
            return waits.gi_frame, waits.gi_yieldfrom
        case AsyncGeneratorType():
            return waits.ag_frame, waits.ag_await
    return None, None
