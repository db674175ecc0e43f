"""The nursery: gateways forked from a process that has imported the program, and does nothing else.

A life is a real process with its own pid, signals, files and end. What it does not do is import
sixty thousand lines before it begins, which is most of what a short life costs: with this, a chain
of lives takes a fifth of the time.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_PRELOADED = ["holdfast.main", "holdfast.cli.run", "holdfast.platforms.simulated.remote"]


class Born:
    """Owns one gateway of the nursery; what a test does with `asyncio.subprocess.Process`."""

    def __init__(self, process: ForkServerProcess, stdout: asyncio.StreamReader) -> None:
        self._process = process
        self.stdout = stdout

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    async def wait(self) -> int:
        """Its exit code, or the negative number of the signal that ended it."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        self._process.join()
        assert self.returncode is not None
        return self.returncode


async def bear(environment: Mapping[str, str], errors: Path) -> Born:
    """Begin a `holdfast run` with this environment alone, and its stderr in that file."""
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    heard, said = context.Pipe(duplex=False)
    process = context.Process(target=_live, args=(dict(environment), errors, said), daemon=True)
    # In this thread: whoever starts a process asks after all others, and two who ask at once
    # after one that has ended share its exit code between them.
    process.start()
    said.close()
    return Born(process, await _reader(heard))


async def _reader(heard: Connection) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(os.dup(heard.fileno()), "rb", buffering=0)
    heard.close()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


def _live(environment: dict[str, str], errors: Path, said: Connection) -> None:
    """In the new process: become what a shell would have started."""
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(said.fileno(), 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    said.close()
    sys.argv = ["holdfast", "run"]
    from holdfast.cli.entry import main  # noqa: PLC0415 - what imports this file need not have it

    main()
