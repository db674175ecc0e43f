"""Background processes: started once per call id, polled, written to and killed by id."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import shell
from .command_process import CommandProcess
from .event_loop import EventLoop
from .process_tree import ResourceUsage, resource_usage
from .protocol import RunnerRefusal, RunnerRequest
from .shell import ShellTerminal, ShellTerminals
from .spool import (
    Spool,
    SpoolRecord,
    decode_text,
    read_record,
    read_slice,
    remove_file,
    try_to_write_durably,
)

MAX_ENDED = 100
CHUNK = 16 * 1024
KILL_NOTES = {
    "cancelled": "killed",
    "quota": "killed: the workspace is full",
    "timed_out": "timed out",
}


class _BackgroundProcess:
    """One process: its record, and while it runs its job, its stdin and who waits."""

    def __init__(self, record: SpoolRecord) -> None:
        self.record = record
        self.process: CommandProcess | None = None
        self.stdin: int | None = None
        self.polled_offset = 0
        self.waiters: list[Callable[[], None]] = []


class Processes:
    """Owns the session's background processes and their records."""

    def __init__(
        self,
        *,
        loop: EventLoop,
        spool: Spool,
        terminals: ShellTerminals,
        limits: Mapping[str, Any],
        on_process: Callable[[CommandProcess, bool], None],
    ) -> None:
        self._loop, self._spool, self._terminals = loop, spool, terminals
        self._limits, self._on_process = limits, on_process
        self._processes: dict[str, _BackgroundProcess] = {}
        self._next = 1
        for record in spool.processes():
            self._adopt_record(record)

    def start(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        call_id, command = str(frame["call"]), str(frame["command"])
        earlier = read_record(self._spool.call(call_id))
        if earlier is None:
            shell.check_command(command)
            record = self._start(command, self._terminals.find(frame))
            try_to_write_durably(
                self._spool.call(call_id),
                {"call_id": call_id, "command": command, "result": record["id"]},
            )
            return request.answer(record)
        self.started(request, frame)

    def started(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        """The process that an earlier call started; None: that call was never heard of."""
        record = read_record(self._spool.call(str(frame["call"]))) or {}
        process = self._processes.get(str(record.get("result")))
        request.answer(process and process.record)

    def list(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        """With `taken`, those that run say what they take."""
        known = self._processes.values()
        jobs = [each.process.pid for each in known if each.process is not None]
        found = resource_usage(jobs) if frame.get("taken") else {}
        request.answer([_with_usage(each, found) for each in known])

    def poll(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        """What it wrote since the last look, the newest part if that is much."""
        request.answer(self._new_output(self._find(frame)))

    def log(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        """A part of its output: from `offset` on, or with none the end."""
        process = self._find(frame)
        limit = min(int(frame["limit"]), 4 * CHUNK)
        offset = frame.get("offset")
        path = self._spool.process(process.record["id"], "out")
        size = read_slice(path, 0, 0)[1]
        request.answer(
            self._output_chunk(process, size - limit if offset is None else int(offset), limit)
        )

    def wait(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        """Answer when it has ended, or when `limit` seconds are over."""
        process = self._find(frame)
        if process.process is None:
            return request.answer(self._new_output(process))
        timer = self._loop.after(float(frame["limit"]), lambda: notify())

        def notify() -> None:
            timer.cancel()
            if notify in process.waiters:
                process.waiters.remove(notify)
            if request.is_connected:
                request.answer(self._new_output(process))

        process.waiters.append(notify)

    def feed(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        process = self._find(frame)
        if process.stdin is None:
            raise RunnerRefusal(
                f"{process.record['id']} takes no more input: it has ended or was told EOF"
            )
        try:
            data = str(frame["text"]).encode()
            written = os.write(process.stdin, data) if data else 0
        except BlockingIOError:
            written = 0
        except BrokenPipeError:
            raise RunnerRefusal(f"{process.record['id']} has closed its input") from None
        if written < len(data):
            raise RunnerRefusal(
                f"only the first {written} bytes were taken: it does not read its input"
            )
        if frame.get("eof"):
            self._close_stdin(process)
        request.answer(process.record)

    def kill(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        """Answers when it and all below it have ended."""
        process = self._find(frame)
        if process.process is None:
            return request.answer(process.record)
        process.waiters.append(lambda: request.answer(process.record))
        process.process.kill("cancelled")

    def _start(self, command: str, terminal: ShellTerminal) -> SpoolRecord:
        self._prune_ended()
        process_id = f"p{self._next}"
        self._next += 1
        output = self._spool.create_output(self._spool.process(process_id, "out"))
        stdin, write_end = os.pipe()
        os.set_blocking(write_end, False)
        process = _BackgroundProcess(
            {"id": process_id, "command": command, "started_at": time.time()}
        )
        process.stdin = write_end
        try:
            process.process = CommandProcess(
                shell.shell_arguments(command),
                loop=self._loop,
                cwd=terminal.working_folder()[0],
                env=terminal.environment,
                stdin=stdin,
                output=output,
                limits=self._limits,
                on_end=lambda job, code: self._on_exit(process, job, code),
            )
        except OSError:
            self._close_stdin(process)
            raise
        finally:
            os.close(output)
            os.close(stdin)
        self._processes[process_id] = process
        try_to_write_durably(self._spool.process(process_id), process.record)
        self._on_process(process.process, True)
        return process.record

    def _on_exit(self, process: _BackgroundProcess, job: CommandProcess, code: int) -> None:
        process.process = None
        self._close_stdin(process)
        self._on_process(job, False)
        end = {
            "exit_code": None if job.kill_reason else code,
            "note": KILL_NOTES.get(job.kill_reason, ""),
        }
        process.record.update(end, ended_at=time.time())
        try_to_write_durably(self._spool.process(process.record["id"]), process.record)
        for notify in list(process.waiters):
            notify()

    def _adopt_record(self, record: SpoolRecord) -> None:
        """A process of an earlier runner: what had not ended by then went with it."""
        self._next = max(self._next, int(record["id"][1:]) + 1)
        if record.get("ended_at") is None:
            record.update(ended_at=time.time(), note="lost: its sandbox ended under it")
            try_to_write_durably(self._spool.process(record["id"]), record)
        self._processes[record["id"]] = _BackgroundProcess(record)

    def _prune_ended(self) -> None:
        ended = [name for name, process in self._processes.items() if process.process is None]
        for name in ended[:-MAX_ENDED]:
            del self._processes[name]
            for kind in ("json", "out"):
                remove_file(self._spool.process(name, kind))

    def _find(self, frame: Mapping[str, Any]) -> _BackgroundProcess:
        name = str(frame["process"])
        if name not in self._processes:
            names = ", ".join(self._processes) or "there are none"
            raise RunnerRefusal(f"no process {name!r}; known: {names}")
        return self._processes[name]

    def _new_output(self, process: _BackgroundProcess) -> SpoolRecord:
        size = read_slice(self._spool.process(process.record["id"], "out"), 0, 0)[1]
        return self._output_chunk(
            process, max(process.polled_offset, size - CHUNK), CHUNK, seen=True
        )

    def _output_chunk(
        self, process: _BackgroundProcess, offset: int, limit: int, *, seen: bool = False
    ) -> SpoolRecord:
        offset = max(0, offset)
        path = self._spool.process(process.record["id"], "out")
        data, size = read_slice(path, offset, limit)
        skipped = offset - process.polled_offset if seen else 0
        if seen:
            process.polled_offset = offset + len(data)
        return {
            "process": process.record,
            "output": decode_text(data),
            "offset": offset,
            "next": offset + len(data),
            "size": size,
            "skipped": skipped,
            "path": path,
        }

    def _close_stdin(self, process: _BackgroundProcess) -> None:
        if process.stdin is not None:
            os.close(process.stdin)
            process.stdin = None


def _with_usage(process: _BackgroundProcess, found: Mapping[int, ResourceUsage]) -> SpoolRecord:
    figures = found.get(process.process.pid) if process.process is not None else None
    return process.record if figures is None else {**process.record, **figures._asdict()}
