"""A tool as the agent sees it: replay class, danger, output, and the context that a call gets."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.ids import CallId, PrincipalId, SessionId
from holdfast.core.messages.transcript import CallRecovery, Image, ToolOutcome

if TYPE_CHECKING:
    from holdfast.core.jobs.job import JobPort
    from holdfast.core.messages.outbox import MessageSender
    from holdfast.core.people.memory import OwnerId
    from holdfast.core.ports.sandbox import Sandbox
    from holdfast.core.turns.subagent import Delegation


class ReplayClass(StrEnum):
    """What may be done with a call that was started and has no recorded result."""

    ATTACH = "attach"  # the runner still has it: ask there
    SAFE = "safe"  # it only reads: run it again
    NEVER = "never"  # its outcome is unknown and stays so


class Danger(StrEnum):
    NONE = "none"  # reads, or changes only what belongs to the session
    CONFINED = "confined"  # runs code, inside the session's sandbox
    OUTSIDE = "outside"  # reaches the world beyond the sandbox


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    outcome: ToolOutcome = ToolOutcome.OK
    images: tuple[Image, ...] = ()
    # Set if another process than the one that started the call finished it.
    recovery: CallRecovery | None = None
    exit_code: int | None = None
    sources: tuple[str, ...] = ()  # labels of the external content in the text


class ToolFailed(Exception):
    """A call that failed; the text is for the model, and tells how to do better. `sources`: labels
    of external content in it."""

    def __init__(self, text: str, *, sources: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.sources = sources


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """The session of a call and what the call may use; nothing here outlives the call."""

    session_id: SessionId
    principal: PrincipalId
    call_id: CallId
    sandbox: "Sandbox"
    workspace: SessionId | None = None  # whose workspace is used; None: the session's own
    memory_owner: "OwnerId | None" = None  # of its notes; None: that of the session
    delegation: "Delegation | None" = None  # None: this call can have no subagents
    jobs: "JobPort | None" = None  # None: this call can have no jobs
    sender: "MessageSender | None" = None  # None: this call can give no files to people
    progress: Callable[[str], None] = lambda _: None
    # Whether the call may contact a host besides those that it was allowed for.
    may_contact: Callable[[str], Awaitable[bool]] | None = None  # None: every host


Arguments = Mapping[str, Any]


class FileAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The file that a call reads or changes, and what an approval request shows of the call."""

    path: str
    writes: bool
    text: str
