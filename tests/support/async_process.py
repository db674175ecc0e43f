"""Forked processes for tests that wait for them in an event loop."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from tests.support import fork_server


class AsyncProcess:
    """Owns one process, with the interface of `asyncio.subprocess.Process` that tests use."""

    def __init__(self, process: fork_server.ForkedProcess, stdout: asyncio.StreamReader) -> None:
        self._process = process
        self.stdout = stdout
        self.pid = process.pid
        self.send_signal = process.send_signal
        self.terminate = process.terminate
        self.kill = process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        """Its exit code, or the negative number of the signal that ended it."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        return self._process.wait()


async def start_process(
    program: str, *arguments: str, env: Mapping[str, str], errors: Path | None = None
) -> AsyncProcess:
    """Fork a process that runs a program with this environment, and its stderr in that file."""
    ours, theirs = os.pipe()
    stderr = os.open(errors or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        process = fork_server.fork_process(
            program, *arguments, env=env, stdout=theirs, stderr=stderr
        )
    finally:
        os.close(theirs)
        os.close(stderr)
    return AsyncProcess(process, await _reader(ours))


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(fd, "rb", buffering=0)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader
