"""One command with all processes it started, below a supervisor process from which none can escape.

The supervisor is a subreaper, so that a child that forks twice or calls setsid comes back to it,
and "no children left" is a fact. It ends with its shell; on SIGTERM it ends the whole tree first,
kindly and then by force.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from . import kernel, process_tree
from .confinement import limit_this_process
from .event_loop import EventLoop, Timer

GRACE_SECONDS = 2  # between SIGTERM and SIGKILL
MAX_FD = 65536
# A command must not inherit what the gateway's parent ignored: `nohup` ignores SIGHUP, a shell
# without job control SIGINT and SIGQUIT, Python itself SIGPIPE and SIGXFSZ.
_RESET_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


def fork_supervisor(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: int,
    output: int,
    limits: Mapping[str, Any],
) -> int:
    """Start `argv` below a new supervisor process and return the supervisor's pid."""
    # Blocked until the supervisor handles it: an earlier one would end the supervisor and leave
    # its shell running.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return pid
    try:
        detach_from_runner(stdin, output)
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        shell = os.fork()
        if not shell:
            _exec_command(argv, cwd=cwd, env=env, limits=limits)
        _release_output()
        os._exit(_Supervisor(shell).wait())
    finally:
        os._exit(126)


def detach_from_runner(stdin: int, output: int) -> None:
    """Reset signals and descriptors: nothing of the runner stays open."""
    signal.set_wakeup_fd(-1)
    for number in _RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    os.dup2(stdin, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, MAX_FD)


def _release_output() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)


def _exec_command(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], limits: Mapping[str, Any]
) -> NoReturn:
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(cwd)
        limit_this_process(dict(limits))
        os.execve(argv[0], list(argv), dict(env))
    except (OSError, ValueError) as error:
        os.write(2, f"cannot start {argv[0]} in {cwd}: {error}\n".encode())
    finally:
        os._exit(127)


class _Supervisor:
    def __init__(self, shell: int) -> None:
        self._shell = shell
        self._code = 128 + signal.SIGTERM
        self._ending = False
        signal.signal(signal.SIGTERM, self._terminate_tree)
        signal.signal(signal.SIGALRM, self._kill_tree)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def wait(self) -> int:
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return self._code
            if pid == self._shell:
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code
                if not self._ending:
                    return self._code

    def _terminate_tree(self, *_: object) -> None:
        self._ending = True
        signal.alarm(GRACE_SECONDS)
        process_tree.signal_all(process_tree.living_descendants(os.getpid()), signal.SIGTERM)

    def _kill_tree(self, *_: object) -> None:
        process_tree.kill_descendants(os.getpid())


class CommandProcess:
    """Owns a supervisor process. `on_end` is called once, when its shell has ended."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        loop: EventLoop,
        cwd: str,
        env: Mapping[str, str],
        stdin: int,
        output: int,
        limits: Mapping[str, Any],
        on_end: Callable[[CommandProcess, int], None],
    ) -> None:
        self._loop, self._on_end = loop, on_end
        self.started = time.monotonic()
        self.kill_reason = ""  # why it was killed: timed_out, cancelled, quota
        self._timers: list[Timer] = []
        self._written_bytes = 0
        self._computed_seconds = 0.0
        self.pid = fork_supervisor(
            argv, cwd=cwd, env=env, stdin=stdin, output=output, limits=limits
        )
        loop.on_exit(self.pid, self._on_supervisor_exit)

    def set_time_limit(self, seconds: float) -> None:
        self._timers.append(self._loop.after(seconds, lambda: self.kill("timed_out")))

    def kill(self, reason: str) -> None:
        """End it with everything below it. The first reason counts."""
        if self.kill_reason:
            return
        self.kill_reason = reason
        process_tree.signal_all([self.pid], 15)
        # The supervisor runs as the same user as the command, which may have stopped it.
        self._timers.append(self._loop.after(GRACE_SECONDS + 2, self._kill_supervisor))

    def written_since(self) -> int:
        """Bytes that its processes have written to disk since the last call."""
        total = sum(_written_by(pid) for pid in process_tree.living_descendants(self.pid))
        new_bytes, self._written_bytes = total - self._written_bytes, total
        return max(0, new_bytes)

    def computed_since(self) -> float:
        """Seconds of CPU that its processes have used since the last call."""
        total = process_tree.resource_usage([self.pid])[self.pid].cpu
        new_seconds, self._computed_seconds = total - self._computed_seconds, total
        return max(0.0, new_seconds)

    def _kill_supervisor(self) -> None:
        process_tree.kill_descendants(self.pid)
        process_tree.signal_all([self.pid], 9)

    def _on_supervisor_exit(self, code: int) -> None:
        for timer in self._timers:
            timer.cancel()
        self._on_end(self, code)


def _written_by(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            fields = dict(line.split(b": ") for line in file.read().splitlines())
    except OSError:
        return 0
    return int(fields[b"write_bytes"])


def open_devnull() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
