"""The local model's process: started by the first call that wants it, ended with its owner."""

import asyncio
import json
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

from holdfast.core.turns.model import ModelFailed, ModelFault

log = logging.getLogger(__name__)

_START_TIMEOUT = 60.0
_STOP_TIMEOUT = 5.0


class LocalServer:
    """Owns the process of one model file. It runs beside the event loop, never on it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._process: Process | None = None
        self._starting: asyncio.Task[str] | None = None

    async def base_url(self) -> str:
        """Where it listens; starts it if it does not run. Raises `ModelFailed`.

        Who stops waiting does not stop the start: the next caller finds it further on.
        """
        if self._starting is None or self._has_ended(self._starting):
            self._starting = asyncio.create_task(self._start(), name="local model")
        return await asyncio.shield(self._starting)

    async def close(self) -> None:
        """Ends it: its stdin is closed, and after a moment it is killed. Idempotent."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_TIMEOUT)
        except TimeoutError:
            process.kill()
            await process.wait()

    def _has_ended(self, starting: "asyncio.Task[str]") -> bool:
        if not starting.done():
            return False
        if starting.cancelled() or starting.exception() is not None:
            return True
        return self._process is None or self._process.returncode is not None

    async def _start(self) -> str:
        log.info(
            "Starting the local model %s", self._file.name, extra={"action": "local_model_starting"}
        )
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "holdfast.models.local", str(self._file),
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_TIMEOUT)
        if not line:
            self._process.kill()
            raise ModelFailed(
                f"The local model {self._file.name} did not start. To see why: "
                f"{sys.executable} -m holdfast.models.local {self._file}",
                fault=ModelFault.SERVER,
            )
        return str(json.loads(line)["base_url"])
