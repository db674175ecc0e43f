"""The respawner: a small detached process that starts a successor, sees it ready, and exits.

A restart waits for it, so it must start at once: it gets what it needs as arguments, and imports
what it rarely needs only when it needs it. Runs as `python -m holdfast.service.respawner`.
"""

import fcntl
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass

from holdfast.service.child_process import GatewayLauncher, RestartBackoff
from holdfast.system import exit_codes

# With these a start is over for good: it was told to stop, the home has another gateway, or a
# person has to mend the configuration.
_FINAL_EXIT_CODES = frozenset({exit_codes.OK, exit_codes.HOME_IN_USE, exit_codes.CONFIG_EXIT})
_MAX_QUEUE_WAIT = 5.0  # a wait longer than this is none that somebody should spend in a queue
_MAX_OUTPUT_CHARS = 2000
_MIN_CHANNEL_FD = 64
_PREDECESSOR_TIMEOUT = 60.0  # far longer than a predecessor has, whose watchdog ends it


@dataclass(frozen=True, slots=True, kw_only=True)
class RespawnOrder:
    """What the starter is told."""

    run_dir: str  # the folder of the home's sockets
    log_dir: str  # the folder of its logs
    argv: tuple[str, ...]  # what starts a gateway
    sockets: tuple[int, ...] = ()  # descriptors that it inherits, of listening sockets
    first_wait: float
    max_wait: float
    after_pid: int = 0  # the process whose end is waited for; 0: none
    channel: int = 0  # a descriptor that makes its first attempt an understudy; 0: it is none

    def to_arguments(self) -> list[str]:
        """As arguments of a program; `read` reads them."""
        fds = ",".join(map(str, self.sockets))
        waits = [str(self.first_wait), str(self.max_wait)]
        numbers = [str(self.after_pid), str(self.channel)]
        return [self.run_dir, self.log_dir, fds, *waits, *numbers, *self.argv]

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> "RespawnOrder":
        run, logs, fds, first, longest, follows, line, *argv = arguments
        return cls(
            run_dir=run,
            log_dir=logs,
            argv=tuple(argv),
            sockets=tuple(int(fd) for fd in fds.split(",") if fd),
            first_wait=float(first),
            max_wait=float(longest),
            after_pid=int(follows),
            channel=int(line),
        )


def main() -> None:
    order = RespawnOrder.from_arguments(sys.argv[1:])
    inherited = [socket.socket(fileno=fd) for fd in order.sockets]
    for sock in inherited:
        sock.set_inheritable(False)
    _wait_for_end(order.after_pid)
    with GatewayLauncher(order.run_dir, sockets=inherited) as nest:
        Respawner(order, nest).run()


def _wait_for_end(parent: int) -> None:
    """A predecessor that could not close its store keeps the lock to its very end."""
    try:
        fd = os.pidfd_open(parent) if parent else -1
    except ProcessLookupError:
        return
    # Whoever is not our parent any more has ended, and its pid may be another's.
    if fd >= 0 and os.getppid() == parent:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(_PREDECESSOR_TIMEOUT * 1000)


def _move_fd_up(fd: int) -> int:
    """Listening sockets are laid out from 3 on."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _MIN_CHANNEL_FD)
    os.close(fd)
    return moved


class Respawner:
    """Owns the attempts at one successor."""

    def __init__(self, order: RespawnOrder, launcher: GatewayLauncher) -> None:
        self._order = order
        self._launcher = launcher
        self._output_file = f"{order.log_dir}/gateway.out"  # what it says where it cannot log
        self._backoff = RestartBackoff(first_wait=order.first_wait, max_wait=order.max_wait)
        self._channel = _move_fd_up(order.channel) if order.channel else None

    def run(self) -> None:
        """Returns when a successor is ready, or when none is to be had."""
        while True:
            began = time.monotonic()
            code = self._attempt()
            if code is None:
                return
            said = f"The successor ended with {code} before it was ready. It said: {self._last_output()}"
            if code in _FINAL_EXIT_CODES or self._launcher.cancelled:
                self._log("error", f"{said}\nIt is not started again.", "successor_refused")
                return
            wait = 0.0
            if code != exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE:
                wait = self._backoff.next_wait(time.monotonic() - began)
            self._log("error", f"{said}\nIt is started again in {wait:g} s.", "successor_failed")
            if wait > _MAX_QUEUE_WAIT:
                self._launcher.close_sockets()
            if self._wait_for_cancel(timeout=wait):
                self._log("info", "Its start was called off.", "successor_called_off")
                return

    def _attempt(self) -> int | None:
        """The exit code of a gateway that ended before it was ready; None: it is ready."""
        output = os.open(
            self._output_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        try:
            # As it was given to this process, which was made for nothing but to pass it on.
            pid = self._start_child(output)
        finally:
            os.close(output)
        child = os.pidfd_open(pid)
        try:
            if self._wait_until_ready(child):
                self._log("info", f"The successor is ready, as process {pid}.", "started")
                return None
        finally:
            os.close(child)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _start_child(self, output: int) -> int:
        """Only the first has a line: those after it are started because it has failed."""
        line, self._channel = self._channel, None
        if line is None:
            return self._launcher.start(self._order.argv, dict(os.environ), output=output)
        try:
            argv = [*self._order.argv, "--understudy", str(line)]
            return self._launcher.start(argv, dict(os.environ), output=output, extra_fd=line)
        finally:
            os.close(line)

    def _wait_until_ready(self, child: int) -> bool:
        poll = select.poll()
        poll.register(child, select.POLLIN)
        poll.register(self._launcher, select.POLLIN)
        asked = False
        while True:
            awake = {fd for fd, _ in poll.poll()}
            if self._launcher.fileno() in awake and self._launcher.read_notifications():
                return True
            if child in awake:
                return False
            if self._launcher.cancelled and not asked:
                asked = True
                signal.pidfd_send_signal(child, signal.SIGTERM)

    def _wait_for_cancel(self, *, timeout: float) -> bool:
        poll = select.poll()
        poll.register(self._launcher, select.POLLIN)
        until = time.monotonic() + timeout
        while not self._launcher.cancelled and (left := until - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                self._launcher.read_notifications()
        return self._launcher.cancelled

    def _last_output(self) -> str:
        try:
            with open(self._output_file, errors="replace") as file:
                return file.read().strip()[-_MAX_OUTPUT_CHARS:] or "nothing."
        except OSError as error:
            return f"what, cannot be read ({error.strerror})."

    def _log(self, level: str, message: str, action: str) -> None:
        """A line in the gateway's own log, where whoever looks for the gateway looks."""
        import logging  # noqa: PLC0415 - not before the successor is on its way

        from holdfast.system.logs import JsonFormatter  # noqa: PLC0415 - as above

        record = logging.makeLogRecord(
            {
                "name": __name__ if __name__ != "__main__" else "holdfast.service.respawner",
                "levelname": level.upper(),
                "msg": message,
                "action": action,
            }
        )
        path = f"{self._order.log_dir}/gateway.log"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(fd, "a", encoding="utf-8") as file:
            file.write(JsonFormatter(str).format(record) + "\n")


if __name__ == "__main__":
    main()
