"""Commands of the terminal: each runs once per call id, streams its output, and its result is
stored in the spool."""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import kernel, shell, spool
from .command_process import CommandProcess, open_devnull
from .event_loop import EventLoop
from .protocol import RunnerRequest
from .shell import ShellTerminal, ShellTerminals
from .spool import (
    Spool,
    SpoolRecord,
    head_and_tail,
    read_record,
    read_regular,
    remove_file,
    try_to_write_durably,
    write_atomically,
)

TAIL_PAUSE = 0.1  # seconds between two pieces, however fast a command writes
POLL_PAUSE = 0.5  # where there is no inotify
TAIL_CHUNK = 64 * 1024
LOST_RESULT: SpoolRecord = {"exit_code": None, "output": "", "lost": True}


class OutputTail:
    """Owns how far one output file has been streamed."""

    def __init__(self, path: str, send: Callable[[str], None]) -> None:
        self.path, self._send = path, send
        self.watch = -1
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def catch_up(self) -> None:
        """Send what is new; of a flood only the last piece, since the file has everything."""
        _, size = spool.read_slice(self.path, 0, 0)
        self._offset = max(self._offset, size - TAIL_CHUNK)
        data, _ = spool.read_slice(self.path, self._offset, TAIL_CHUNK)
        if data:
            self._offset += len(data)
            self._send(self._decoder.decode(data).replace("\0", "\ufffd"))


class OutputTails:
    """Streams the output files of running commands. Owns the inotify descriptor: files are read
    only when they have grown."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._tails: set[OutputTail] = set()
        self._scheduled = False
        self._inotify = kernel.inotify_open()
        if self._inotify is not None:
            loop.watch_reading(self._inotify, self._on_growth)

    def add(self, tail: OutputTail) -> None:
        self._tails.add(tail)
        if self._inotify is not None:
            tail.watch = kernel.inotify_watch_writes(self._inotify, tail.path)
        self._schedule(TAIL_PAUSE if tail.watch >= 0 else POLL_PAUSE)

    def remove(self, tail: OutputTail) -> None:
        """Sends the last piece first."""
        if tail in self._tails:
            tail.catch_up()
            self._tails.discard(tail)
            if self._inotify is not None:
                kernel.inotify_forget(self._inotify, tail.watch)

    def _on_growth(self) -> None:
        try:
            os.read(self._inotify or 0, 65536)
        except BlockingIOError:
            return
        self._schedule(TAIL_PAUSE)

    def _schedule(self, pause: float) -> None:
        if not self._scheduled and self._tails:
            self._scheduled = True
            self._loop.after(pause, self._catch_up)

    def _catch_up(self) -> None:
        self._scheduled = False
        for tail in list(self._tails):
            tail.catch_up()
        if any(tail.watch < 0 for tail in self._tails):
            self._schedule(POLL_PAUSE)


class _RunningCommand:
    """A running command and the requests that wait for it."""

    def __init__(
        self,
        call_id: str,
        command: str,
        job: CommandProcess,
        *,
        terminal: ShellTerminal,
        tail_path: str,
    ) -> None:
        self.call_id, self.command, self.process = call_id, command, job
        self.terminal = terminal
        self.requests: list[RunnerRequest] = []
        self.tail = OutputTail(tail_path, self._stream)

    def _stream(self, text: str) -> None:
        for request in self.requests:
            if request.wants_stream:
                request.stream(text)


class Commands:
    """Owns the running commands."""

    def __init__(
        self,
        *,
        loop: EventLoop,
        spool: Spool,
        terminals: ShellTerminals,
        tails: OutputTails,
        limits: Mapping[str, Any],
        output_limit: int,
        on_process: Callable[[CommandProcess, bool], None],
    ) -> None:
        self._loop, self._spool, self._terminals, self._tails = loop, spool, terminals, tails
        self._limits, self._output_limit, self._on_process = limits, output_limit, on_process
        self._running: dict[str, _RunningCommand] = {}

    def run(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        call_id, command = str(frame["call"]), str(frame["command"])
        if call_id not in self._running and read_record(self._spool.call(call_id)) is None:
            shell.check_command(command)
            self._start(call_id, command, float(frame["limit"]), self._terminals.find(frame))
        self.attach(request, frame)

    def attach(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        call_id = str(frame["call"])
        running = self._running.get(call_id)
        if running:
            running.requests.append(request)
            if request.wants_stream:
                self._tails.add(running.tail)
            return
        record = read_record(self._spool.call(call_id))
        request.answer(record and (record.get("result") or LOST_RESULT))

    def cancel(self, request: RunnerRequest, frame: Mapping[str, Any]) -> None:
        running = self._running.get(str(frame["call"]))
        if running:
            running.process.kill("cancelled")
        request.answer(None)

    def _start(self, call_id: str, command: str, limit: float, terminal: ShellTerminal) -> None:
        self._spool.prune_calls()
        write_atomically(self._spool.call(call_id), {"call_id": call_id, "command": command})
        cwd, remark = terminal.working_folder()
        path = self._spool.call(call_id, "out")
        output, nothing = self._spool.create_output(path), open_devnull()
        try:
            os.write(output, remark.encode())
            job = CommandProcess(
                shell.shell_arguments(command, self._spool.call(call_id, "state")),
                loop=self._loop,
                cwd=cwd,
                env=terminal.environment,
                stdin=nothing,
                output=output,
                limits=self._limits,
                on_end=lambda job, code: self._on_exit(call_id, code),
            )
        except OSError:
            remove_file(self._spool.call(call_id))  # it never started, and may be requested again
            raise
        finally:
            os.close(output)
            os.close(nothing)
        job.set_time_limit(limit)
        self._running[call_id] = _RunningCommand(
            call_id, command, job, terminal=terminal, tail_path=path
        )
        self._on_process(job, True)

    def _on_exit(self, call_id: str, code: int) -> None:
        running = self._running.pop(call_id)
        self._on_process(running.process, False)
        self._save_terminal_state(running)
        self._tails.remove(running.tail)
        result = self._result(running, code)
        record = {"call_id": call_id, "command": running.command, "result": result}
        # Durable before it is sent: a gateway that has received it may rely on it.
        try_to_write_durably(self._spool.call(call_id), record)
        for request in running.requests:
            request.answer(result)

    def _save_terminal_state(self, running: _RunningCommand) -> None:
        path = self._spool.call(running.call_id, "state")
        data = read_regular(path)
        if data is not None:
            running.terminal.update_from(data)
            remove_file(path)

    def _result(self, running: _RunningCommand, code: int) -> SpoolRecord:
        reason = running.process.kill_reason
        output, truncated = head_and_tail(
            self._spool.call(running.call_id, "out"), self._output_limit
        )
        if reason == "quota":
            output += "\n[killed: the workspace is full; delete something and try again]"
        return {
            "exit_code": None if reason else code,
            "output": output,
            "truncated": truncated,
            "timed_out": reason == "timed_out",
            "cancelled": reason == "cancelled",
            "cwd": running.terminal.cwd,
            "seconds": round(time.monotonic() - running.process.started, 3),
        }
