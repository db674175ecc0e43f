"""Background processes: started once per call id, watched, spoken to and ended by name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import shell
from .asker import Asker, Refusal
from .event_loop import Loop
from .job import Job
from .shell import Terminal, Terminals
from .spool import Record, Spool, read_record, remove, slice_of, text_of, try_to_write_durably
from .taking import Taken, taken

ENDED_KEPT = 100
PIECE = 16 * 1024
WHY = {"cancelled": "killed", "quota": "killed: the workspace is full", "timed_out": "timed out"}


class _Process:
    """One process: its record, and while it runs its job, its stdin and who waits."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.job: Job | None = None
        self.stdin: int | None = None
        self.polled = 0
        self.waiting: list[Callable[[], None]] = []


class Processes:
    """Owns the session's background processes and their records."""

    def __init__(
        self,
        *,
        loop: Loop,
        spool: Spool,
        terminals: Terminals,
        limits: Mapping[str, Any],
        on_job: Callable[[Job, bool], None],
    ) -> None:
        self._loop, self._spool, self._terminals = loop, spool, terminals
        self._limits, self._on_job = limits, on_job
        self._known: dict[str, _Process] = {}
        self._next = 1
        for record in spool.processes():
            self._inherit(record)

    def start(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        call_id, command = str(frame["call"]), str(frame["command"])
        earlier = read_record(self._spool.call(call_id))
        if earlier is None:
            shell.check(command)
            record = self._start(command, self._terminals.find(frame))
            try_to_write_durably(
                self._spool.call(call_id),
                {"call_id": call_id, "command": command, "result": record["id"]},
            )
            return asker.answer(record)
        self.started(asker, frame)

    def started(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        """The process that an earlier call started; None: that call was never heard of."""
        record = read_record(self._spool.call(str(frame["call"]))) or {}
        process = self._known.get(str(record.get("result")))
        asker.answer(process and process.record)

    def list(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        """With `taken`, those that run say what they take."""
        known = self._known.values()
        jobs = [each.job.pid for each in known if each.job is not None]
        found = taken(jobs) if frame.get("taken") else {}
        asker.answer([_told(each, found) for each in known])

    def poll(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        """What it wrote since the last look, the newest part if that is much."""
        asker.answer(self._news(self._find(frame)))

    def log(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        """A part of its output: from `offset` on, or with none the end."""
        process = self._find(frame)
        limit = min(int(frame["limit"]), 4 * PIECE)
        offset = frame.get("offset")
        path = self._spool.process(process.record["id"], "out")
        size = slice_of(path, 0, 0)[1]
        asker.answer(self._piece(process, size - limit if offset is None else int(offset), limit))

    def wait(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        """Answer when it has ended, or when `limit` seconds are over."""
        process = self._find(frame)
        if process.job is None:
            return asker.answer(self._news(process))
        timer = self._loop.after(float(frame["limit"]), lambda: tell())

        def tell() -> None:
            timer.cancel()
            if tell in process.waiting:
                process.waiting.remove(tell)
            if asker.present:
                asker.answer(self._news(process))

        process.waiting.append(tell)

    def feed(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        process = self._find(frame)
        if process.stdin is None:
            raise Refusal(
                f"{process.record['id']} takes no more input: it has ended or was told EOF"
            )
        try:
            data = str(frame["text"]).encode()
            taken = os.write(process.stdin, data) if data else 0
        except BlockingIOError:
            taken = 0
        except BrokenPipeError:
            raise Refusal(f"{process.record['id']} has closed its input") from None
        if taken < len(data):
            raise Refusal(f"only the first {taken} bytes were taken: it does not read its input")
        if frame.get("eof"):
            self._close_stdin(process)
        asker.answer(process.record)

    def kill(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        """Answers when it and all below it have ended."""
        process = self._find(frame)
        if process.job is None:
            return asker.answer(process.record)
        process.waiting.append(lambda: asker.answer(process.record))
        process.job.kill("cancelled")

    def _start(self, command: str, terminal: Terminal) -> Record:
        self._forget_old()
        process_id = f"p{self._next}"
        self._next += 1
        output = self._spool.create_output(self._spool.process(process_id, "out"))
        stdin, write_end = os.pipe()
        os.set_blocking(write_end, False)
        process = _Process({"id": process_id, "command": command, "started_at": time.time()})
        process.stdin = write_end
        try:
            process.job = Job(
                shell.arguments(command),
                loop=self._loop,
                cwd=terminal.working_folder()[0],
                env=terminal.environment,
                stdin=stdin,
                output=output,
                limits=self._limits,
                on_end=lambda job, code: self._ended(process, job, code),
            )
        except OSError:
            self._close_stdin(process)
            raise
        finally:
            os.close(output)
            os.close(stdin)
        self._known[process_id] = process
        try_to_write_durably(self._spool.process(process_id), process.record)
        self._on_job(process.job, True)
        return process.record

    def _ended(self, process: _Process, job: Job, code: int) -> None:
        process.job = None
        self._close_stdin(process)
        self._on_job(job, False)
        end = {"exit_code": None if job.reason else code, "note": WHY.get(job.reason, "")}
        process.record.update(end, ended_at=time.time())
        try_to_write_durably(self._spool.process(process.record["id"]), process.record)
        for tell in list(process.waiting):
            tell()

    def _inherit(self, record: Record) -> None:
        """A process of an earlier runner: what had not ended by then went with it."""
        self._next = max(self._next, int(record["id"][1:]) + 1)
        if record.get("ended_at") is None:
            record.update(ended_at=time.time(), note="lost: its sandbox ended under it")
            try_to_write_durably(self._spool.process(record["id"]), record)
        self._known[record["id"]] = _Process(record)

    def _forget_old(self) -> None:
        ended = [name for name, process in self._known.items() if process.job is None]
        for name in ended[:-ENDED_KEPT]:
            del self._known[name]
            for kind in ("json", "out"):
                remove(self._spool.process(name, kind))

    def _find(self, frame: Mapping[str, Any]) -> _Process:
        name = str(frame["process"])
        if name not in self._known:
            names = ", ".join(self._known) or "there are none"
            raise Refusal(f"no process {name!r}; known: {names}")
        return self._known[name]

    def _news(self, process: _Process) -> Record:
        size = slice_of(self._spool.process(process.record["id"], "out"), 0, 0)[1]
        return self._piece(process, max(process.polled, size - PIECE), PIECE, seen=True)

    def _piece(self, process: _Process, offset: int, limit: int, *, seen: bool = False) -> Record:
        offset = max(0, offset)
        path = self._spool.process(process.record["id"], "out")
        data, size = slice_of(path, offset, limit)
        skipped = offset - process.polled if seen else 0
        if seen:
            process.polled = offset + len(data)
        return {
            "process": process.record,
            "output": text_of(data),
            "offset": offset,
            "next": offset + len(data),
            "size": size,
            "skipped": skipped,
            "path": path,
        }

    def _close_stdin(self, process: _Process) -> None:
        if process.stdin is not None:
            os.close(process.stdin)
            process.stdin = None


def _told(process: _Process, found: Mapping[int, Taken]) -> Record:
    figures = found.get(process.job.pid) if process.job is not None else None
    return process.record if figures is None else {**process.record, **figures._asdict()}
