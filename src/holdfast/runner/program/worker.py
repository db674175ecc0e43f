"""The worker: a forked child that does one file operation, so that none can hold up the runner."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from .asker import RunnerRefusal, RunnerRequest
from .confine import limit_this_process
from .event_loop import EventLoop
from .files import edit_file, read_file, resolve_path, write_file
from .job import open_devnull
from .keeper import detach_from_runner
from .quota import DiskQuota
from .search import search_files
from .shell import ShellTerminals
from .spool import Spool, SpoolRecord, read_record, try_to_write_durably, write_atomically
from .tree import signal_all

MAX_SECONDS = 30.0  # seconds; a regular expression can run for ever
FILE_OPERATIONS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "read": read_file,
    "write": write_file,
    "edit": edit_file,
    "search": search_files,
}
RECORDED_OPERATIONS = frozenset({"write", "edit"})


class _FileOperation:
    """One operation under way: its child, what that has said, and who asked."""

    def __init__(self, request: RunnerRequest, call_id: str | None, pipe: int) -> None:
        self.request, self.call_id, self.pipe = request, call_id, pipe
        self.output = bytearray()


class FileWorker:
    """Owns the operations under way. Those that change something are recorded by call id."""

    def __init__(
        self,
        *,
        loop: EventLoop,
        spool: Spool,
        terminals: ShellTerminals,
        quota: DiskQuota,
        home: str,
        limits: Mapping[str, Any],
    ) -> None:
        self._loop, self._spool, self._terminals, self._quota = loop, spool, terminals, quota
        self._home, self._limits = home, limits

    def run(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        operation = str(frame["op"])
        folder = self._terminals.find(frame).working_folder()[0]
        path = resolve_path(str(frame["path"]), folder, self._home)
        call_id = str(frame["call"]) if operation in RECORDED_OPERATIONS else None
        if call_id is not None:
            record = read_record(self._spool.call(call_id))
            if record is not None:
                return _respond(request, record.get("result"))
            self._check_space(frame)
            write_atomically(self._spool.call(call_id), {"call_id": call_id, "command": operation})
        self._fork(request, call_id, {**frame, "path": path})

    def _check_space(self, frame: Mapping[str, Any]) -> None:
        if self._quota.free_bytes() < len(str(frame.get("text") or frame.get("new") or "")):
            raise RunnerRefusal("the workspace is full: delete something first")

    def _fork(self, request: RunnerRequest, call_id: str | None, frame: Mapping[str, Any]) -> None:
        pipe, child_end = os.pipe()
        nothing = open_devnull()
        pid = os.fork()
        if not pid:
            _run_child(nothing, child_end, frame, self._limits)
        os.close(child_end)
        os.close(nothing)
        work = _FileOperation(request, call_id, pipe)
        timer = self._loop.after(MAX_SECONDS, lambda: signal_all([pid], 9))
        self._loop.watch_reading(pipe, lambda: self._on_readable(work))
        self._loop.on_exit(pid, lambda _: timer.cancel())

    def _on_readable(self, work: _FileOperation) -> None:
        piece = os.read(work.pipe, 65536)
        work.output += piece
        if piece:
            return
        self._loop.unwatch(work.pipe)
        os.close(work.pipe)
        try:
            result = json.loads(bytes(work.output))
        except ValueError:
            result = {"refused": f"it did not end within {MAX_SECONDS:.0f} s, or ran out of memory"}
        if work.call_id is not None:
            record = {"call_id": work.call_id, "result": result}
            try_to_write_durably(self._spool.call(work.call_id), record)
        _respond(work.request, result)


def _respond(request: RunnerRequest, result: SpoolRecord | None) -> None:
    if result is None:
        request.refuse("this change was begun and nobody knows whether it was made: look first")
    elif "refused" in result:
        request.refuse(str(result["refused"]))
    else:
        request.answer(result)


def _run_child(
    nothing: int, output: int, frame: Mapping[str, Any], limits: Mapping[str, Any]
) -> None:
    try:
        detach_from_runner(nothing, output)
        limit_this_process(dict(limits))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # too large a file is a refusal, no death
        try:
            result = FILE_OPERATIONS[str(frame["op"])](frame)
        except RunnerRefusal as refusal:
            result = {"refused": str(refusal)}
        except OSError as error:
            result = {"refused": f"{frame['path']}: {error.strerror}"}
        data = json.dumps(result).encode()
        while data:
            data = data[os.write(1, data) :]
    finally:
        os._exit(0)
