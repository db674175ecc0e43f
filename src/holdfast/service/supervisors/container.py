"""The first process of a container, which supervises one gateway (E3), and its socket.

It starts what should run, restarts what ended without having been stopped, forwards signals, and
reaps orphans. It never polls.
"""

import os
import select
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Self

from holdfast.core.errors import HoldfastError
from holdfast.core.ports.runtime import Clock
from holdfast.service.child_process import GatewayLauncher, RestartBackoff
from holdfast.service.intent import Intent
from holdfast.service.signals import SignalQueue
from holdfast.system import exit_codes
from holdfast.system.paths import Paths, check_owner, private_dir

_SOCKET_TIMEOUT = 2.0
_MAX_BYTES = 64
SOCKET_NAME = "boot.sock"
FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
START_SIGNALS = (signal.SIGHUP, signal.SIGUSR2)
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
HANDLED_SIGNALS = (*FORWARDED_SIGNALS, *START_SIGNALS, signal.SIGCHLD)


class ContainerSocket:
    """The socket of `holdfast gateway start` and `stop`: one word in, one word out. Owned while its
    context is open."""

    def __init__(self, paths: Paths) -> None:
        self._path = paths.run / SOCKET_NAME
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> Self:
        private_dir(self._path.parent)
        self._path.unlink(missing_ok=True)
        self._listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._listener.listen(16)
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def fileno(self) -> int:
        """Readable when a client has connected."""
        return self._listener.fileno()

    def answer_one(self, handle: Callable[[str], str]) -> None:
        """Answer one client. A silent one gets no answer, and is dropped after the timeout."""
        try:
            client, _ = self._listener.accept()
            with client:
                client.settimeout(_SOCKET_TIMEOUT)
                word = client.recv(_MAX_BYTES).decode("ascii", "replace").strip()
                client.sendall(handle(word).encode() + b"\n")
        except OSError:
            pass


def ask_container_supervisor(paths: Paths, request: str) -> str | None:
    """The answer of this home's container supervisor to "start" or "state"; None: there is none.

    "starting": it starts a gateway now; else its state: `idle`, `running`, `waiting`, `leaving`.
    """
    try:
        check_owner(paths.run)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_SOCKET_TIMEOUT)
            connection.connect(str(paths.run / SOCKET_NAME))
            connection.sendall(request.encode() + b"\n")
            return connection.recv(_MAX_BYTES).decode("ascii", "replace").strip()
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except OSError as error:
        raise HoldfastError(
            "The supervisor (`holdfast gateway boot`) of {home} does not respond at {socket}: "
            "{error}. Try again; if that does not help, restart the container",
            home=paths.home,
            socket=paths.run / SOCKET_NAME,
            error=error,
        ) from None


class ContainerState(StrEnum):
    IDLE = "idle"  # no gateway runs until one is requested
    RUNNING = "running"  # a gateway runs, ready or not
    WAITING = "waiting"  # it failed, and is restarted after the backoff
    STOPPING = "leaving"  # the container ends


class ContainerSupervisor:
    """Owns the gateways of a container, one after the other, and the sockets they pass on."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        launcher: GatewayLauncher,
        control: ContainerSocket,
        signals: SignalQueue,
        intent: Callable[[], Intent | None],
        clock: Clock,
        report: Callable[[str], None],
        backoff: RestartBackoff | None = None,
    ) -> None:
        self._argv, self._environ = argv, environ
        self._launcher, self._control, self._signals = launcher, control, signals
        self._intent = intent
        self._clock = clock
        self._report = report
        self._backoff = backoff or RestartBackoff()
        self._state = ContainerState.IDLE
        self._pid = 0
        self._started_at = 0.0
        self._restart_at = 0.0

    def run(self) -> int:
        """Runs until a stop signal; returns the exit code of the container."""
        if should_start(self._intent()):
            self._start()
        else:
            self._stay_idle("it was stopped, and stays down")
        while self._state is not ContainerState.STOPPING or self._pid:
            self._wait()
        self._report("the container ends")
        return exit_codes.OK

    def _wait(self) -> None:
        poll = select.poll()
        for each in (self._launcher, self._control, self._signals):
            poll.register(each, select.POLLIN)
        readable = {fd for fd, _ in poll.poll(self._poll_timeout())}
        if self._launcher.fileno() in readable and self._launcher.read_notifications():
            self._report("the gateway is ready")
        if self._launcher.cancelled:
            self._on_cancelled()
        if self._signals.fileno() in readable:
            for number in self._signals.read():
                self._on_signal(number)
        if self._control.fileno() in readable:
            self._control.answer_one(self._answer)
        if self._state is ContainerState.WAITING and self._clock.monotonic() >= self._restart_at:
            self._start()

    def _poll_timeout(self) -> float | None:
        if self._state is not ContainerState.WAITING:
            return None
        # Rounded up: a timeout that ends a moment early would loop.
        return (self._restart_at - self._clock.monotonic()) * 1000 + 1

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number in START_SIGNALS:
            self._answer("start")
        else:
            self._forward_signal(signal.Signals(number))

    def _forward_signal(self, which: signal.Signals) -> None:
        if which in _STOP_SIGNALS:
            self._state = ContainerState.STOPPING
        if self._pid:
            self._report(f"{which.name} is passed on to the gateway, process {self._pid}")
            os.kill(self._pid, which)  # our own child, not reaped yet: the pid is not reused

    def _answer(self, request: str) -> str:
        """The answer to a word on the socket."""
        if request == "start" and self._state in (ContainerState.IDLE, ContainerState.WAITING):
            self._start()
            return "starting"
        return str(self._state)

    def _start(self) -> None:
        self._state = ContainerState.RUNNING
        self._started_at = self._clock.monotonic()
        self._pid = self._launcher.start(self._argv, self._environ)
        self._report(f"the gateway is started, as process {self._pid}")

    def _reap(self) -> None:
        """Reap all that have ended: the gateway, and orphans, whose parent is the first process."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._on_exit(os.waitstatus_to_exitcode(status))

    def _on_exit(self, code: int) -> None:
        pid, self._pid = self._pid, 0
        self._report(f"the gateway, process {pid}, ended with {code}")
        if self._state is ContainerState.STOPPING:
            return
        if code == exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE:
            self._start()
        elif code == exit_codes.CONFIG_EXIT:
            self._stay_idle("its configuration has to be mended")
        elif code == exit_codes.OK and not should_start(self._intent()):
            self._stay_idle("it was stopped")
        else:
            self._schedule_restart()

    def _on_cancelled(self) -> None:
        self._launcher.cancelled = False
        if self._state is ContainerState.WAITING:
            self._stay_idle("it was stopped")

    def _schedule_restart(self) -> None:
        wait = self._backoff.next_wait(self._clock.monotonic() - self._started_at)
        self._state = ContainerState.WAITING
        self._restart_at = self._clock.monotonic() + wait
        self._report(f"it is started again in {wait:g} s")

    def _stay_idle(self, reason: str) -> None:
        self._state = ContainerState.IDLE
        self._launcher.close_sockets()
        self._report(f"nothing is started: {reason}. `holdfast gateway start` starts it")


def should_start(intent: Intent | None) -> bool:
    """Whether a boot starts a gateway: always the first, and never one that was stopped."""
    return intent is None or intent.should_start
