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

# No further attempt after these: it was asked to stop, the home has another gateway, or the
# configuration must be fixed.
_FINAL_EXIT_CODES = frozenset({exit_codes.OK, exit_codes.HOME_IN_USE, exit_codes.CONFIG_EXIT})
_MAX_QUEUE_WAIT = 5.0  # for longer waits the sockets are closed: clients should not hang
_MAX_OUTPUT_CHARS = 2000
_MIN_CHANNEL_FD = 64
_PREDECESSOR_TIMEOUT = 60.0  # far longer than the predecessor's watchdog lets it live


@dataclass(frozen=True, slots=True, kw_only=True)
class RespawnOrder:
    """The arguments of the respawner. Their order may not change: a running gateway writes them,
    and the code that is on disk by then reads them."""

    run_dir: str  # the folder of the home's sockets
    log_dir: str  # the folder of its logs
    argv: tuple[str, ...]  # the command of the gateway
    sockets: tuple[int, ...] = ()  # inherited descriptors of listening sockets
    first_wait: float
    max_wait: float
    after_pid: int = 0  # wait for the end of this process first; 0: do not wait
    channel: int = 0  # a descriptor that makes the first attempt a standby successor; 0: none

    def to_arguments(self) -> list[str]:
        """The command line arguments; `from_arguments` reads them."""
        fds = ",".join(map(str, self.sockets))
        waits = [str(self.first_wait), str(self.max_wait)]
        numbers = [str(self.after_pid), str(self.channel)]
        return [self.run_dir, self.log_dir, fds, *waits, *numbers, *self.argv]

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> "RespawnOrder":
        run_dir, log_dir, fds, first_wait, max_wait, after_pid, channel, *argv = arguments
        return cls(
            run_dir=run_dir,
            log_dir=log_dir,
            argv=tuple(argv),
            sockets=tuple(int(fd) for fd in fds.split(",") if fd),
            first_wait=float(first_wait),
            max_wait=float(max_wait),
            after_pid=int(after_pid),
            channel=int(channel),
        )


def main() -> None:
    order = RespawnOrder.from_arguments(sys.argv[1:])
    inherited = [socket.socket(fileno=fd) for fd in order.sockets]
    for sock in inherited:
        sock.set_inheritable(False)
    _wait_for_end(order.after_pid)
    with GatewayLauncher(order.run_dir, sockets=inherited) as launcher:
        Respawner(order, launcher).run()


def _wait_for_end(parent: int) -> None:
    """Waits for the end of the predecessor: one that could not close its store holds the lock until
    then."""
    try:
        fd = os.pidfd_open(parent) if parent else -1
    except ProcessLookupError:
        return
    # If it is not our parent any more, it has ended, and its pid may have been reused.
    if fd >= 0 and os.getppid() == parent:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(_PREDECESSOR_TIMEOUT * 1000)


def _move_fd_up(fd: int) -> int:
    """Moves a descriptor out of the way of the listening sockets, which are placed from 3 on."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _MIN_CHANNEL_FD)
    os.close(fd)
    return moved


class Respawner:
    """Owns the attempts to start one successor."""

    def __init__(self, order: RespawnOrder, launcher: GatewayLauncher) -> None:
        self._order = order
        self._launcher = launcher
        self._output_file = f"{order.log_dir}/gateway.out"  # its output before it logs
        self._backoff = RestartBackoff(first_wait=order.first_wait, max_wait=order.max_wait)
        self._channel = _move_fd_up(order.channel) if order.channel else None

    def run(self) -> None:
        """Returns when a successor is ready, or when there is no point in another attempt."""
        while True:
            began = time.monotonic()
            code = self._attempt()
            if code is None:
                return
            failure = f"The successor exited with {code} before it was ready."
            failure = f"{failure} Its output: {self._last_output()}"
            if code in _FINAL_EXIT_CODES or self._launcher.cancelled:
                self._log("error", f"{failure}\nIt is not started again.", "successor_refused")
                return
            wait = 0.0
            if code != exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE:
                wait = self._backoff.next_wait(time.monotonic() - began)
            self._log("error", f"{failure}\nRetrying in {wait:g} s.", "successor_failed")
            if wait > _MAX_QUEUE_WAIT:
                self._launcher.close_sockets()
            if self._wait_for_cancel(timeout=wait):
                self._log(
                    "info", "The start of the successor was cancelled.", "successor_cancelled"
                )
                return

    def _attempt(self) -> int | None:
        """The exit code of a gateway that ended before it was ready; None: it is ready."""
        output = os.open(
            self._output_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        try:
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
        """Only the first attempt is a standby successor: later ones run because it has failed."""
        # The environment is the one meant for the successor: this process only passes it on.
        channel, self._channel = self._channel, None
        if channel is None:
            return self._launcher.start(self._order.argv, dict(os.environ), output=output)
        try:
            argv = [*self._order.argv, "--standby-fd", str(channel)]
            return self._launcher.start(argv, dict(os.environ), output=output, extra_fd=channel)
        finally:
            os.close(channel)

    def _wait_until_ready(self, pidfd: int) -> bool:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.register(self._launcher, select.POLLIN)
        terminated = False
        while True:
            readable = {fd for fd, _ in poll.poll()}
            if self._launcher.fileno() in readable and self._launcher.read_notifications():
                return True
            if pidfd in readable:
                return False
            if self._launcher.cancelled and not terminated:
                terminated = True
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)

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
                return file.read().strip()[-_MAX_OUTPUT_CHARS:] or "none."
        except OSError as error:
            return f"cannot be read ({error.strerror})."

    def _log(self, level: str, message: str, action: str) -> None:
        """Append a line to the gateway's own log."""
        import logging  # noqa: PLC0415 - not before the successor is started

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
