"""The views of what runs: background processes, and tool calls."""

import msgspec


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    command: str
    running: bool
    started_at: float
    ended_at: float | None
    exit_code: int | None
    note: str = ""  # why there is no exit code although it ended
    output: str = ""  # its end, when one process is asked for


class ProcessListItem(ProcessView, frozen=True, kw_only=True):
    """A process in a list of everybody's, with the session that it belongs to. `cpu`: seconds of a
    processor, and `memory`: bytes that it takes now, with all that it started; null: it has ended,
    or its runner does not say."""

    session_id: str
    cpu: float | None
    memory: int | None


class RunningCallView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that runs, with the conversation that it belongs to and the end of what it has
    written. `about`: what it does, in a line."""

    session_id: str
    turn_id: str
    call_id: str
    name: str
    summary: str
    started_at: float
    output: str
