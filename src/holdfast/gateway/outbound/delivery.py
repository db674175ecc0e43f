"""Deliveries: made as rows that answer a message, queued for sending, and waited for."""

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
)
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.ports.runtime import IdFactory
from holdfast.core.ports.store import StoreReader
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.accounts.registry import PlatformRegistry


# MERGED holdfast.gateway.outbound.parcel: A parcel: a delivery on its way, as the one who delivers it carries it.
class QueuedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """`doubtful`: an earlier attempt may have arrived."""

    id: DeliveryId
    address: Address
    text: str
    expires_at: float | None = None
    buttons: tuple[Button, ...] = ()
    file: PendingFile | None = None
    stale: bool = False  # it was worth saying only by the process that came to owe it
    started: StartedDelivery | None = (
        None  # some of it was sent before it was whole, or before this start
    )
    outcome_unknown: bool = False
    resent: bool = False  # it was already sent again once, marked
    session_id: SessionId | None = None
    inbox_id: InboxId | None = None  # the message that it answers
    failures: int = 0  # times in a row that its platform was not there


def queued_delivery(new: NewDelivery, *, final: str) -> QueuedDelivery:
    """Of a row that has just been committed; `final` is the text of one without."""
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
    """Of a row that an earlier process has left."""
    return QueuedDelivery(
        id=row.id,
        address=row.address,
        text=row.text,
        expires_at=row.expires_at,
        buttons=row.buttons,
        stale=row.kind is DeliveryKind.SHUTDOWN_NOTICE,
        # An attempt without an outcome was cut between the send and its receipt.
        outcome_unknown=row.outcome_unknown or row.state is DeliveryState.SENDING,
        resent=row.resends > 0,
        started=StartedDelivery(id=row.id, parts=row.parts) if row.parts else None,
        file=row.file,
        session_id=row.session_id,
        inbox_id=row.inbox_id,
    )


# MERGED holdfast.gateway.outbound.replies: Replies: the deliveries that answer a message, addressed to where it came from.
class DeliveryFactory:
    """Makes delivery rows; where committed means fetchable, a row is born sent."""

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
        """A delivery to the sender of `row`; `text` None: the final message of the turn.
        `quiet`: nobody is sent it, and whoever looks finds it."""
        run = row.inbound.run
        if run is not None and text is not None and kind is DeliveryKind.REPLY:
            text = f"Job {run.job_id} ({run.name}): {text}"  # nobody there has asked just now
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
        """Whether its sender comes for the answer, and gets it in one piece."""
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
        """Something the gateway says beside the answer to `row`, worth saying until then."""
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
    # In a chat of two, everything answers the last message; quoting it would be noise. What the
    # operator says has no message there that could be quoted.
    alone = source.chat_type is ChatType.DM or source.author is Author.OPERATOR
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
        reply_to=None if alone else row.inbound.message_id,
    )


def _job_history_address(row: InboxRow) -> Address:
    return Address(platform=INTERNAL_PLATFORM, account=JOBS_ACCOUNT, chat_id=str(row.id))


# MERGED holdfast.gateway.outbound.receipts: Receipts: whoever waits for the end of a delivery hears of it.
_END_STATES = (DeliveryState.SENT, DeliveryState.FAILED)


class DeliveryWaiters:
    """Owns who waits for what; most deliveries are waited for by nobody, and cost a look."""

    def __init__(self) -> None:
        self._waiting: dict[DeliveryId, set[asyncio.Event]] = {}
        self._closed = False

    def close(self) -> None:
        """Nothing is sent any more: whoever waits hears what is known by now."""
        self._closed = True
        for delivery_id in self._waiting:
            self.notify(delivery_id)

    def notify(self, delivery_id: DeliveryId) -> None:
        """Something is known of it now that was not before, and the store has it."""
        for event in self._waiting.get(delivery_id, ()):
            event.set()

    async def wait_for_end(
        self, delivery_id: DeliveryId, *, reads: StoreReader, wait: float
    ) -> DeliveryRow | None:
        """The row, once it has ended or so many seconds have passed; None: there is none."""
        event = asyncio.Event()
        self._waiting.setdefault(delivery_id, set()).add(event)
        try:
            async with asyncio.timeout(wait):
                while not _is_over(await reads.delivery(delivery_id)) and not self._closed:
                    await event.wait()
                    event.clear()  # before the look: what is settled behind it is not missed
        except TimeoutError:
            pass
        finally:
            self._remove(delivery_id, event)
        return await reads.delivery(delivery_id)

    def _remove(self, delivery_id: DeliveryId, event: asyncio.Event) -> None:
        self._waiting[delivery_id].discard(event)
        if not self._waiting[delivery_id]:
            del self._waiting[delivery_id]


def _is_over(row: DeliveryRow | None) -> bool:
    return row is None or has_ended(row)


def has_ended(row: DeliveryRow) -> bool:
    """Nothing more is done about one that is unknown and was sent again already."""
    unknown = row.state is DeliveryState.UNKNOWN and row.resends > 0
    return row.state in _END_STATES or unknown
