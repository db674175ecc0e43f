"""The inbox: accepted messages, and the one visible end that each of them reaches."""

from enum import StrEnum

import msgspec

from holdfast.core.ids import InboxId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.jobs.job import RunRequest
from holdfast.core.messages.source import Quote, Source
from holdfast.core.messages.transcript import Image, Message
from holdfast.core.sessions.reset import ResetReason
from holdfast.core.turns.subagent import INTERNAL_PLATFORM, Subagent


class BusyMode(StrEnum):
    """What a message does to the turn that is running when it comes."""

    INTERRUPT = "interrupt"
    QUEUE = "queue"
    STEER = "steer"


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far a platform's stream has been taken; commits together with the inbox row."""

    name: str
    value: str


class Inbound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A platform's event in our words.

    `event_id` is unique per platform and account; the same one again is the same event.
    `history` seeds a session that does not exist yet (a request that carries its own past),
    `instructions` joins that session's system prompt. `mentioned` and `quoted` are how a platform
    tells whether a message in a group is meant for the agent: its account is named in it (by the
    platform's own mark, by "name:" in front, in the To of a mail, or by a button that was
    pressed), or it answers something, which is quoted.
    """

    source: Source
    event_id: str
    message_id: str
    text: str
    images: tuple[Image, ...] = ()
    documents: str = ""  # what is in the files that came with it, as the agent reads it
    mentioned: bool = False
    quoted: Quote | None = None
    busy_mode: BusyMode | None = None  # None: as configured
    mergeable: bool = True  # False: this message wants an answer of its own
    commands: bool = True  # False: a leading slash is just text
    group: str | None = None  # parts of one message (an album) share it
    effort: str | None = None  # reasoning effort for this message; None: as configured
    lasting: bool = True  # False: nobody comes back to this conversation, so no agent is kept
    history: tuple[Message, ...] = ()
    instructions: str = ""
    toolsets: tuple[str, ...] | None = None  # all that its turn may use; None: as configured
    cursor: Cursor | None = None
    note: bool = False  # ours and no person's: in the transcript it is a note
    # Set for the work of a subagent, which opens its session. Stored as `child`.
    subagent: Subagent | None = msgspec.field(name="child", default=None)
    run: RunRequest | None = None  # this is a run of a job


class InboxState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    ANSWERED = "answered"
    MERGED = "merged"
    SUPERSEDED = "superseded"
    REFUSED = "refused"
    FAILED = "failed"


OPEN_STATES = frozenset({InboxState.QUEUED, InboxState.RUNNING})
END_STATES = frozenset(InboxState) - OPEN_STATES


class RouteTarget(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The session that a route points to, with all that decides whether it goes on there."""

    session_id: SessionId
    active_at: float
    suspended: bool = False
    ended: bool = False
    resume_pending: bool = False
    unannounced_reset: ResetReason | None = None  # why it is fresh, where nobody was told yet
    previous: SessionId | None = None  # the one whose place it took then
    interruption_note_pending: bool = False  # it was marked, and no turn of it has been told so
    resume_reason: str | None = None
    busy_mode: BusyMode | None = None  # what /busy chose for it

    @property
    def can_continue(self) -> bool:
        return not (self.suspended or self.ended)


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `AcceptMessage`: the row, new or, for a repeated event, the one there was."""

    row: "InboxRow"
    duplicate: bool
    route_session: SessionId | None  # where the route points now; None: a new route
    route_target: RouteTarget | None = None  # the same, also where it cannot go on there

    @property
    def busy_mode(self) -> BusyMode | None:
        """What /busy chose for the session that it goes on in."""
        pointed = self.route_target
        return pointed.busy_mode if pointed is not None and pointed.can_continue else None


class InboxRow(msgspec.Struct, frozen=True, kw_only=True):
    id: InboxId
    route: SessionKey
    principal: PrincipalId
    inbound: Inbound
    state: InboxState = InboxState.QUEUED
    decision: BusyMode | None = None
    session_id: SessionId | None = None
    turn_id: TurnId | None = None
    merged_into: InboxId | None = None
    reason: str = ""
    accepted_at: float
    ended_at: float | None = None

    @property
    def ends_session(self) -> bool:
        """Whether its session ends with it: it is the task of a subagent, or the run of a job in a
        session of its own, and no other message ever comes there."""
        return self.inbound.source.platform == INTERNAL_PLATFORM


class InboxSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A row as it is listed: the beginning of its words, and nothing that came with them."""

    id: InboxId
    platform: str
    account: str
    principal: PrincipalId
    state: InboxState
    session_id: SessionId | None
    turn_id: TurnId | None
    reason: str
    text: str
    accepted_at: float
    ended_at: float | None


class InboxEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one row, written in the same commit as what brought it about. `ends_session`: so
    is the end of its session."""

    inbox_id: InboxId
    state: InboxState
    reason: str = ""
    merged_into: InboxId | None = None
    ends_session: bool = False
