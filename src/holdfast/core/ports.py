"""The ports: the protocols by which the rooms meet without knowing each other."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from holdfast.core.capabilities import Capabilities
from holdfast.core.events import Event, MessageEnded
from holdfast.core.ids import (
    CallId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.inbox import Accepted, BusyMode, Inbound, InboxRow, InboxState
from holdfast.core.message import AssistantMessage, NoteMessage, Record, ToolMessage, UserMessage
from holdfast.core.model import ModelEvent, ModelRequest, ToolSchema
from holdfast.core.outbox import DeliveryRow, DeliveryState, NewDelivery, Outbound, Receipt
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

from holdfast.core.search import FoundRecord, SearchQuery, SearchState

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

    def end_turn(self, end: EndTurn) -> Awaitable[None]:
        """A turn that is answered clears the session's cuts."""
        ...

    def suspend_session(self, end: EndTurn) -> Awaitable[None]:
        """As `end_turn`, and the session is suspended: its route opens a fresh one next time."""
        ...

    def settle_command(self, effect: CommandEffect) -> Awaitable[Superseded]: ...
    def open_session(
        self, session_id: SessionId, *, route: SessionKey, at: float
    ) -> Awaitable[SessionId]:
        """The session that the route points to; if it points nowhere, the new one."""
        ...

    def rename_session(self, session_id: SessionId, title: str) -> Awaitable[None]: ...
    def end_session(self, session_id: SessionId, *, at: float) -> Awaitable[None]:
        """Its route opens a fresh one next time."""
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


class Library(Protocol):
    """The reading half of the store: on connections of its own, never behind the writer.

    A read sees every write that was durable when it was called.
    """

    async def session(self, session_id: SessionId) -> SessionRow | None: ...
    async def sessions(
        self, *, limit: int, offset: int = 0, q: str = "", platform: str = ""
    ) -> list[SessionRow]:
        """The most recently active first; with `q`, those that have it in their title."""
        ...

    async def route(self, key: SessionKey) -> SessionId | None: ...
    async def transcript(self, session_id: SessionId) -> list[Record]: ...
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

    async def inbox_of(self, session_id: SessionId) -> list[InboxId]:
        """Every message that was ever said to a session. It looks at the whole inbox."""
        ...

    async def turn(self, turn_id: TurnId) -> TurnRow | None: ...
    async def steps(self, turn_id: TurnId) -> list[StepRow]: ...
    async def open_turns(self) -> list[OpenTurn]: ...
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
    async def cursor(self, platform: str, account: str, name: str) -> str | None: ...
    async def meta(self, key: str) -> str | None: ...



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
