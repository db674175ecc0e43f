"""A session: one conversation, and what is remembered of it besides its messages."""

import msgspec

from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.inbox import InboxEnd
from holdfast.core.message import Record
from holdfast.core.outbox import NewDelivery


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    id: SessionId
    route: SessionKey  # the route it was opened by
    prompt: str  # frozen at the first turn; "" before
    model_override: str | None
    cuts: int  # process lives that cut this session's turn since one last completed
    suspended: bool
    created_at: float
    active_at: float
    ended_at: float | None
    messages: int = 0
    title: str = ""
    current: bool = False  # its route points to it, and it can go on


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that comes from elsewhere: its records get the seqs 1, 2, 3 …"""

    id: SessionId
    route: SessionKey
    title: str
    records: tuple[Record, ...]
    at: float


class CommandEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What a command does, one commit: its effect, its answer and the end of its inbox row.

    `route` with `new_session` points the route at a fresh session and ends the old one;
    `supersede_before` ends the route's unstarted rows older than that id.
    """

    inbox_ends: tuple[InboxEnd, ...]
    deliveries: tuple[NewDelivery, ...] = ()
    session_id: SessionId | None = None  # the session it acts on
    route: SessionKey | None = None
    new_session: SessionId | None = None
    supersede_before: InboxId | None = None
    model_override: str | None = None  # "" clears it
    at: float


class Superseded(msgspec.Struct, frozen=True, kw_only=True):
    """What `Store.settle_command` ended besides its own row."""

    inbox_ids: tuple[InboxId, ...] = ()


class RunnerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A runner's identity: its inner pid with that process's start time."""

    session_id: SessionId
    pid: int
    start_time: int  # clock ticks since boot, as the kernel counts them
    outer_pid: int
    sandboxed: bool
    started_at: float


class ProcessRow(msgspec.Struct, frozen=True, kw_only=True):
    """A background process of a session; `exit_code` None: running, or nobody knows."""

    session_id: SessionId
    id: str
    command: str
    started_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    note: str = ""
