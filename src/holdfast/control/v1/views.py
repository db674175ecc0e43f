"""The views: what `/api/v1` says and takes, as types. The OpenAPI document is made of them."""

from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.core.approval import ApprovalState, Scope
from holdfast.core.facts import LoopFacts, MachineFacts, Problem, Snapshot
from holdfast.core.inbox import BusyMode, InboxState
from holdfast.core.memory import About
from holdfast.core.message import Message
from holdfast.core.stopping import StopKind
from holdfast.core.turn import LaneState, TurnState, Usage

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Gist(msgspec.Struct, frozen=True, kw_only=True):
    """What a list says of a conversation besides. `usage`: of its turns that have ended; `cost`:
    null where no price is set, or a model has none."""

    owner: str | None  # whose it is; null: several people's, or nobody's yet
    said: str  # the last words, or their beginning
    by: str  # whose they are: user, assistant, or nobody's
    usage: Usage
    cost: float | None
    queued: int  # messages that no turn has taken yet


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in a list. `current`: its route still points to it, so it can be spoken to."""

    id: str
    title: str  # its own, or the beginning of its first message
    platform: str
    chat: str
    state: LaneState
    current: bool
    suspended: bool
    model: str | None
    messages: int
    created_at: float
    active_at: float
    ended_at: float | None
    resume_pending: bool = False  # its turn was cut, and none has completed since
    auto_reset_reason: str | None = None  # why it took the place of `previous` by itself
    previous: str | None = None
    gist: Gist | None = None  # in a list, where it was asked for


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """`next`: what `after` takes to go on behind these; null: there are no more."""

    sessions: list[SessionView]
    more: bool
    next: str | None = None


class NewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`name` makes it findable again (the same name gives the same session); None: a fresh one."""

    name: Name | None = None


class SessionChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: Annotated[str, msgspec.Meta(max_length=200)]


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """A committed message of a transcript. `seq` rises by one; it is the id of its event.
    `undone`: its user took it back, and no model is shown it any more. `whole`: how many characters
    a tool has printed, where less of it is here because `cut` was asked for."""

    seq: int
    turn_id: str | None
    at: float
    message: Message
    undone: bool = False
    whole: int | None = None


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: TurnState
    started_at: float
    ended_at: float | None
    usage: Usage
    reason: str


class LiveCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that is running; `output` is what it has written so far, its end."""

    call_id: str
    name: str
    arguments: str
    output: str = ""


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is accepted and that no turn has taken yet."""

    id: int
    message_id: str  # its sender's own
    text: str


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A command that waits, or waited, for a person's word."""

    id: str
    session_id: str
    turn_id: str
    number: int  # among those of its turn
    tool: str
    command: str
    rule: str  # "": only `once` is possible
    why: str
    requester: str
    approvers: list[str]  # besides the operators
    asked_at: float
    deadline: float
    state: ApprovalState
    scope: Scope
    by: str
    words: str
    ended_at: float | None


class Verdict(StrEnum):
    APPROVE = "approve"
    DENY = "deny"


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`words`: what the model is told with a no."""

    answer: Verdict
    scope: Scope = Scope.ONCE
    words: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class RuleView(msgspec.Struct, frozen=True, kw_only=True):
    """A yes that stands: what this rule asks about runs for this person without asking."""

    id: str
    scope: Scope
    session_id: str
    principal: str
    rule: str
    why: str
    by: str
    created_at: float


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """What is not committed yet: the present step of the running turn, and what waits."""

    turn_id: str
    resumed: bool = False
    text: str = ""
    reasoning: str = ""
    calls: list[LiveCall] = []
    queued: list[QueuedMessage] = []
    approvals: list[ApprovalView] = []  # what waits for a person's word
    resting: bool = False  # no turn runs or waits here: a background child asks


class SessionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation opened: its newest records, oldest of them first."""

    session: SessionView
    turns: list[TurnView]
    records: list[RecordView]
    more: bool  # older records exist: ask /transcript?before=
    live: Live | None


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    records: list[RecordView]
    more: bool


class Attachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Images reach the model; every file is put into the session's workspace, under uploads/."""

    name: Name
    media_type: str = "application/octet-stream"
    data: str  # base64


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`message_id` is the client's own: sent again, it is the same message."""

    text: str
    message_id: Name
    mode: BusyMode | None = None  # what to do to a running turn; None: as configured
    attachments: list[Attachment] = []


class NewSteer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`message_id` is the client's own: sent again, it is the same message."""

    text: str
    message_id: Name


class AcceptedView(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    message_id: str
    session_id: str
    duplicate: bool
    state: InboxState


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message: its end with the text its sender gets, or that it has none yet."""

    id: int
    session_id: str | None
    state: InboxState
    text: str
    reason: str
    usage: Usage


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    stopped: bool


class RestartMode(StrEnum):
    NOW = "now"  # no turn is waited for, not even to the end of its step
    WHEN_IDLE = "when_idle"  # once no turn runs


class RestartAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: RestartMode | None = None


class StopAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    now: bool = False


class Departing(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway goes. `waits`: once no turn runs; it goes on until then."""

    kind: StopKind
    waits: bool


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    command: str
    running: bool
    started_at: float
    ended_at: float | None
    exit_code: int | None
    note: str = ""  # why there is no exit code although it ended
    output: str = ""  # its end, when one process is asked for


class ProcessLine(ProcessView, frozen=True, kw_only=True):
    """A process in a list of everybody's, with the session that it belongs to. `cpu`: seconds of a
    processor, and `memory`: bytes that it takes now, with all that it started; null: it has ended,
    or its runner does not say."""

    session_id: str
    cpu: float | None
    memory: int | None


class CallLine(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that runs, with the conversation that it belongs to and the end of what it has
    written. `about`: what it does, in a line."""

    session_id: str
    turn_id: str
    call_id: str
    name: str
    about: str
    started_at: float
    output: str


class FileView(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    size: int
    modified_at: float


class CommandView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    help: str
    arguments: str = ""  # as shown: "[NAME]" may be left out
    aliases: tuple[str, ...] = ()
    mid_turn: bool = True  # False: not while a turn runs


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the words that were searched for stand.

    `marked` is the snippet in pieces: every second one is what was found.
    """

    session: SessionView
    seq: int
    role: str  # user, assistant or tool
    at: float
    snippet: str
    marked: list[str]


class SearchView(msgspec.Struct, frozen=True, kw_only=True):
    """The search index: how many messages it has, and how many sessions it is behind with."""

    messages: int
    behind: int
    bytes: int


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the database and with the search index; nothing: they are sound."""

    problems: list[str]
    search: SearchView
    search_problem: str = ""


class Status(Snapshot, frozen=True, kw_only=True):
    """How the gateway is: the same facts that `holdfast status` shows."""

    pid: int
    version: str
    home: str
    started_at: float
    uptime: float
    loop: LoopFacts | None
    machine: MachineFacts
    problems: tuple[Problem, ...]


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Every error: what is wrong, and what to do."""

    message: str
    code: str
    param: str | None = None


class Error(msgspec.Struct, frozen=True, kw_only=True):
    error: ErrorBody


class TextEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`text` and `reasoning` events: a piece that is appended to the live step."""

    text: str


class ToolEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`tool` event: output that a running call has written meanwhile."""

    call_id: str
    text: str


class VoidEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`void` event: the live text is void, because the model is asked again."""

    why: str


class EndedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`ended` event: a message has reached its end. Its records came before."""

    id: int
    state: InboxState
    reason: str


class GatewayEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`gateway` event of `/events`: it stops, or is to, or an account stands otherwise than before.
    `turns`: how many run; `pending`: it restarts once none does; `refused`: a sentence for each
    account that waits for a person."""

    state: str
    phase: str
    turns: int
    pending: bool
    refused: tuple[str, ...] = ()


class DeletedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`deleted` event of `/events`: that session is gone."""

    id: str


NoteOwner = Annotated[str, msgspec.Meta(pattern="^(person|place):.", max_length=400)]


class NoteView(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    about: About
    text: str
    changed_at: float


class NotebookView(msgspec.Struct, frozen=True, kw_only=True):
    """What is noted about a person, or in a place that people share. `off`: agents see none of
    it. `room`: characters that all its notes may have; `used`: those they have."""

    owner: str
    off: bool
    used: int
    room: int
    notes: list[NoteView]


class NotebookList(msgspec.Struct, frozen=True, kw_only=True):
    notebooks: list[NotebookView]
    more: bool


class NewNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With `id`, what that note is to say from now on."""

    owner: NoteOwner
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
    about: About | None = None  # None: as it was; of a new one, the person
    id: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] | None = None


class NotebookChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    owner: NoteOwner
    off: bool
