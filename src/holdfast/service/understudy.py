"""The understudy: a successor that has read and imported everything, and waits for its cue.

Its line to the gateway that runs is a socket that it inherits. It says there whether it would
start; the cue lets it wait for the lock of the home; when the line ends without one, it goes.
"""

import asyncio
import json
import socket

from holdfast.core.errors import RestartRefused

_GO = b"go\n"
_MAX_REPORT_BYTES = 64 * 1024


class StandbySuccessor:
    """Owns this gateway's end of the line."""

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel

    async def would_start(self, *, schema: int, timeout: float) -> bool:
        """True: it would start, and knows the store's tables up to this version. False: somebody
        else is to find out why not. Raises `RestartRefused` with what it said."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                said = await loop.sock_recv(self._channel, _MAX_REPORT_BYTES)
        except (TimeoutError, OSError):
            return False
        if not said:
            return False
        word = json.loads(said)
        if error := word["error"]:
            raise RestartRefused(
                f"the successor would not start: {error}\nThe running gateway goes on."
            )
        return bool(word["schema"] >= schema)

    def release(self) -> bool:
        """From now on it starts as soon as it gets the lock. False: it is not there any more."""
        try:
            self._channel.sendall(_GO)
        except OSError:
            return False
        return True

    def dismiss(self) -> None:
        """Without a cue it goes; after one, this changes nothing."""
        self._channel.close()


class StandbyChannel:
    """Owns the understudy's end."""

    def __init__(self, fd: int) -> None:
        self._channel = socket.socket(fileno=fd)
        self._channel.set_inheritable(False)

    def report(self, *, schema: int = 0, error: str = "") -> None:
        """Say that it would start, with the tables it knows, or why not. A gateway that has
        gone meanwhile needs no answer: there will be no cue."""
        try:
            self._channel.sendall(json.dumps({"schema": schema, "error": error}).encode())
        except OSError:
            return

    def wait_for_release(self) -> bool:
        """Blocks until there is a cue, or nobody left to give one."""
        try:
            return self._channel.recv(len(_GO)) == _GO
        except OSError:
            return False
        finally:
            self._channel.close()
