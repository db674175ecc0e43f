"""An alarm by the clock on the wall: the kernel rings it, also after a sleep of the machine."""

import asyncio
import os
import struct

_REALTIME = 0
_TIMERFD_FLAGS = 0o2000000 | 0o4000  # close on exec, never block
_ABSOLUTE_CANCEL_ON_SET = 1 | 2  # at that time of day; or at once, where somebody sets the clock
_TIMERSPEC = struct.Struct("4l")  # twice seconds and nanoseconds: how often, and when first
_MAX_SECONDS = 2**40


class TimerfdTimer:
    """Linux's timerfd. A monotonic sleep stands still while the machine is suspended and knows
    nothing of a clock that is set; to look at the clock every minute would be polling."""

    async def wait_until(self, at: float) -> None:
        """Returns at that time, or sooner where the clock was set meanwhile."""
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        fd = _create_timer(at)
        try:
            loop.add_reader(fd, rung.set)
            await rung.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)


def _create_timer(at: float) -> int:
    """The descriptor of a timer, which can be read from when it rings."""
    import ctypes  # noqa: PLC0415 - most gateways have no job

    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.timerfd_create(_REALTIME, _TIMERFD_FLAGS))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "no timer could be made")
    # A time of nought would mean never; one that is past rings at once.
    when = _TIMERSPEC.pack(0, 0, min(max(int(at), 1), _MAX_SECONDS), int((at % 1) * 1e9))
    if libc.timerfd_settime(fd, _ABSOLUTE_CANCEL_ON_SET, when, None) != 0:
        os.close(fd)
        raise OSError(ctypes.get_errno(), "the timer could not be set")
    return fd
