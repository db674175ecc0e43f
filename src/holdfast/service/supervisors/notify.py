"""Notify: what this process tells the supervisor that started it, as systemd has it."""

import array
import asyncio
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

_MAX_STATUS = 200  # a status line is looked at, not read


class SdNotifier:
    """Owns the socket to the supervisor (`NOTIFY_SOCKET`). Where there is none, or it does not
    listen, nothing happens: nobody who supervises may hold up what is supervised."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._socket: socket.socket | None = None
        if name.startswith(("@", "/")):
            kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
            self._socket = socket.socket(socket.AF_UNIX, kind)

    def notify(self, *facts: str, fds: Sequence[int] = (), timeout: float = 0.0) -> None:
        """`facts` are assignments ("READY=1"); `fds` are given along, for it to keep.

        One that is slow to listen is waited for at most `patience` seconds; what it has no room
        for is dropped, which is right for all but what is said once.
        """
        if self._socket is None:
            return
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        text = "\n".join(facts).encode()
        self._socket.settimeout(timeout)
        with suppress(OSError):  # it went away, or does not read what it is told
            self._socket.sendmsg([text], [rights] if fds else [], 0, self._address)

    def status(self, text: str) -> None:
        self.notify(f"STATUS={' '.join(text.split())[:_MAX_STATUS]}")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class WatchdogKeepalive:
    """Feeds the supervisor's watchdog while its context is open, on the event loop and nowhere
    else: what is fed is the proof that the loop turns."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, notifier: SdNotifier, *, interval: float | None
    ) -> None:
        self._loop = loop
        self._notifier = notifier
        self._interval = interval
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._interval is not None:
            self._send(self._interval)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _send(self, interval: float) -> None:
        self._notifier.notify("WATCHDOG=1")
        self._timer = self._loop.call_later(interval, self._send, interval)


def keepalive_interval(environ: Mapping[str, str], *, pid: int) -> float | None:
    """Seconds between two feedings, half of what is asked for; None: nobody watches this pid."""
    asked = environ.get("WATCHDOG_USEC", "")
    watched = environ.get("WATCHDOG_PID", str(pid))
    if watched != str(pid) or not asked.isascii() or not asked.isdigit() or not int(asked):
        return None
    return int(asked) / 2e6
