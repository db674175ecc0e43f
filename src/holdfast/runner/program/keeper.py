"""The keeper: a process above each command from whose tree nothing can slip away.

It is a subreaper, so that a child that forks twice or calls setsid comes back to it, and
"no children left" is a fact. It ends with the shell it keeps; asked to end (SIGTERM) it
ends the whole tree first, kindly and then by force.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from . import kernel, tree
from .confine import limit_this_process

GRACE_SECONDS = 2  # seconds between SIGTERM and SIGKILL
MAX_FD = 65536
_RESET_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


def fork_supervisor(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: int,
    output: int,
    limits: Mapping[str, Any],
) -> int:
    """Start `argv` below a new keeper and return the keeper's pid."""
    # Blocked until the keeper can answer it: one that came earlier would end the keeper
    # and leave its shell to nobody.
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
    """Signals and descriptors of a fresh process: nothing of the runner's stays open."""
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
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
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
        tree.signal_all(tree.living_descendants(os.getpid()), signal.SIGTERM)

    def _kill_tree(self, *_: object) -> None:
        tree.kill_descendants(os.getpid())
