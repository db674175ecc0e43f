"""The starter: a small detached process that starts a successor, sees it ready, and goes.

Whoever restarts waits for it, so it is there in an instant: it is told what it needs by its
arguments, and imports what it seldom needs when it needs it.
"""

import fcntl
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass

from holdfast.service.backoff import Backoff
from holdfast.service.offspring import Nest
from holdfast.system import exits

# With these a start is over for good: it was told to stop, the home has another gateway, or a
# person has to mend the configuration.
_FOR_GOOD = frozenset({exits.OK, exits.HOME_IN_USE, exits.CONFIG_EXIT})
_PATIENCE = 5.0  # a wait longer than this is none that somebody should spend in a queue
_LAST_WORDS = 2000
_BEYOND_SOCKETS = 64
_ENDS_WITHIN = 60.0  # far longer than a predecessor has, whose watchdog ends it


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterOrder:
    """What the starter is told."""

    run: str  # the folder of the home's sockets
    logs: str  # the folder of its logs
    argv: tuple[str, ...]  # what starts a gateway
    sockets: tuple[int, ...] = ()  # descriptors that it inherits, of listening sockets
    first_wait: float
    longest_wait: float
    follows: int = 0  # the process whose end is waited for; 0: none
    line: int = 0  # a descriptor that makes its first attempt an understudy; 0: it is none

    def words(self) -> list[str]:
        """As arguments of a program; `read` reads them."""
        fds = ",".join(map(str, self.sockets))
        waits = [str(self.first_wait), str(self.longest_wait)]
        numbers = [str(self.follows), str(self.line)]
        return [self.run, self.logs, fds, *waits, *numbers, *self.argv]

    @classmethod
    def read(cls, words: list[str]) -> "StarterOrder":
        run, logs, fds, first, longest, follows, line, *argv = words
        return cls(
            run=run,
            logs=logs,
            argv=tuple(argv),
            sockets=tuple(int(fd) for fd in fds.split(",") if fd),
            first_wait=float(first),
            longest_wait=float(longest),
            follows=int(follows),
            line=int(line),
        )


def main() -> None:
    order = StarterOrder.read(sys.argv[1:])
    inherited = [socket.socket(fileno=fd) for fd in order.sockets]
    for sock in inherited:
        sock.set_inheritable(False)
    _await_end(order.follows)
    with Nest(order.run, sockets=inherited) as nest:
        Starter(order, nest).run()


def _await_end(parent: int) -> None:
    """A predecessor that could not close its store keeps the lock to its very end."""
    try:
        fd = os.pidfd_open(parent) if parent else -1
    except ProcessLookupError:
        return
    # Whoever is not our parent any more has ended, and its pid may be another's.
    if fd >= 0 and os.getppid() == parent:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(_ENDS_WITHIN * 1000)


def _out_of_the_way(fd: int) -> int:
    """Listening sockets are laid out from 3 on."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _BEYOND_SOCKETS)
    os.close(fd)
    return moved


class Starter:
    """Owns the attempts at one successor."""

    def __init__(self, order: StarterOrder, nest: Nest) -> None:
        self._order = order
        self._nest = nest
        self._said = f"{order.logs}/gateway.out"  # what it says where it cannot log
        self._backoff = Backoff(first=order.first_wait, most=order.longest_wait)
        self._line = _out_of_the_way(order.line) if order.line else None

    def run(self) -> None:
        """Returns when a successor is ready, or when none is to be had."""
        while True:
            began = time.monotonic()
            code = self._attempt()
            if code is None:
                return
            said = f"The successor ended with {code} before it was ready. It said: {self._words()}"
            if code in _FOR_GOOD or self._nest.called_off:
                self._log("error", f"{said}\nIt is not started again.", "successor_refused")
                return
            wait = 0.0
            if code != exits.GATEWAY_SERVICE_RESTART_EXIT_CODE:
                wait = self._backoff.after(time.monotonic() - began)
            self._log("error", f"{said}\nIt is started again in {wait:g} s.", "successor_failed")
            if wait > _PATIENCE:
                self._nest.let_go()
            if self._called_off(within=wait):
                self._log("info", "Its start was called off.", "successor_called_off")
                return

    def _attempt(self) -> int | None:
        """The exit code of a gateway that ended before it was ready; None: it is ready."""
        output = os.open(self._said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            # As it was given to this process, which was made for nothing but to pass it on.
            pid = self._begin(output)
        finally:
            os.close(output)
        child = os.pidfd_open(pid)
        try:
            if self._until_ready(child):
                self._log("info", f"The successor is ready, as process {pid}.", "started")
                return None
        finally:
            os.close(child)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _begin(self, output: int) -> int:
        """Only the first has a line: those after it are started because it has failed."""
        line, self._line = self._line, None
        if line is None:
            return self._nest.start(self._order.argv, dict(os.environ), output=output)
        try:
            argv = [*self._order.argv, "--understudy", str(line)]
            return self._nest.start(argv, dict(os.environ), output=output, line=line)
        finally:
            os.close(line)

    def _until_ready(self, child: int) -> bool:
        poll = select.poll()
        poll.register(child, select.POLLIN)
        poll.register(self._nest, select.POLLIN)
        asked = False
        while True:
            awake = {fd for fd, _ in poll.poll()}
            if self._nest.fileno() in awake and self._nest.heard():
                return True
            if child in awake:
                return False
            if self._nest.called_off and not asked:
                asked = True
                signal.pidfd_send_signal(child, signal.SIGTERM)

    def _called_off(self, *, within: float) -> bool:
        poll = select.poll()
        poll.register(self._nest, select.POLLIN)
        until = time.monotonic() + within
        while not self._nest.called_off and (left := until - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                self._nest.heard()
        return self._nest.called_off

    def _words(self) -> str:
        try:
            with open(self._said, errors="replace") as file:
                return file.read().strip()[-_LAST_WORDS:] or "nothing."
        except OSError as error:
            return f"what, cannot be read ({error.strerror})."

    def _log(self, level: str, message: str, action: str) -> None:
        """A line in the gateway's own log, where whoever looks for the gateway looks."""
        import logging  # noqa: PLC0415 - not before the successor is on its way

        from holdfast.system.log_lines import JsonLines  # noqa: PLC0415 - as above

        record = logging.makeLogRecord(
            {
                "name": __name__ if __name__ != "__main__" else "holdfast.service.respawner",
                "levelname": level.upper(),
                "msg": message,
                "action": action,
            }
        )
        path = f"{self._order.logs}/gateway.log"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(fd, "a", encoding="utf-8") as file:
            file.write(JsonLines(str).format(record) + "\n")


if __name__ == "__main__":
    main()
