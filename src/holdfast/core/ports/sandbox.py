"""The sandbox port: commands, background processes and files of one session, as tools use them."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from holdfast.core.errors import RunnerError
from holdfast.core.ids import CallId


class SandboxRefused(RunnerError):
    """The runner works, but refused the request. The text is the reason, for the model."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. `output` is limited to its beginning and its end."""

    exit_code: int | None  # None: killed, timed out or lost
    output: str
    truncated: bool = False
    timed_out: bool = False
    cancelled: bool = False
    lost: bool = False  # the runner died while it ran: its end is unknown
    cwd: str = ""
    seconds: float = 0.0


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A background process; `note` explains why it ended without an exit code."""

    id: str
    command: str
    started_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    note: str = ""

    @property
    def running(self) -> bool:
        return self.ended_at is None


class ProcessOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what a process wrote: bytes `offset` to `next` of `size`."""

    process: ProcessInfo
    output: str
    offset: int
    next: int
    size: int
    skipped: int = 0  # bytes before `offset` that no earlier read has returned
    path: str = ""  # where the whole output can be read inside the sandbox


class FileText(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a file: `shown` of `total`, from line `first` on."""

    text: str
    first: int
    shown: int
    total: int


class FileWriteResult(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    bytes: int
    existed: bool


class FileEditResult(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    replaced: int
    lines: tuple[int, ...] = ()


class FileSearchResult(msgspec.Struct, frozen=True, kw_only=True):
    lines: tuple[str, ...]
    more: bool = False


class Sandbox(Protocol):
    """One session's runner; started on first use, and found again by a successor.

    Every method raises `SandboxRefused` with a reason for the model, or `RunnerError` if the runner
    cannot be started or reached.
    """

    async def run(
        self,
        call_id: CallId,
        command: str,
        *,
        limit: float,
        on_output: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """Run a command in the terminal and wait for it, at most `limit` seconds.

        Cancelling the wait kills the command. A call id that the runner knows is not run again: its
        command is waited for, or its recorded result returned.
        """
        ...

    async def attach(
        self, call_id: CallId, *, on_output: Callable[[str], None] | None = None
    ) -> CommandResult | None:
        """The result of a command started earlier, waited for if necessary; None if the runner does
        not know it."""
        ...

    async def start_process(self, call_id: CallId, command: str) -> ProcessInfo:
        """Start a background process; the same call id again returns the same process."""
        ...

    async def started_process(self, call_id: CallId) -> ProcessInfo | None:
        """The process that this call started; None if the runner does not know it."""
        ...

    async def list_processes(self) -> tuple[ProcessInfo, ...]: ...
    async def poll_process(self, process_id: str) -> ProcessOutput:
        """Its state and its output since the last read."""
        ...

    async def read_process_log(
        self, process_id: str, *, offset: int | None = None, limit: int = 16384
    ) -> ProcessOutput:
        """A part of its output from byte `offset` on; without an offset, the end of it."""
        ...

    async def wait_for_process(self, process_id: str, *, limit: float) -> ProcessOutput:
        """As `poll_process`, once it has ended or `limit` seconds have passed."""
        ...

    async def feed_process(self, process_id: str, text: str, *, eof: bool = False) -> ProcessInfo:
        """Write to its standard input; with `eof`, close it afterwards."""
        ...

    async def kill_process(self, process_id: str) -> ProcessInfo:
        """Kill it. Returns when it and everything it started has ended."""
        ...

    async def read_file(self, path: str, *, offset: int = 1, limit: int = 2000) -> FileText: ...
    async def write_file(self, call_id: CallId, path: str, text: str) -> FileWriteResult:
        """Write a file completely or not at all; the same call id again changes nothing."""
        ...

    async def edit_file(
        self, call_id: CallId, path: str, *, old: str, new: str, everywhere: bool = False
    ) -> FileEditResult:
        """Replace `old`, which must occur once unless `everywhere` is set; once per call id."""
        ...

    async def recorded_edit(self, call_id: CallId) -> FileEditResult | None:
        """The result of an edit requested earlier; None if it is not known. Raises what the edit
        raised."""
        ...

    async def search_files(
        self, pattern: str, *, path: str = ".", glob: str = ""
    ) -> FileSearchResult:
        """Lines that match a regular expression; with an empty pattern, names of files."""
        ...
