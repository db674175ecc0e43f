"""Processes forked from a fork server that has imported the program and does nothing else.

Each is a real process with its own pid, signals, files and exit code. It does not import sixty
thousand lines first, which is most of the cost of a short process. Tests of imports, of the
interpreter and of `PYTHON…` variables use processes of the usual kind.
"""

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib import import_module
from io import TextIOWrapper
from multiprocessing import connection, get_context
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from threading import Lock
from typing import IO, Any

GATEWAY = "holdfast.cli.entry"  # modules whose `main` is a program
VENDOR = "holdfast.testing.simulated.__main__"
_PRELOADED = [
    GATEWAY,
    VENDOR,
    "holdfast.service.main",
    "holdfast.cli.gateway.run",
    "holdfast.cli.root",
]
_PRELOADED += ["holdfast.testing.simulated.platform", "holdfast.server.local.control_client"]
# What a gateway imports when it is first asked for it, as most of those in tests soon are.
_PRELOADED += ["holdfast.server.api.router", "holdfast.gateway.commands.table"]
_PRELOADED += ["holdfast.tools.shell.judge", "tree_sitter_bash", "holdfast.models.transport"]

# Starting a process polls all others. Of two threads that poll an ended process at once, only the
# first gets its exit code.
_POLL_LOCK = Lock()


class ForkedProcess:
    """Owns one process, with the interface of `subprocess.Popen` that tests use."""

    def __init__(self, process: ForkServerProcess, pipes: Sequence[IO[Any] | None]) -> None:
        self._process = process
        self.stdin, self.stdout, self.stderr = pipes

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """A descriptor that can be read once it has ended."""
        return self._process.sentinel

    @property
    def returncode(self) -> int | None:
        with _POLL_LOCK:
            return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or the negative number of the signal that ended it."""
        connection.wait([self.sentinel], timeout)
        if (code := self.returncode) is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Its whole output, once it has ended; its pipes are closed then."""
        with ThreadPoolExecutor(3) as threads:
            if self.stdin is not None:
                threads.submit(self._write_input, input)
            outputs = [threads.submit(_read_all, pipe) for pipe in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            out, err = (output.result() for output in outputs)
            return out, err

    def _write_input(self, text: Any) -> None:
        assert self.stdin is not None
        with suppress(BrokenPipeError), self.stdin:
            if text:
                self.stdin.write(text)


def _read_all(pipe: IO[Any] | None) -> Any:
    """None where there is no pipe, or it was read to its end before."""
    if pipe is None or pipe.closed:
        return None
    with pipe:
        return pipe.read()


class _PassedFd:
    """A descriptor that is duplicated into a new process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        return _detach, (DupFd(self._fd),)


def _detach(passed: Any) -> int:
    fd: int = passed.detach()
    return fd


def fork_process(
    program: str,
    *arguments: str,
    env: Mapping[str, str],
    stdin: int | IO[Any] = subprocess.DEVNULL,
    stdout: int | IO[Any] = subprocess.PIPE,
    stderr: int | IO[Any] = subprocess.PIPE,
    text: bool = False,
) -> ForkedProcess:
    """Fork a process that runs a program with this environment; descriptors as for `subprocess`."""
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    with ExitStack() as theirs:
        stream_fds = [
            _stream_fds(theirs, stream, reads=number == 0)
            for number, stream in enumerate((stdin, stdout, stderr))
        ]
        fds = tuple(_PassedFd(fd) for fd, _ in stream_fds)
        call = (program, arguments, dict(env), os.getcwd(), fds)
        process = context.Process(target=_run_program, args=call, daemon=True)
        with _POLL_LOCK:
            process.start()
    return ForkedProcess(
        process, [_open_pipe(ours, number, text) for number, (_, ours) in enumerate(stream_fds)]
    )


def run_holdfast(
    *arguments: str, env: Mapping[str, str], input: str | None = None, timeout: float = 100
) -> subprocess.CompletedProcess[str]:
    """`holdfast ARGUMENTS`, to its end."""
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    process = fork_process(GATEWAY, *arguments, env=env, stdin=stdin, text=True)
    out, err = process.communicate(input, timeout=timeout)
    return subprocess.CompletedProcess(arguments, process.wait(), out, err)


def _stream_fds(theirs: ExitStack, stream: int | IO[Any], *, reads: bool) -> tuple[int, int | None]:
    """The descriptor for the process, which is closed here with `theirs`, and our end of a pipe."""
    if stream == subprocess.PIPE:
        reading, writing = os.pipe()
        its, ours = (reading, writing) if reads else (writing, reading)
        theirs.callback(os.close, its)
        return its, ours
    if stream == subprocess.DEVNULL:
        nothing = os.open(os.devnull, os.O_RDWR)
        theirs.callback(os.close, nothing)
        return nothing, None
    return (stream if isinstance(stream, int) else stream.fileno()), None


def _open_pipe(fd: int | None, number: int, text: bool) -> IO[Any] | None:
    if fd is None:
        return None
    mode = "w" if number == 0 else "r"
    return os.fdopen(fd, mode, encoding="utf-8") if text else os.fdopen(fd, mode + "b")


def _run_program(
    program: str, arguments: Sequence[str], env: dict[str, str], cwd: str, fds: Sequence[int]
) -> None:
    """In the new process: become what a shell would have started."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout = _stream(0, "r"), _stream(1, "w")
    sys.stderr = _stream(2, "w", errors="backslashreplace", buffering=1)
    sys.argv = [str(Path(sys.executable).with_name("holdfast")), *arguments]
    try:
        import_module(program).main()
    finally:
        atexit._run_exitfuncs()


def _stream(
    fd: int, mode: str, *, errors: str = "surrogateescape", buffering: int = -1
) -> TextIOWrapper:
    """As the interpreter makes them of the descriptors that it starts with."""
    stream = os.fdopen(fd, mode, buffering, encoding="utf-8", errors=errors, closefd=False)
    assert isinstance(stream, TextIOWrapper)
    return stream
