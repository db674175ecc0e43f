"""The ports: the protocols by which the rooms meet without knowing each other."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from holdfast.core.approval import Approval, Ask, Decision, StandingRule
from holdfast.core.auxiliary import Errand
from holdfast.core.capabilities import Capabilities
from holdfast.core.child import Child
from holdfast.core.events import Event, MessageEnded
from holdfast.core.ids import (
    ApprovalId,
    CallId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.inbox import Accepted, BusyMode, Inbound, InboxRow, InboxState, Pointed
from holdfast.core.memory import Edit, Edited, Notebook, OwnerId
from holdfast.core.message import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    Record,
    ToolMessage,
    UserMessage,
)
from holdfast.core.model import ModelEvent, ModelRequest, ToolSchema
from holdfast.core.outbox import DeliveryRow, DeliveryState, NewDelivery, Outbound, Receipt
from holdfast.core.reset import Deadline, Expiring, Opening
from holdfast.core.search import FoundRecord, SearchQuery, SearchState
from holdfast.core.session import (
    CommandEffect,
    ImportedSession,
    ProcessRow,
    RunnerRow,
    SessionRow,
    Superseded,
)
from holdfast.core.tool import Arguments, Danger, Replay, ToolContext, ToolOutput
from holdfast.core.turn import BeginTurn, EndTurn, OpenTurn, StepRow, TurnRow, Usage


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float: ...


NewId = Callable[[str], str]
"""Makes an id with the given prefix that nobody had before."""


class Journal(Protocol):
    """The writing half of the store.

    Each method queues its write **when it is called**, in call order, and returns an awaitable
    that resumes once the write is durable. Cancelling the awaiter does not cancel the write.
    A write that fails raises `StoreError` to its own awaiter and undoes nothing of its
    neighbours. Each call touches one session.
    """

    def accept(
        self, inbound: Inbound, *, route: SessionKey, principal: PrincipalId, at: float
    ) -> Awaitable[Accepted]: ...
    def decide(
        self, inbox_id: InboxId, *, session_id: SessionId, decision: BusyMode
    ) -> Awaitable[None]: ...
    def begin_turn(self, begin: BeginTurn) -> Awaitable[None]: ...
    def record_reply(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: AssistantMessage,
        usage: Usage,
        at: float,
    ) -> Awaitable[None]: ...
    def record_started(
        self, turn_id: TurnId, *, session_id: SessionId, call_ids: Sequence[CallId], at: float
    ) -> Awaitable[None]: ...
    def record_finished(
        self, turn_id: TurnId, *, session_id: SessionId, message: ToolMessage, at: float
    ) -> Awaitable[None]: ...
    def record_steer(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        inbox_id: InboxId,
        message: UserMessage,
        at: float,
    ) -> Awaitable[None]:
        """The row ends as merged into the turn it steers."""
        ...

    def resume_turn(
        self, turn_id: TurnId, *, session_id: SessionId, note: NoteMessage, at: float
    ) -> Awaitable[None]:
        """A cut turn goes on: the note joins the transcript and the session's cuts rise by one."""
        ...

    def record_note(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: NoteMessage,
        usage: Usage,
        at: float,
    ) -> Awaitable[None]: ...
    def record_compaction(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: CompactionMessage,
        usage: Usage,
        at: float,
    ) -> Awaitable[None]: ...
    def count_auxiliary(
        self, session_id: SessionId, *, errand: Errand, usage: Usage
    ) -> Awaitable[None]:
        """A call that belongs to no turn; it is counted apart from them."""
        ...

    def end_turn(self, end: EndTurn) -> Awaitable[None]:
        """A turn that is answered clears the session's cuts."""
        ...

    def suspend_session(self, end: EndTurn) -> Awaitable[None]:
        """As `end_turn`, and the session is suspended: its route opens a fresh one next time."""
        ...

    def ask_approvals(self, ask: Ask) -> Awaitable[None]:
        """Fails where the turn is not open, or one of its calls was asked for before."""
        ...

    def decide_approvals(self, decision: Decision) -> Awaitable[None]:
        """Fails, whole, where a row has ended already or a rule is not there."""
        ...

    def settle_command(self, effect: CommandEffect) -> Awaitable[Superseded]: ...
    def open_session(
        self, session_id: SessionId, *, route: SessionKey, at: float
    ) -> Awaitable[SessionId]:
        """The session that the route points to; if it points nowhere, the new one."""
        ...

    def open_fresh(
        self,
        session_id: SessionId,
        *,
        route: SessionKey,
        principal: PrincipalId | None,
        opening: Opening | None,
        at: float,
    ) -> Awaitable[SessionId]:
        """The session that the route goes on in: the new one, in the place of the one that
        `opening` names, unless somebody pointed the route elsewhere meanwhile."""
        ...

    def mark_resume_pending(
        self, route: SessionKey, *, reason: str, at: float
    ) -> Awaitable[bool]: ...
    def clear_resume_pending(self, route: SessionKey) -> Awaitable[bool]: ...
    def suspend_route(self, route: SessionKey) -> Awaitable[SessionId | None]:
        """The session that the route points to, suspended; None: it points nowhere."""
        ...

    def rename_session(self, session_id: SessionId, title: str) -> Awaitable[None]: ...
    def retitle_session(
        self, session_id: SessionId, title: str, *, instead_of: str
    ) -> Awaitable[bool]:
        """Renamed, unless somebody else has renamed it: False then."""
        ...

    def end_session(self, session_id: SessionId, *, at: float) -> Awaitable[None]:
        """Its route opens a fresh one next time."""
        ...

    def expire_session(
        self, session_id: SessionId, *, active_at: float, at: float
    ) -> Awaitable[bool]:
        """End a session unless it was used since `active_at`, or is in use."""
        ...

    def prune_inbox(self, *, before: float) -> Awaitable[int]:
        """Forget some messages that ended before then; 0: there are none left."""
        ...

    def prune_outbox(self, *, before: float) -> Awaitable[int]:
        """Forget some deliveries that were settled before then; 0: there are none left."""
        ...

    def import_session(self, imported: ImportedSession) -> Awaitable[None]: ...
    def delete_session(
        self, session_id: SessionId, *, inbox_ids: Sequence[InboxId]
    ) -> Awaitable[None]:
        """Every row of it, and those messages, are gone; `Library.inbox_of` has their ids."""
        ...

    def add_deliveries(
        self, deliveries: Sequence[NewDelivery], *, at: float
    ) -> Awaitable[None]: ...
    def begin_attempt(self, delivery_id: DeliveryId, *, at: float) -> Awaitable[None]: ...
    def settle_delivery(
        self,
        delivery_id: DeliveryId,
        state: DeliveryState,
        *,
        at: float,
        platform_message_id: str | None = None,
        error: str = "",
    ) -> Awaitable[None]: ...
    def save_runner(self, runner: RunnerRow) -> Awaitable[None]: ...
    def end_runner(self, session_id: SessionId) -> Awaitable[None]: ...
    def save_process(self, process: ProcessRow) -> Awaitable[None]: ...
    def set_meta(self, key: str, value: str) -> Awaitable[None]: ...
    def edit_notes(self, edit: Edit) -> Awaitable[Edited]: ...
    def enrol_memory(self, session_id: SessionId, owner: OwnerId) -> Awaitable[None]:
        """From now on memory is to hear of this session's end; the first owner stays."""
        ...

    def claim_memory_end(self, session_id: SessionId) -> Awaitable[OwnerId | None]:
        """Who owns the memory of a session that ends, to whoever asks first since anything was
        last said in it; None: nobody is to be told."""
        ...


class Library(Protocol):
    """The reading half of the store: on connections of its own, never behind the writer.

    A read sees every write that was durable when it was called.
    """

    async def session(self, session_id: SessionId) -> SessionRow | None: ...
    async def sessions(
        self,
        *,
        limit: int,
        offset: int = 0,
        q: str = "",
        platform: str = "",
        children: bool = False,
    ) -> list[SessionRow]:
        """The most recently active first; with `q`, those that have it in their title. Those of
        children are among them only where they are asked for."""
        ...

    async def route(self, key: SessionKey) -> SessionId | None: ...
    async def pointed(self, key: SessionKey) -> Pointed | None:
        """Where the route points, also where it cannot go on there."""
        ...

    async def reached(
        self, *, route: SessionKey, principal: PrincipalId | None, limit: int
    ) -> list[SessionRow]:
        """The sessions of a route, and of a person if one is named; the last active first."""
        ...

    async def reaches(
        self, session_id: SessionId, *, route: SessionKey, principal: PrincipalId | None
    ) -> SessionRow | None:
        """A session by its id, if it is one of those."""
        ...

    async def last_turn(self, session_id: SessionId) -> TurnRow | None: ...
    async def session_usage(self, session_id: SessionId) -> Usage: ...
    async def reached_usage(self, *, route: SessionKey, principal: PrincipalId | None) -> Usage:
        """Of all the sessions that `reached` would list."""
        ...

    async def transcript(self, session_id: SessionId) -> list[Record]: ...
    async def context(self, session_id: SessionId) -> tuple[int, list[Record]]:
        """The transcript without what its last compaction covers, and how many records that is."""
        ...

    async def auxiliary_usage(self, session_id: SessionId) -> Mapping[Errand, Usage]:
        """What was used beside the session's turns."""
        ...

    async def records(
        self,
        session_id: SessionId,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
    ) -> list[Record]:
        """Part of a transcript, in order: the first after a seq, else the last (before one)."""
        ...

    async def search(self, query: SearchQuery) -> list[FoundRecord]:
        """Messages that hold all the words, the best first; it knows all that was durable when
        it was called, unless the index is being made anew and that takes long."""
        ...

    async def search_state(self) -> SearchState: ...
    async def check(self) -> list[str]:
        """What is wrong with the store's file; empty: nothing. It reads all of it."""
        ...

    async def expiring(self, *, deadline: Deadline, limit: int) -> list[Expiring]:
        """The sessions that go on and will be over, the soonest first. It looks at them all."""
        ...

    async def unused_since(self, *, before: float, limit: int) -> list[SessionId]:
        """Sessions that nobody has used since then, the longest unused first."""
        ...

    async def inbox_of(self, session_id: SessionId) -> list[InboxId]:
        """Every message that was ever said to a session. It looks at the whole inbox."""
        ...

    async def turn(self, turn_id: TurnId) -> TurnRow | None: ...
    async def steps(self, turn_id: TurnId) -> list[StepRow]: ...
    async def open_turns(self) -> list[OpenTurn]: ...
    async def approval(self, approval_id: ApprovalId) -> Approval | None: ...
    async def approvals(
        self, *, limit: int, pending: bool = False, session_id: SessionId | None = None
    ) -> list[Approval]:
        """The newest first."""
        ...

    async def standing_rules(
        self, *, principal: PrincipalId | None = None, rule: str | None = None
    ) -> list[StandingRule]:
        """What was allowed for a person, and by which rule of the judge, oldest first."""
        ...

    async def queued(self) -> list[InboxRow]:
        """Rows that no turn has taken yet, in the order of acceptance."""
        ...

    async def inbox_row(self, inbox_id: InboxId) -> InboxRow | None: ...
    async def answers(self, inbox_id: InboxId) -> list[DeliveryRow]:
        """What was owed to the sender of this message, oldest first."""
        ...

    async def undelivered(self) -> list[DeliveryRow]:
        """Pending, sending and unknown rows, in the order in which they were committed."""
        ...

    async def ledger(self) -> Mapping[InboxState, int]: ...
    async def outbox_ledger(self) -> Mapping[DeliveryState, int]: ...
    async def runners(self) -> list[RunnerRow]: ...
    async def processes(self, session_id: SessionId) -> list[ProcessRow]: ...
    async def child(self, session_id: SessionId) -> Child | None:
        """None: this session is a conversation, or there is none of that id."""
        ...

    async def descendants(self, session_id: SessionId) -> list[Child]:
        """The session's children and theirs, oldest first."""
        ...

    async def descendants_usage(self, session_id: SessionId) -> Usage:
        """What all of those have used in turns that ended."""
        ...

    async def children_at_work(self) -> list[tuple[InboxRow, bool]]:
        """Those whose work has not ended, and whether a turn or a conversation still wants it."""
        ...

    async def cursor(self, platform: str, account: str, name: str) -> str | None: ...
    async def busy_mode(self, session_id: SessionId) -> BusyMode | None:
        """What /busy chose for a session; None: nothing."""
        ...

    async def meta(self, key: str) -> str | None: ...
    async def notebook(self, owner: OwnerId) -> Notebook:
        """An owner that nobody heard of has an empty one."""
        ...

    async def notebooks(self, *, limit: int, offset: int = 0) -> list[Notebook]:
        """Those that hold something or are off, by their owners' names."""
        ...

    async def memory_owners(self) -> dict[OwnerId, bool]:
        """Everyone who ever had a notebook, and whether it is off."""
        ...

    async def memory_owner(self, session_id: SessionId) -> OwnerId | None:
        """Whose memory an enrolled session has."""
        ...


class Forgetting(Protocol):
    """What is needed so that deleted words are gone from the disk, and not only from sight."""

    async def forget(self, session_id: SessionId) -> None:
        """The search index has nothing of the session any more."""
        ...

    async def scrub(self) -> None:
        """Nothing that was deleted before can be read from the store's files any more, unless
        somebody reads an older state of them at this instant; then from the next quiet one."""
        ...

    async def rebuild_search(self) -> SearchState:
        """Throw the search index away and make it anew from the store."""
        ...


class Store(Journal, Library, Forgetting, Protocol):
    """Open while its context is; entering raises `StoreUnusable` and writes nothing if the
    file is damaged, foreign, newer than the program or cannot be written."""

    async def __aenter__(self) -> "Store": ...
    async def __aexit__(self, *exc: object) -> None: ...


class ModelClient(Protocol):
    """A lease on the shared pool, held by one agent."""

    name: str  # the model, as it is shown

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One call: deltas, then exactly one `Completed`, or `ModelFailed` raised.

        Closing the iterator early ends the call and gives its connection back.
        """
        ...

    def release(self) -> None: ...


class Tool(Protocol):
    """Something an agent can do. Stateless: whatever it keeps is in the context's ports."""

    schema: ToolSchema
    toolset: str
    replay: Replay
    danger: Danger

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        """Do it. Cancelling stops it. Raises `ToolFailed` with a text for the model."""
        ...

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        """The outcome of a call that an earlier process started (`Replay.ATTACH` only).

        None: it never began, so it may be run. A tool that cannot know says so in its output,
        with the outcome `unknown`.
        """
        ...


@runtime_checkable
class Commanding(Protocol):
    """A tool whose calls run commands: they are judged before the call is started."""

    def command(self, arguments: Arguments) -> str | None:
        """What the shell would be given; None: nothing, or the arguments are wrong."""
        ...


class Intake(Protocol):
    """What a platform may ask of the gateway."""

    async def accept(self, inbound: Inbound) -> Accepted:
        """Returns once the message is durable; only then may the platform acknowledge it.

        Raises `NotAllowed` where `authorise` says no, `StoreError` where it cannot be kept.
        """
        ...

    async def end_of(self, inbox_id: InboxId) -> MessageEnded | None:
        """The end of an accepted message, waited for; None: the gateway stopped before it."""
        ...

    def watch(self, inbox_id: InboxId) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """What happens to an accepted message, from now to its `MessageEnded`, which is always
        the last event. Text that streamed before the call comes first, as one piece."""
        ...


class Platform(Protocol):
    """A door. It holds no session state."""

    name: str
    account: str
    capabilities: Capabilities

    def connect(self, intake: Intake) -> AbstractAsyncContextManager[None]:
        """Connected while the context is open; events go to `intake.accept`."""
        ...

    async def send(self, outbound: Outbound) -> Receipt:
        """Raises a `SendError` that says what is known of the message's fate."""
        ...


class HttpPlatform(Platform, Protocol):
    """A platform that is reached over the gateway's own listener: it declares routes."""

    def routes(self) -> Sequence[Any]:
        """aiohttp route definitions, mounted by `control`; each checks its own credentials."""
        ...
