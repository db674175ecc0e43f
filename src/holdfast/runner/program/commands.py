"""Commands: what the terminal runs, each once per call id, its result kept for good."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import shell
from .asker import Asker
from .event_loop import Loop
from .job import Job, open_null
from .shell import Terminal, Terminals
from .spool import (
    Record,
    Spool,
    head_and_tail,
    read_record,
    read_regular,
    remove,
    try_to_write_durably,
    write_whole,
)
from .tails import Tail, Tails

LOST: Record = {"exit_code": None, "output": "", "lost": True}


class _Running:
    """A command under way and who waits for it."""

    def __init__(
        self, call_id: str, command: str, job: Job, *, terminal: Terminal, tail_path: str
    ) -> None:
        self.call_id, self.command, self.job = call_id, command, job
        self.terminal = terminal
        self.askers: list[Asker] = []
        self.tail = Tail(tail_path, self._tell)

    def _tell(self, text: str) -> None:
        for asker in self.askers:
            if asker.wants_stream:
                asker.stream(text)


class Commands:
    """Owns the running commands."""

    def __init__(
        self,
        *,
        loop: Loop,
        spool: Spool,
        terminals: Terminals,
        tails: Tails,
        limits: Mapping[str, Any],
        output_limit: int,
        on_job: Callable[[Job, bool], None],
    ) -> None:
        self._loop, self._spool, self._terminals, self._tails = loop, spool, terminals, tails
        self._limits, self._output_limit, self._on_job = limits, output_limit, on_job
        self._running: dict[str, _Running] = {}

    def run(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        call_id, command = str(frame["call"]), str(frame["command"])
        if call_id not in self._running and read_record(self._spool.call(call_id)) is None:
            shell.check(command)
            self._start(call_id, command, float(frame["limit"]), self._terminals.find(frame))
        self.attach(asker, frame)

    def attach(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        call_id = str(frame["call"])
        running = self._running.get(call_id)
        if running:
            running.askers.append(asker)
            if asker.wants_stream:
                self._tails.add(running.tail)
            return
        record = read_record(self._spool.call(call_id))
        asker.answer(record and (record.get("result") or LOST))

    def cancel(self, asker: Asker, frame: Mapping[str, Any]) -> None:
        running = self._running.get(str(frame["call"]))
        if running:
            running.job.kill("cancelled")
        asker.answer(None)

    def _start(self, call_id: str, command: str, limit: float, terminal: Terminal) -> None:
        self._spool.forget_old_calls()
        write_whole(self._spool.call(call_id), {"call_id": call_id, "command": command})
        cwd, remark = terminal.working_folder()
        path = self._spool.call(call_id, "out")
        output, nothing = self._spool.create_output(path), open_null()
        try:
            os.write(output, remark.encode())
            job = Job(
                shell.arguments(command, self._spool.call(call_id, "state")),
                loop=self._loop,
                cwd=cwd,
                env=terminal.environment,
                stdin=nothing,
                output=output,
                limits=self._limits,
                on_end=lambda job, code: self._ended(call_id, code),
            )
        except OSError:
            remove(self._spool.call(call_id))  # it never began, and may be asked for again
            raise
        finally:
            os.close(output)
            os.close(nothing)
        job.limit(limit)
        self._running[call_id] = _Running(call_id, command, job, terminal=terminal, tail_path=path)
        self._on_job(job, True)

    def _ended(self, call_id: str, code: int) -> None:
        running = self._running.pop(call_id)
        self._on_job(running.job, False)
        self._take_state(running)
        self._tails.remove(running.tail)
        result = self._result(running, code)
        record = {"call_id": call_id, "command": running.command, "result": result}
        # Durable before it is told: a gateway that has heard it may rely on it.
        try_to_write_durably(self._spool.call(call_id), record)
        for asker in running.askers:
            asker.answer(result)

    def _take_state(self, running: _Running) -> None:
        path = self._spool.call(running.call_id, "state")
        data = read_regular(path)
        if data is not None:
            running.terminal.absorb(data)
            remove(path)

    def _result(self, running: _Running, code: int) -> Record:
        reason = running.job.reason
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
            "seconds": round(time.monotonic() - running.job.began, 3),
        }
