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
    """What a message does to the turn that is running when it arrives."""

    INTERRUPT = "interrupt"
    QUEUE = "queue"
    STEER = "steer"


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """The position in a platform's stream; committed together with the inbox row."""

    name: str
    value: str


class Inbound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a platform, in the gateway's terms.

    `event_id` is unique per platform and account; an event with the same id is the same event.
    `history` seeds a session that does not exist yet (a request that contains its own past), and
    `instructions` are added to that session's system prompt. `mentioned` and `quoted` tell whether
    a message in a group is meant for the agent: its account is named (by the platform's own
    mention, by "name:" in front, in the To of a mail, or by a button that was pressed), or the
    message replies to another one, which is quoted.
    """

    source: Source
    event_id: str
    message_id: str
    text: str
    images: tuple[Image, ...] = ()
    documents: str = ""  # the text of its attached files, as the agent reads it
    sources: tuple[str, ...] = ()  # labels of external content in its text
    mentioned: bool = False
    quoted: Quote | None = None
    busy_mode: BusyMode | None = None  # None: as configured
    mergeable: bool = True  # False: it must get an answer of its own
    commands: bool = True  # False: a leading slash is ordinary text
    group: str | None = None  # shared by the parts of one message (an album)
    effort: str | None = None  # reasoning effort for this message; None: as configured
    lasting: bool = True  # False: the conversation has no further messages, so no agent is kept
    history: tuple[Message, ...] = ()
    instructions: str = ""
    # All toolsets that its turn may use; None: as configured.
    toolsets: tuple[str, ...] | None = None
    cursor: Cursor | None = None
    note: bool = False  # from the gateway and not from a person: a note in the transcript
    # Set for the task of a subagent, which opens its session. Stored as `child`.
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
    """The session that a route points to, with everything that decides whether it continues."""

    session_id: SessionId
    active_at: float
    suspended: bool = False
    ended: bool = False
    resume_pending: bool = False
    unannounced_reset: ResetReason | None = None  # why it is fresh, if that was not announced yet
    previous: SessionId | None = None  # the session that it replaced then
    interruption_note_pending: bool = False  # it was marked, and no turn of it has the note yet
    resume_reason: str | None = None
    busy_mode: BusyMode | None = None  # set by /busy

    @property
    def can_continue(self) -> bool:
        return not (self.suspended or self.ended)


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `AcceptMessage`: the row, which is new, or the existing one of a repeated
    event."""

    row: "InboxRow"
    duplicate: bool
    route_session: SessionId | None  # where the route points now; None: a new route
    route_target: RouteTarget | None = None  # the same, even if it cannot continue there

    @property
    def busy_mode(self) -> BusyMode | None:
        """The mode that /busy set for the session that the message continues."""
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
        """Whether the session ends with this message: the task of a subagent, or a job run in a
        session of its own. No other message can arrive there."""
        return self.inbound.source.platform == INTERNAL_PLATFORM


class InboxSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A row as it is listed: the beginning of its text, without attachments."""

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
    """The end of one row, written in the same commit as its cause. With `ends_session`, its session
    ends, too."""

    inbox_id: InboxId
    state: InboxState
    reason: str = ""
    merged_into: InboxId | None = None
    ends_session: bool = False
