"""The worker: a forked child that does one file operation, so that none can hold up the runner."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from .asker import Asker, Refusal
from .confine import limit_this_process
from .event_loop import Loop
from .files import edit, read, resolve, write
from .job import open_null
from .keeper import detach_from_runner
from .quota import Quota
from .search import search
from .shell import Terminals
from .spool import Record, Spool, read_record, try_to_write_durably, write_whole
from .tree import signal_all

LONGEST = 30.0  # seconds; a regular expression can run for ever
OPERATIONS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "read": read,
    "write": write,
    "edit": edit,
    "search": search,
}
CHANGING = frozenset({"write", "edit"})


class _Work:
    """One operation under way: its child, what that has said, and who asked."""

    def __init__(self, asker: Asker, call_id: str | None, pipe: int) -> None:
        self.asker, self.call_id, self.pipe = asker, call_id, pipe
        self.said = bytearray()


class Worker:
    """Owns the operations under way. Those that change something are recorded by call id."""

    def __init__(
        self,
        *,
        loop: Loop,
        spool: Spool,
        terminals: Terminals,
        quota: Quota,
        home: str,
        limits: Mapping[str, Any],
    ) -> None:
        self._loop, self._spool, self._terminals, self._quota = loop, spool, terminals, quota
        self._home, self._limits = home, limits

    def do(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        operation = str(frame["op"])
        folder = self._terminals.find(frame).working_folder()[0]
        path = resolve(str(frame["path"]), folder, self._home)
        call_id = str(frame["call"]) if operation in CHANGING else None
        if call_id is not None:
            record = read_record(self._spool.call(call_id))
            if record is not None:
                return _tell(asker, record.get("result"))
            self._check_room(frame)
            write_whole(self._spool.call(call_id), {"call_id": call_id, "command": operation})
        self._fork(asker, call_id, {**frame, "path": path})

    def _check_room(self, frame: Mapping[str, Any]) -> None:
        if self._quota.room() < len(str(frame.get("text") or frame.get("new") or "")):
            raise Refusal("the workspace is full: delete something first")

    def _fork(self, asker: Asker, call_id: str | None, frame: Mapping[str, Any]) -> None:
        pipe, child_end = os.pipe()
        nothing = open_null()
        pid = os.fork()
        if not pid:
            _child(nothing, child_end, frame, self._limits)
        os.close(child_end)
        os.close(nothing)
        work = _Work(asker, call_id, pipe)
        timer = self._loop.after(LONGEST, lambda: signal_all([pid], 9))
        self._loop.watch_reading(pipe, lambda: self._hear(work))
        self._loop.on_exit(pid, lambda _: timer.cancel())

    def _hear(self, work: _Work) -> None:
        piece = os.read(work.pipe, 65536)
        work.said += piece
        if piece:
            return
        self._loop.forget(work.pipe)
        os.close(work.pipe)
        try:
            result = json.loads(bytes(work.said))
        except ValueError:
            result = {"refused": f"it did not end within {LONGEST:.0f} s, or ran out of memory"}
        if work.call_id is not None:
            record = {"call_id": work.call_id, "result": result}
            try_to_write_durably(self._spool.call(work.call_id), record)
        _tell(work.asker, result)


def _tell(asker: Asker, result: Record | None) -> None:
    if result is None:
        asker.refuse("this change was begun and nobody knows whether it was made: look first")
    elif "refused" in result:
        asker.refuse(str(result["refused"]))
    else:
        asker.answer(result)


def _child(nothing: int, output: int, frame: Mapping[str, Any], limits: Mapping[str, Any]) -> None:
    try:
        detach_from_runner(nothing, output)
        limit_this_process(dict(limits))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # too large a file is a refusal, no death
        try:
            result = OPERATIONS[str(frame["op"])](frame)
        except Refusal as refusal:
            result = {"refused": str(refusal)}
        except OSError as error:
            result = {"refused": f"{frame['path']}: {error.strerror}"}
        data = json.dumps(result).encode()
        while data:
            data = data[os.write(1, data) :]
    finally:
        os._exit(0)
