"""The workbench as a tool sees it: commands, processes and files of one session."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from holdfast.core.ids import CallId


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. `output` is capped with its head and its tail."""

    exit_code: int | None  # None: killed, timed out or lost
    output: str
    truncated: bool = False
    timed_out: bool = False
    cancelled: bool = False
    lost: bool = False  # the runner died under it: nobody knows how it ended
    cwd: str = ""
    seconds: float = 0.0


class Bench(Protocol):
    """One session's workbench; started on first use, found again by a successor."""

    async def run(
        self,
        call_id: CallId,
        command: str,
        *,
        limit: float,
        on_output: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """Run a command in the terminal and wait for it, `limit` seconds at the most.

        Cancelling the wait kills the command. A call id that the runner knows is not run
        again: its command is waited for, or its recorded result returned.
        """
        ...

    async def attach(
        self, call_id: CallId, *, on_output: Callable[[str], None] | None = None
    ) -> CommandResult | None:
        """The result of a command started earlier, waited for if need be; None: never heard of."""
        ...
