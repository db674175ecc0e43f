"""The boot of a container: its first process, which keeps one gateway running as E3 has it.

It starts what is meant to run, starts again what ended without having been stopped, passes
signals on, reaps whatever is left to it as the first process of its world, and waits for
nothing but events.
"""

import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from holdfast.core.ports.protocols import Clock
from holdfast.service.backoff import Backoff
from holdfast.service.heard import HeardSignals
from holdfast.service.intent import Intent
from holdfast.service.offspring import Nest
from holdfast.service.supervisors.boot_socket import BootSocket
from holdfast.system import exits

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
STARTING = (signal.SIGHUP, signal.SIGUSR2)
_ENDING = (signal.SIGTERM, signal.SIGINT)
HEARD = (*FORWARDED, *STARTING, signal.SIGCHLD)


class BootState(StrEnum):
    IDLE = "idle"  # nothing runs until somebody says so
    RUNNING = "running"  # a gateway is there, ready or not
    WAITING = "waiting"  # it ended badly, and is started again in a while
    LEAVING = "leaving"  # the container ends


class Boot:
    """Owns the gateway of a container, one after the other, and their sockets between them."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        nest: Nest,
        door: BootSocket,
        signals: HeardSignals,
        intent: Callable[[], Intent | None],
        clock: Clock,
        tell: Callable[[str], None],
        backoff: Backoff | None = None,
    ) -> None:
        self._argv, self._environ = argv, environ
        self._nest, self._door, self._signals = nest, door, signals
        self._intent = intent
        self._clock = clock
        self._tell = tell
        self._backoff = backoff or Backoff()
        self._state = BootState.IDLE
        self._pid = 0
        self._began = 0.0
        self._again_at = 0.0

    def run(self) -> int:
        """Returns the exit code of the container, when it is told to end."""
        if wanted(self._intent()):
            self._start()
        else:
            self._rest("it was stopped, and stays down")
        while self._state is not BootState.LEAVING or self._pid:
            self._wait()
        self._tell("the container ends")
        return exits.OK

    def _wait(self) -> None:
        poll = select.poll()
        for each in (self._nest, self._door, self._signals):
            poll.register(each, select.POLLIN)
        awake = {fd for fd, _ in poll.poll(self._patience())}
        if self._nest.fileno() in awake and self._nest.heard():
            self._tell("the gateway is ready")
        if self._nest.called_off:
            self._called_off()
        if self._signals.fileno() in awake:
            for number in self._signals.taken():
                self._signalled(number)
        if self._door.fileno() in awake:
            self._door.answer(self._asked)
        if self._state is BootState.WAITING and self._clock.monotonic() >= self._again_at:
            self._start()

    def _patience(self) -> float | None:
        if self._state is not BootState.WAITING:
            return None
        # Rounded up: a wait that ends a moment early would be waited for again and again.
        return (self._again_at - self._clock.monotonic()) * 1000 + 1

    def _signalled(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number in STARTING:
            self._asked("start")
        else:
            self._pass_on(signal.Signals(number))

    def _pass_on(self, which: signal.Signals) -> None:
        if which in _ENDING:
            self._state = BootState.LEAVING
        if self._pid:
            self._tell(f"{which.name} is passed on to the gateway, process {self._pid}")
            os.kill(self._pid, which)  # our own child, not reaped yet: the pid is nobody else's

    def _asked(self, word: str) -> str:
        """What the door says to a word."""
        if word == "start" and self._state in (BootState.IDLE, BootState.WAITING):
            self._start()
            return "starting"
        return str(self._state)

    def _start(self) -> None:
        self._state = BootState.RUNNING
        self._began = self._clock.monotonic()
        self._pid = self._nest.start(self._argv, self._environ)
        self._tell(f"the gateway is started, as process {self._pid}")

    def _reap(self) -> None:
        """All that have ended: the gateway, and orphans that the kernel has given to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._ended(os.waitstatus_to_exitcode(status))

    def _ended(self, code: int) -> None:
        pid, self._pid = self._pid, 0
        self._tell(f"the gateway, process {pid}, ended with {code}")
        if self._state is BootState.LEAVING:
            return
        if code == exits.GATEWAY_SERVICE_RESTART_EXIT_CODE:
            self._start()
        elif code == exits.CONFIG_EXIT:
            self._rest("its configuration has to be mended")
        elif code == exits.OK and not wanted(self._intent()):
            self._rest("it was stopped")
        else:
            self._again()

    def _called_off(self) -> None:
        self._nest.called_off = False
        if self._state is BootState.WAITING:
            self._rest("it was stopped")

    def _again(self) -> None:
        wait = self._backoff.after(self._clock.monotonic() - self._began)
        self._state = BootState.WAITING
        self._again_at = self._clock.monotonic() + wait
        self._tell(f"it is started again in {wait:g} s")

    def _rest(self, why: str) -> None:
        self._state = BootState.IDLE
        self._nest.let_go()
        self._tell(f"nothing is started: {why}. `holdfast gateway start` starts it")


def wanted(intent: Intent | None) -> bool:
    """Whether a boot starts a gateway: always the first, and never one that somebody stopped."""
    return intent is None or intent.starts
