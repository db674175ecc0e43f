"""The ports: protocols by which the packages meet without importing each other."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from holdfast.core.errors import ConnectError
from holdfast.core.ids import (
    DeliveryId,
    InboxId,
    SessionId,
)
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.messages.source import Attachment
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.store import StoreReader, StoreWriter
from holdfast.core.sessions.search import SearchIndexStatus
from holdfast.core.turns.model import ModelEvent, ModelRequest, ToolSchema
from holdfast.core.turns.stop import StopOrder
from holdfast.core.turns.tool import Arguments, Danger, ReplayClass, ToolContext, ToolOutput


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float: ...


class WallClockTimer(Protocol):
    async def wait_until(self, at: float) -> None:
        """Returns when the clock on the wall has come to that time; sooner, where somebody has
        set it meanwhile. May be cancelled."""
        ...


IdFactory = Callable[[str], str]
"""Makes an id with the given prefix that nobody had before."""


class DataErasure(Protocol):
    """What is needed so that deleted words are gone from the disk, and not only from sight."""

    async def unindex_session(self, session_id: SessionId) -> None:
        """The search index has nothing of the session any more."""
        ...

    async def erase_deleted(self) -> None:
        """Nothing that was deleted before can be read from the store's files any more, unless
        somebody reads an older state of them at this instant; then from the next quiet one."""
        ...

    async def rebuild_search_index(self) -> SearchIndexStatus:
        """Throw the search index away and make it anew from the store."""
        ...


class Store(StoreWriter, StoreReader, DataErasure, Protocol):
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
    replay: ReplayClass
    danger: Danger

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        """Do it. Cancelling stops it. Raises `ToolFailed` with a text for the model."""
        ...

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        """The outcome of a call that an earlier process started (`ReplayClass.ATTACH` only).

        None: it never began, so it may be run. A tool that cannot know says so in its output,
        with the outcome `unknown`.
        """
        ...


@runtime_checkable
class CommandTool(Protocol):
    """A tool whose calls run commands: they are judged before the call is started."""

    def command(self, arguments: Arguments) -> str | None:
        """What the shell would be given; None: nothing, or the arguments are wrong."""
        ...


@runtime_checkable
class MessageTool(Protocol):
    """A tool whose calls speak to chats: whether one may is settled before the call is started."""

    def chat(self, arguments: Arguments) -> str | None:
        """Which; None: the arguments are wrong."""
        ...

    def message_text(self, arguments: Arguments) -> str | None:
        """What people are shown of the message, where they are asked; None: as above."""
        ...


class Intake(Protocol):
    """What a platform may ask of the gateway."""

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        """Returns once the message is durable; only then may the platform acknowledge it.

        What is attached is fetched first, if its sender may talk at all, and kept as files of the
        session; the message names them. Raises `NotAllowed` where `authorise` says no, and
        `NotAddressed`, which is one, where it was not said to the agent: such a message is to be
        acknowledged, and whatever its writer is to hear of it is on its way. Raises `StoreError`
        where it cannot be kept, and what a fetch raises, if it may go better later.
        """
        ...

    async def wait_for_end(self, inbox_id: InboxId) -> MessageEnded | None:
        """The end of an accepted message, waited for; None: the gateway stopped before it."""
        ...

    def watch(self, inbox_id: InboxId) -> AbstractAsyncContextManager[AsyncIterator[TurnEvent]]:
        """What happens to an accepted message, from now to its `MessageEnded`, which is always
        the last event. Text that streamed before the call comes first, as one piece."""
        ...

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        """How far a stream of that account was taken, by what is durable; None: not at all."""
        ...

    def report_alive(self, platform: str, account: str) -> None:
        """The account has just had an answer from its vendor: it is connected. To be told at
        each poll and each sign of life, for nobody is believed to be connected for long."""
        ...

    def report_lost(self, platform: str, account: str, error: ConnectError) -> None:
        """The account's line is gone, and its door will not mend it: the door's context is closed
        and entered again a little later, unless it is a `ConnectRefused`. May be told from anywhere
        while the context is open, and more than once; afterwards it is heard by nobody."""
        ...


class Platform(Protocol):
    """A door. It holds no session state."""

    name: str
    account: str
    capabilities: Capabilities

    def connect(self, intake: Intake) -> AbstractAsyncContextManager[None]:
        """Connected while the context is open; events go to `intake.accept`.

        Entering it is the attempt: it has a time limit, and may be cancelled. It raises
        `ConnectRefused` where no further attempt can help (a bad token), `AccountInUse` where
        somebody else has the line, and anything else where it may go better later; whoever calls
        tries again, so a door need not. Once entered, it has had a round trip. A line that breaks
        afterwards is told with `intake.lost`, or by letting the context itself fail, as a task
        group does; a door that mends its line by itself tells nothing, and is believed for
        `Capabilities.alive_within`. The same platform is connected any number of times, once at a
        time.
        """
        ...

    async def send(self, outbound: Outbound) -> Receipt:
        """Raises a `SendError` that says what is known of the message's fate."""
        ...


@runtime_checkable
class SupportsEditing(Protocol):
    """A platform that declares `Capabilities.edit`."""

    async def edit(self, change: MessageEdit) -> None:
        """Show that text in the place of what was sent. The same change made twice is made once.

        Raises a `SendError`: `Refused` where the message is not to be changed any more.
        """
        ...


@runtime_checkable
class SupportsRendering(Protocol):
    """A platform that shows Markdown in a form of its own, which may be longer than the text."""

    def fits(self, text: str) -> bool:
        """Whether that Markdown is one message there; the same of the same text, always."""
        ...


@runtime_checkable
class SupportsChatIdNormalisation(Protocol):
    """A platform whose chats may be written in more than one way."""

    def normalise_chat_id(self, chat: str) -> str:
        """The id that the messages of that chat come with, whoever writes it how. A text that is no
        chat stays as it is."""
        ...


@runtime_checkable
class SupportsLookup(Protocol):
    """A platform that declares `Capabilities.lookup`."""

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        """The message that a delivery was taken as; None: it has not arrived, and will not. Raises
        `NotConnected`, `Throttled` or `OutcomeUnknown` where there is no answer: the question is
        asked again."""
        ...


@runtime_checkable
class SupportsTyping(Protocol):
    """A platform that declares `Capabilities.typing`."""

    async def show_typing(self, address: Address) -> None:
        """Show for a few seconds that an answer is being written. Raises a `SendError`, and
        nobody tries again."""
        ...


@runtime_checkable
class SupportsReactions(Protocol):
    """A platform that declares `Capabilities.reactions`."""

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """Put that sign, an emoji, on a person's message, or take ours back with None; either of
        them twice is once. Raises a `SendError`, and nobody tries again."""
        ...


@runtime_checkable
class SupportsProbing(Protocol):
    """A platform that can be asked for a sign of life."""

    async def probe(self) -> None:
        """A round trip, now. Raises a `ConnectError` or a `SendError` where there is none."""
        ...


class Lifecycle(Protocol):
    """What the house may ask of the process it lives in."""

    @property
    def stop_order(self) -> StopOrder | None:
        """The stop or restart that has begun."""
        ...

    @property
    def pending_restart(self) -> StopOrder | None:
        """A restart that will begin as soon as no turn runs."""
        ...

    async def restart(self, order: StopOrder, *, when_idle: bool = False) -> None:
        """Returns once a successor was found fit to start and the stop has begun, or, with
        `when_idle`, will begin as soon as no turn runs. Raises `RestartRefused`, whose text says
        why: nothing has happened then, and the gateway goes on."""
        ...

    def stop(self, order: StopOrder) -> None:
        """The stop begins now; where one has begun, it is hurried."""
        ...


@runtime_checkable
class HttpPlatform(Platform, Protocol):
    """A platform that is reached over the gateway's own listener: it declares routes."""

    def routes(self) -> Sequence[Any]:
        """aiohttp route definitions, mounted by `control`; each checks its own credentials."""
        ...
