"""The client of a runner: the connection, and the `Sandbox` port over it that tools use."""

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec

from holdfast.core.errors import RunnerError
from holdfast.core.ids import CallId
from holdfast.core.ports.sandbox import (
    CommandResult,
    FileEditResult,
    FileSearchResult,
    FileText,
    FileWriteResult,
    ProcessInfo,
    ProcessOutput,
    SandboxRefused,
)
from holdfast.runner.paths import SessionPaths
from holdfast.runner.program.protocol import encode_frame, take_frames


class RunnerConnectionLost(RunnerError):
    """The runner went away with the request under way."""


class _PendingRequest:
    def __init__(self, on_output: Callable[[str], None] | None) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.on_output = on_output


class RunnerConnection(asyncio.Protocol):
    """Owns the connection. `on_lost` is called once when the runner goes, not after `detach`."""

    def __init__(self, *, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._ids = itertools.count(1)
        self._pending: dict[int, _PendingRequest] = {}
        self._incoming = bytearray()
        self.released = False
        self.closed = asyncio.Event()

    @classmethod
    async def open(cls, sock: socket.socket, *, on_lost: Callable[[], None]) -> "RunnerConnection":
        loop = asyncio.get_running_loop()
        _, link = await loop.create_unix_connection(lambda: cls(on_lost=on_lost), sock=sock)
        return link

    @property
    def alive(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def request(
        self, operation: str, *, on_output: Callable[[str], None] | None = None, **details: Any
    ) -> Any:
        """The runner's answer. Raises `SandboxRefused`, or `RunnerConnectionLost` if it ended."""
        question = _PendingRequest(on_output)
        number = next(self._ids)
        self._pending[number] = question
        try:
            self._send(number, operation, {**details, "stream": on_output is not None})
            return await question.answer
        finally:
            self._pending.pop(number, None)

    def notify(self, operation: str, **details: Any) -> None:
        """Send a message without waiting for an answer. It is lost if the connection is."""
        if self.alive and not self.released:
            self._send(next(self._ids), operation, details)

    def release(self) -> None:
        """Close and leave the runner alone. Callers continue to wait for their answers: what was
        asked is still being done, and only a successor will hear how it ended."""
        self.released = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an instance of it where the event loop is uvloop's, whose transports are its own.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._incoming += data
        try:
            frames = take_frames(self._incoming)
        except ValueError:
            assert self._transport is not None
            return self._transport.abort()
        for frame in frames:
            self._handle_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        if self.released:
            return
        for question in self._pending.values():
            if not question.answer.done():
                question.answer.set_exception(
                    RunnerConnectionLost("the session's runner has exited")
                )
        self._on_lost()

    def _send(self, number: int, operation: str, details: dict[str, Any]) -> None:
        if self._transport is None or not self.alive:
            raise RunnerConnectionLost("the session's runner has exited")
        self._transport.write(encode_frame({"id": number, "op": operation, **details}))

    def _handle_frame(self, frame: dict[str, Any]) -> None:
        question = self._pending.get(frame["id"])
        if question is None or question.answer.done():
            return
        if "output" in frame:
            if question.on_output is not None:
                question.on_output(frame["output"])
        elif "refused" in frame:
            question.answer.set_exception(SandboxRefused(frame["refused"]))
        else:
            question.answer.set_result(frame["result"])


T = TypeVar("T")
LOST_RESULT = CommandResult(exit_code=None, output="", lost=True)


def _convert(kind: type[T], answer: Any) -> T:
    """Validate the runner's answer: commands in the sandbox may have changed its spool."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise RunnerError("the runner's record is invalid: {error}", error=error) from None


class SessionSandbox:
    """Implements the `Sandbox` port over the connection to the session's runner; owns nothing.

    `open_connection` starts a runner if there is none, `find_connection` only finds one. `shell`
    names the terminal of commands and relative paths; "" is the session's own.
    """

    def __init__(
        self,
        *,
        paths: SessionPaths,
        shell: str = "",
        open_connection: Callable[[], Awaitable[RunnerConnection]],
        find_connection: Callable[[], Awaitable[RunnerConnection | None]],
    ) -> None:
        self._paths = paths
        self._open_connection = open_connection
        self._find_connection = find_connection
        self._shell: dict[str, Any] = {"shell": shell} if shell else {}

    async def run(
        self,
        call_id: CallId,
        command: str,
        *,
        limit: float,
        on_output: Callable[[str], None] | None = None,
    ) -> CommandResult:
        details = {"call": call_id, "command": command, "limit": limit, **self._shell}
        try:
            return await self._run_command(details, on_output)
        except RunnerConnectionLost:
            # It may have ended because it was idle, at the moment of our request. Only a command
            # that it has no record of may be sent again.
            if self._paths.call_record(call_id) is not None:
                return self._recorded_result(call_id) or LOST_RESULT
        return await self._run_command(details, on_output)

    async def attach(
        self, call_id: CallId, *, on_output: Callable[[str], None] | None = None
    ) -> CommandResult | None:
        connection = await self._find_connection()
        if connection is not None:
            try:
                return await self._request_command(
                    "attach", {"call": call_id}, connection, on_output
                )
            except RunnerConnectionLost:
                pass
        return self._recorded_result(call_id)

    async def start_process(self, call_id: CallId, command: str) -> ProcessInfo:
        return await self._request(ProcessInfo, "start", call=call_id, command=command)

    async def started_process(self, call_id: CallId) -> ProcessInfo | None:
        if self._paths.call_record(call_id) is None:
            return None
        connection = await self._open_connection()
        answer = await connection.request("started", call=call_id)
        return None if answer is None else _convert(ProcessInfo, answer)

    async def list_processes(self) -> tuple[ProcessInfo, ...]:
        return await self._request(tuple[ProcessInfo, ...], "list")

    async def poll_process(self, process_id: str) -> ProcessOutput:
        return await self._request(ProcessOutput, "poll", process=process_id)

    async def read_process_log(
        self, process_id: str, *, offset: int | None = None, limit: int = 16384
    ) -> ProcessOutput:
        return await self._request(
            ProcessOutput, "log", process=process_id, offset=offset, limit=limit
        )

    async def wait_for_process(self, process_id: str, *, limit: float) -> ProcessOutput:
        return await self._request(ProcessOutput, "wait", process=process_id, limit=limit)

    async def feed_process(self, process_id: str, text: str, *, eof: bool = False) -> ProcessInfo:
        return await self._request(ProcessInfo, "feed", process=process_id, text=text, eof=eof)

    async def kill_process(self, process_id: str) -> ProcessInfo:
        return await self._request(ProcessInfo, "kill", process=process_id)

    async def read_file(self, path: str, *, offset: int = 1, limit: int = 2000) -> FileText:
        return await self._request(FileText, "read", path=path, offset=offset, limit=limit)

    async def write_file(self, call_id: CallId, path: str, text: str) -> FileWriteResult:
        return await self._request(FileWriteResult, "write", call=call_id, path=path, text=text)

    async def edit_file(
        self, call_id: CallId, path: str, *, old: str, new: str, everywhere: bool = False
    ) -> FileEditResult:
        details = {"path": path, "old": old, "new": new, "all": everywhere}
        return await self._request(FileEditResult, "edit", call=call_id, **details)

    async def recorded_edit(self, call_id: CallId) -> FileEditResult | None:
        record = self._paths.call_record(call_id)
        result = None if record is None else record.get("result")
        if not isinstance(result, dict):
            return None
        if "refused" in result:
            raise SandboxRefused(str(result["refused"]))
        return _convert(FileEditResult, result)

    async def search_files(
        self, pattern: str, *, path: str = ".", glob: str = ""
    ) -> FileSearchResult:
        return await self._request(
            FileSearchResult, "search", pattern=pattern, path=path, glob=glob
        )

    async def _request(self, kind: type[T], operation: str, **details: Any) -> T:
        connection = await self._open_connection()
        return _convert(kind, await connection.request(operation, **self._shell, **details))

    async def _run_command(
        self, details: dict[str, Any], on_output: Callable[[str], None] | None
    ) -> CommandResult:
        return (
            await self._request_command("run", details, await self._open_connection(), on_output)
            or LOST_RESULT
        )

    async def _request_command(
        self,
        operation: str,
        details: dict[str, Any],
        connection: RunnerConnection,
        on_output: Callable[[str], None] | None,
    ) -> CommandResult | None:
        try:
            answer = await connection.request(operation, on_output=on_output, **details)
        except asyncio.CancelledError:
            connection.notify("cancel", call=details["call"])
            raise
        return None if answer is None else _convert(CommandResult, answer)

    def _recorded_result(self, call_id: CallId) -> CommandResult | None:
        record = self._paths.call_record(call_id)
        if record is None:
            return None
        result = record.get("result")
        return LOST_RESULT if result is None else _convert(CommandResult, result)
