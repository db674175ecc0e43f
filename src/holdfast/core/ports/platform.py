"""The platform port: what a platform adapter offers the gateway, and what it may call."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from holdfast.core.errors import ConnectError
from holdfast.core.ids import DeliveryId, InboxId
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.messages.source import Attachment, Source
from holdfast.core.ports.capabilities import Capabilities


class Intake(Protocol):
    """The part of the gateway that a platform calls."""

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        """Return once the message is durable; only then may the platform acknowledge it.

        Attachments are fetched first, if the sender may talk to the agent at all, and stored as
        files of the session; the message names them. Raises `NotAllowed` if `authorise` denies the
        sender, and its subclass `NotAddressed` if the message was not meant for the agent. The
        platform acknowledges both; a reply to the sender, if any, is already queued. Raises
        `StoreError` if the message cannot be stored, and any error of a fetch that may succeed
        later.
        """
        ...

    def may_talk(self, source: Source) -> bool:
        """Whether `authorise` would let the sender talk to the agent there."""
        ...

    def wait_for_end(self, inbox_id: InboxId) -> Awaitable[MessageEnded | None]:
        """The end of an accepted message. None: the gateway stopped before it."""
        ...

    def watch(self, inbox_id: InboxId) -> AbstractAsyncContextManager[AsyncIterator[TurnEvent]]:
        """The events of an accepted message, from now to its `MessageEnded`, which is always the
        last one. Text that was streamed before the call comes first, as one piece."""
        ...

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        """The durable position in a stream of that account. None: nothing was read yet."""
        ...

    def report_alive(self, platform: str, account: str) -> None:
        """Report that the vendor has just answered this account. Call it at each poll and each
        heartbeat: an account without a recent report does not count as connected."""
        ...

    def report_lost(self, platform: str, account: str, error: ConnectError) -> None:
        """Report that the account's connection is lost and the platform does not restore it. The
        gateway closes the platform's context and enters it again a little later, unless the error
        is a `ConnectRefused`. May be called from anywhere while the context is open, and more than
        once; calls after that are ignored."""
        ...


class Platform(Protocol):
    """A platform adapter. It holds no session state."""

    name: str
    account: str
    capabilities: Capabilities

    def connect(self, intake: Intake) -> AbstractAsyncContextManager[None]:
        """Connected while the context is open; events go to `intake.accept`.

        Entering the context is the attempt: it has a time limit, and may be cancelled. It raises
        `ConnectRefused` if no further attempt can help (a bad token), `AccountInUse` if another
        process uses the account, and any other error if a later attempt may succeed. The gateway
        retries, so an adapter need not. Once the context is entered, one round trip has succeeded.
        A connection that breaks afterwards is reported with `intake.report_lost`, or by letting the
        context itself fail, as a task group does. An adapter that reconnects by itself reports
        nothing, and counts as connected for `Capabilities.heartbeat_interval`. The same platform
        may be connected any number of times, once at a time.
        """
        ...

    async def send(self, outbound: Outbound) -> Receipt:
        """Send one message. Raises a `SendError` that tells what is known about its outcome."""
        ...


@runtime_checkable
class HttpPlatform(Platform, Protocol):
    """A platform that is reached over the gateway's own HTTP listener: it declares routes."""

    def routes(self) -> Sequence[Any]:
        """aiohttp route definitions, mounted by `server`; each checks its own credentials."""
        ...


@runtime_checkable
class SupportsEditing(Protocol):
    """A platform that declares `Capabilities.edit`."""

    async def edit(self, change: MessageEdit) -> None:
        """Replace the text of a sent message. Repeating the same change has no further effect.

        Raises a `SendError`: `EditRefused` if the message can never be changed again.
        """
        ...


@runtime_checkable
class SupportsRendering(Protocol):
    """A platform that shows Markdown in a form of its own, which may be longer than the text."""

    def fits(self, text: str) -> bool:
        """Whether that Markdown fits into one message. The same text always gives the same
        answer."""
        ...


@runtime_checkable
class SupportsChatIdNormalisation(Protocol):
    """A platform whose chat ids have more than one spelling."""

    def normalise_chat_id(self, chat: str) -> str:
        """The id that incoming messages of that chat carry, for any spelling of it. A text that is
        not a chat id stays as it is."""
        ...


@runtime_checkable
class SupportsLookup(Protocol):
    """A platform that declares `Capabilities.lookup`."""

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        """The receipt of a delivery that arrived. None if it has not arrived, and will not. Raises
        `NotConnected`, `Throttled` or `OutcomeUnknown` if the vendor gives no answer: the gateway
        asks again later."""
        ...


@runtime_checkable
class SupportsTyping(Protocol):
    """A platform that declares `Capabilities.typing`."""

    async def show_typing(self, address: Address) -> None:
        """Show the typing indicator for a few seconds. Raises a `SendError`; there is no retry."""
        ...


@runtime_checkable
class SupportsReactions(Protocol):
    """A platform that declares `Capabilities.reactions`."""

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        """Set that emoji as our reaction to a person's message, or remove ours with None. Both are
        idempotent. Raises a `SendError`; there is no retry."""
        ...


@runtime_checkable
class SupportsProbing(Protocol):
    """A platform that can test its connection on demand."""

    async def probe(self) -> None:
        """Make a round trip now. Raises a `ConnectError` or a `SendError` if it fails."""
        ...
