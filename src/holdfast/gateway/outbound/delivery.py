"""Deliveries: creating the rows that answer a message, queueing them, and waiting for their end."""

import asyncio

import msgspec

from holdfast.core.ids import DeliveryId, InboxId, SessionId, TurnId
from holdfast.core.jobs.job import JOBS_ACCOUNT
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import (
    Address,
    Button,
    DeliveryKind,
    DeliveryRow,
    DeliveryState,
    NewDelivery,
    PendingFile,
    StartedDelivery,
    delivery_scope,
)
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.ports.command import Scope
from holdfast.core.ports.runtime import IdFactory
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import GetDelivery
from holdfast.core.text.translation import _
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.accounts.registry import PlatformRegistry

_END_STATES = (DeliveryState.SENT, DeliveryState.FAILED)


class QueuedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery in the queue of its chat."""

    id: DeliveryId
    address: Address
    text: str
    expires_at: float | None = None
    buttons: tuple[Button, ...] = ()
    file: PendingFile | None = None
    stale: bool = False  # sent by no other process than the one that created it
    # The part that was sent before it was complete, or by an earlier process.
    started: StartedDelivery | None = None
    outcome_unknown: bool = False  # an earlier attempt may have arrived
    resent: bool = False  # it was already sent again once, with the mark
    session_id: SessionId | None = None
    inbox_id: InboxId | None = None  # the message that it answers

    @property
    def scope(self) -> Scope:
        return delivery_scope(self.session_id, self.address)


def queued_delivery(new: NewDelivery, *, final: str) -> QueuedDelivery:
    """Convert a row that has just been committed; `final` is the text of a row without one."""
    return QueuedDelivery(
        id=new.id,
        address=new.address,
        text=final if new.text is None else new.text,
        expires_at=new.expires_at,
        buttons=new.buttons,
        file=new.file,
        started=new.started,
        session_id=new.session_id,
        inbox_id=new.inbox_id,
    )


def recovered_delivery(row: DeliveryRow) -> QueuedDelivery:
    """Convert a row that an earlier process has left. A row in state `sending` was interrupted
    between the send and its receipt: its outcome is unknown (the column `doubtful`)."""
    return QueuedDelivery(
        id=row.id,
        address=row.address,
        text=row.text,
        expires_at=row.expires_at,
        buttons=row.buttons,
        stale=row.kind is DeliveryKind.SHUTDOWN_NOTICE,
        outcome_unknown=row.outcome_unknown or row.state is DeliveryState.SENDING,
        resent=row.resends > 0,
        started=StartedDelivery(id=row.id, parts=row.parts) if row.parts else None,
        file=row.file,
        session_id=row.session_id,
        inbox_id=row.inbox_id,
    )


class DeliveryFactory:
    """Creates the delivery rows that answer a message. On a platform whose users fetch replies, a
    row is created as sent: committed means available."""

    def __init__(self, platforms: PlatformRegistry, *, new_id: IdFactory) -> None:
        self._platforms = platforms
        self._new_id = new_id

    def reply(
        self,
        row: InboxRow,
        text: str | None,
        *,
        kind: DeliveryKind = DeliveryKind.REPLY,
        session_id: SessionId | None = None,
        turn_id: TurnId | None = None,
        silent: bool = False,
    ) -> NewDelivery:
        """Create a delivery to the sender of `row`. Without `text`, it has the final message of the
        turn. With `silent`, it is only shown in the history of its job."""
        run = row.inbound.run
        if run is not None and text is not None and kind is DeliveryKind.REPLY:
            text = _("Job {id} ({name}): {text}").format(id=run.job_id, name=run.name, text=text)
        address = _job_history_address(row) if silent else reply_address(row)
        fetchable = self._platforms.capabilities(address).fetchable
        return NewDelivery(
            id=DeliveryId(self._new_id("dlv")),
            address=address,
            kind=kind,
            text=text,
            session_id=session_id,
            turn_id=turn_id,
            inbox_id=row.id,
            state=DeliveryState.SENT if fetchable else DeliveryState.PENDING,
        )

    def is_fetched(self, row: InboxRow) -> bool:
        """Whether the sender fetches the reply as a whole."""
        return self._platforms.capabilities(reply_address(row)).fetchable

    def notice(
        self,
        row: InboxRow,
        text: str,
        *,
        session_id: SessionId | None = None,
        turn_id: TurnId | None = None,
        expires_at: float | None = None,
    ) -> NewDelivery:
        """Create a notice that is not the answer to `row`. It is not sent after `expires_at`."""
        return NewDelivery(
            id=DeliveryId(self._new_id("dlv")),
            address=reply_address(row),
            kind=DeliveryKind.NOTICE,
            text=text,
            session_id=session_id,
            turn_id=turn_id,
            expires_at=expires_at,
        )


def reply_address(row: InboxRow) -> Address:
    source, run = row.inbound.source, row.inbound.run
    if run is not None and run.address is not None:
        return run.address
    # In a direct chat every reply answers the last message, so it quotes none. A message of the
    # operator does not exist on the platform, so it cannot be quoted.
    unquoted = source.chat_type is ChatType.DM or source.author is Author.OPERATOR
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
        reply_to=None if unquoted else row.inbound.message_id,
    )


def _job_history_address(row: InboxRow) -> Address:
    return Address(platform=INTERNAL_PLATFORM, account=JOBS_ACCOUNT, chat_id=str(row.id))


class DeliveryWaiters:
    """Owns one event for each caller that waits for the end of a delivery. Most deliveries have
    none, and cost one lookup."""

    def __init__(self) -> None:
        self._waiting: dict[DeliveryId, set[asyncio.Event]] = {}
        self._closed = False

    def close(self) -> None:
        """Wake all waiters, because nothing more is sent: they return what is known now."""
        self._closed = True
        for delivery_id in self._waiting:
            self.notify(delivery_id)

    def notify(self, delivery_id: DeliveryId) -> None:
        """Wake the waiters of a delivery whose stored state has changed."""
        for event in self._waiting.get(delivery_id, ()):
            event.set()

    async def wait_for_end(
        self, delivery_id: DeliveryId, *, reads: StoreReader, wait: float
    ) -> DeliveryRow | None:
        """Return the row once it has ended or `wait` seconds have passed; None if there is no such
        row."""
        event = asyncio.Event()
        self._waiting.setdefault(delivery_id, set()).add(event)
        try:
            async with asyncio.timeout(wait):
                while (
                    not _is_over(await reads.read(GetDelivery(delivery_id=delivery_id)))
                    and not self._closed
                ):
                    await event.wait()
                    event.clear()  # before reading: a change after the read sets it again
        except TimeoutError:
            pass
        finally:
            self._remove(delivery_id, event)
        return await reads.read(GetDelivery(delivery_id=delivery_id))

    def _remove(self, delivery_id: DeliveryId, event: asyncio.Event) -> None:
        self._waiting[delivery_id].discard(event)
        if not self._waiting[delivery_id]:
            del self._waiting[delivery_id]


def _is_over(row: DeliveryRow | None) -> bool:
    return row is None or has_ended(row)


def has_ended(row: DeliveryRow) -> bool:
    """Whether nothing more is done about the delivery. One whose outcome is unknown and that was
    sent again already has ended."""
    unknown = row.state is DeliveryState.UNKNOWN and row.resends > 0
    return row.state in _END_STATES or unknown
