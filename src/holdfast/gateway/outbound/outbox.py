"""The outbox worker: sends what is owed, in order per chat, and is the only component that sends."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

import msgspec

from holdfast.core.crash_points import CrashHook
from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected, StoreError, Throttled
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import (
    Address,
    DeliveryBlocker,
    DeliveryRow,
    DeliveryState,
    DeliveryStatus,
    NewDelivery,
    StartedDelivery,
)
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.best_effort import BestEffortOutput, Reaction
from holdfast.gateway.outbound.delivery import (
    DeliveryWaiters,
    QueuedDelivery,
    queued_delivery,
    recovered_delivery,
)
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.rate_limit import AccountConnectivity, RateGate, SendGate
from holdfast.gateway.outbound.reply_stream import ReplyStream
from holdfast.gateway.outbound.sender import (
    FIRST_WAIT,
    DeliverySender,
    MultipartSender,
    PartSender,
    recovered_part,
)
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.tracing import MessageTracer

log = logging.getLogger(__name__)


# MERGED holdfast.gateway.outbound.chat_queues: The queues of chats: what is owed to each of them, in order, and the signs that wait for it.
ChatKey = tuple[str, str, str]  # platform, account, chat


class ChatQueue:
    """One chat's: order within it is kept, so one parcel is under way at a time. Signs are put
    while nothing is owed."""

    __slots__ = ("gate", "deliveries", "reactions", "first_since", "task")

    def __init__(self, clock: Clock) -> None:
        self.gate = RateGate(clock)
        self.deliveries: deque[QueuedDelivery | BestEffortOutput] = deque()
        self.reactions: deque[Reaction] = deque()
        self.first_since = clock.now()  # when the parcel in front came to be there
        self.task: asyncio.Task[None] | None = None


class ChatQueues(dict[ChatKey, ChatQueue]):
    """Of those chats to which something is owed, or a sign is to be put."""

    def find(self, address: Address) -> ChatQueue | None:
        return self.get(chat_key(address))

    @property
    def with_deliveries(self) -> Iterator[tuple[ChatKey, ChatQueue]]:
        """Those with parcels: nobody is owed a sign."""
        return ((key, chat) for key, chat in self.items() if chat.deliveries)

    @property
    def pending_count(self) -> int:
        return sum(len(chat.deliveries) for chat in self.values())

    @property
    def oldest_since(self) -> float | None:
        """When the delivery came to be in front that has been there longest; None: none is owed."""
        return min((chat.first_since for _, chat in self.with_deliveries), default=None)

    def undeliverable_counts(self, has: Callable[[str, str], bool]) -> dict[str, int]:
        """How much waits for accounts that nobody answers for any more, by account."""
        waiting: dict[str, int] = {}
        for (name, account, _), chat in self.with_deliveries:
            if not has(name, account):
                key = f"{name}:{account}"
                waiting[key] = waiting.get(key, 0) + len(chat.deliveries)
        return waiting

    def holds(self, delivery_id: DeliveryId) -> bool:
        parcels = (parcel for chat in self.values() for parcel in chat.deliveries)
        return any(isinstance(each, QueuedDelivery) and each.id == delivery_id for each in parcels)


def chat_key(address: Address) -> ChatKey:
    return (address.platform, address.account, address.chat_id)


# MERGED holdfast.gateway.outbound.prospect: The prospect of a delivery: what stands between one that is owed and its next attempt.
def delivery_status(
    delivery_id: DeliveryId,
    queue: Collection[QueuedDelivery | BestEffortOutput],
    *,
    connected: bool,
    until: float | None,
) -> DeliveryStatus | None:
    """`queue`: all that is owed to its chat, in order; `until`: when that may be sent to again.
    None: it is not owed there."""
    owed = [parcel.id for parcel in queue if isinstance(parcel, QueuedDelivery)]
    if delivery_id not in owed:
        return None
    if not connected:
        return DeliveryStatus(blocked_by=DeliveryBlocker.ACCOUNT)
    if owed[0] != delivery_id:
        return DeliveryStatus(blocked_by=DeliveryBlocker.CHAT)
    if until is not None:
        return DeliveryStatus(blocked_by=DeliveryBlocker.RATE_LIMIT, until=until)
    return DeliveryStatus(blocked_by=DeliveryBlocker.NOTHING)


# MERGED holdfast.gateway.outbound.delivery: Delivery: drains the outbox, in order per chat, and is the only one who talks to platforms.
_MAX_WAIT = 60.0
_RESEND_WAIT = 0.05  # seconds, doubled each time, before what a platform takes once is sent again


class OutboxWorker:
    """Owns what is owed to platforms: a queue per chat, with its gate."""

    def __init__(
        self,
        platforms: PlatformRegistry,
        *,
        writes: StoreWriter,
        clock: Clock,
        redact: Redaction,
        crash: CrashHook,
        outgoing_files: OutgoingFiles,
        delivery_waiters: DeliveryWaiters | None = None,
        on_failed: Callable[[DeliveryId], None] = lambda _: None,
        tracer: MessageTracer | None = None,
    ) -> None:
        self._tracer = tracer
        self._platforms = platforms
        self._clock = clock
        self._receipts = delivery_waiters or DeliveryWaiters()
        self._sender = DeliverySender(
            platforms,
            writes=writes,
            clock=clock,
            redact=redact,
            crash=crash,
            outgoing_files=outgoing_files,
            delivery_waiters=self._receipts,
            on_failed=on_failed,
            tracer=tracer,
        )
        self._part_sender = PartSender(
            platforms, writes=writes, clock=clock, crash=crash, redact=redact
        )
        self._multipart_sender = MultipartSender(self._part_sender, redact=redact)
        self._streams: dict[DeliveryId, ReplyStream] = {}  # begun, and not yet owed
        self._queues = ChatQueues()
        self._connectivity = AccountConnectivity(platforms, clock=clock)
        self._closed = False

    def __len__(self) -> int:
        return self._queues.pending_count

    @property
    def undeliverable_counts(self) -> dict[str, int]:
        """How much waits for accounts that nobody answers for any more, by account."""
        return self._queues.undeliverable_counts(self._platforms.has)

    @property
    def oldest_since(self) -> float | None:
        """When the delivery came to be in front that has been there longest; None: none is owed."""
        return self._queues.oldest_since

    def enqueue_committed(self, deliveries: Iterable[NewDelivery], final: str = "") -> None:
        """Deliver rows that have just been committed; `final` is the text of those without."""
        for new in deliveries:
            if new.started is not None and new.state is not DeliveryState.PENDING:
                self._streams.pop(new.id, None)
            if new.state is DeliveryState.PENDING:
                self._enqueue(queued_delivery(new, final=final))

    def recover(self, rows: Iterable[DeliveryRow]) -> None:
        """Go on with what an earlier process owed, in the order in which it came to owe it."""
        for row in rows:
            self._enqueue(recovered_delivery(row))

    def holds(self, delivery_id: DeliveryId) -> bool:
        """Whether it is on its way here, or waits to be."""
        return self._queues.holds(delivery_id)

    def status_of(self, row: DeliveryRow) -> DeliveryStatus | None:
        """What it waits for; None: it is not here, because it has ended or was never owed."""

        address = row.address
        if (chat := self._queues.find(address)) is None:
            return None
        wait = max(chat.gate.held_for, self._connectivity.rate_gate(address).held_for)
        connected = self._connectivity.connected_event(address).is_set()
        until = self._clock.now() + wait if wait > 0 else None
        return delivery_status(row.id, chat.deliveries, connected=connected, until=until)

    def account_connected(self, platform: Platform) -> None:
        """Begin to send to this account.

        What is owed waits for this: before it, a platform cannot say what it does with a
        delivery that it may have had already.
        """
        self._connectivity.mark_connected(platform)

    def account_disconnected(self, platform: Platform) -> None:
        """Its line is gone: what is owed to this account waits until it is there again."""
        self._connectivity.mark_disconnected(platform)

    async def flush(self) -> None:
        """Returns when nothing is under way; what is owed to a closed door stays in the store,
        and is not waited for."""
        while under_way := self._active_tasks():
            away = asyncio.ensure_future(self._connectivity.wait_until_one_lost())
            try:
                await asyncio.wait((*under_way, away), return_when=asyncio.FIRST_COMPLETED)
            finally:
                away.cancel()

    def _active_tasks(self) -> list[asyncio.Task[None]]:
        """What sends to accounts that can be reached, as far as is known."""
        reached = [
            chat
            for key, chat in self._queues.with_deliveries
            if self._connectivity.is_reachable(*key[:2])
        ]
        return [chat.task for chat in reached if chat.task and not chat.task.done()]

    async def close(self) -> None:
        """Stop sending. What has no receipt yet is in the store, and a successor's to settle;
        so is what comes to be owed from now on."""
        self._closed = True
        self._receipts.close()
        tasks = [chat.task for chat in self._queues.values() if chat.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._queues.clear()

    def stream(self, delivery_id: DeliveryId) -> ReplyStream | None:
        """The reply of that id, where this process has begun to show it."""
        return self._streams.get(delivery_id)

    def try_show(self, output: BestEffortOutput) -> bool:
        """Show what is not owed; False: not now, since something is owed to its chat or that must
        be left in peace. Progress and typing are dropped under pressure, replies never."""
        chat = self._queues.find(output.address)
        if (chat is not None and chat.deliveries) or not self.allows_best_effort(output.address):
            return False
        if isinstance(output, ReplyStream):
            self._streams[output.id] = output
        self._enqueue(output)
        return True

    def allows_best_effort(self, address: Address) -> bool:
        """Whether what nobody is owed may be shown there: the account is there, and it and the
        chat have not asked to be left in peace."""
        chat = self._queues.find(address)
        if self._connectivity.rate_gate(address).is_held or (
            chat is not None and chat.gate.is_held
        ):
            return False
        return self._closed or self._connectivity.is_reachable(address.platform, address.account)

    def enqueue_reaction(self, reaction: Reaction) -> None:
        """Make of it what is wanted, as soon as nothing is owed to its chat."""
        if self._closed:
            return
        chat = self._queue_for(reaction.address)
        if reaction not in chat.reactions:
            chat.reactions.append(reaction)

    def _enqueue(self, delivery: QueuedDelivery | BestEffortOutput) -> None:
        if self._closed:
            return
        chat = self._queue_for(delivery.address)
        if self._tracer is not None and isinstance(delivery, QueuedDelivery):
            self._tracer.delivery_queued(delivery)
        if not chat.deliveries:
            chat.first_since = self._clock.now()
        chat.deliveries.append(delivery)

    def _queue_for(self, address: Address) -> ChatQueue:
        """With a task that brings what is put into it next."""
        key = chat_key(address)
        chat = self._queues.get(key)
        if chat is None:
            chat = self._queues[key] = ChatQueue(self._clock)
            chat.task = asyncio.create_task(self._drain(key, chat), name=f"deliver {key[2]}")
        return chat

    async def _drain(self, key: ChatKey, chat: ChatQueue) -> None:
        while chat.deliveries or chat.reactions:
            try:
                if not chat.deliveries:
                    await self._send_reaction(chat)
                    continue
                await self._send_first(chat)
            except StoreError as error:
                # Sending what cannot be recorded would send it again after a restart.
                log.error(
                    "A delivery waits for the store: %s",
                    error,
                    extra={"action": "outbox_waiting_for_store"},
                )
                await asyncio.sleep(FIRST_WAIT)
                continue
            brought = chat.deliveries.popleft()
            if self._tracer is not None and isinstance(brought, QueuedDelivery):
                self._tracer.delivery_done(brought.id)
            chat.first_since = self._clock.now()
        del self._queues[key]  # no await since the queue was seen empty: nobody added to it

    async def _send_first(self, chat: ChatQueue) -> None:
        """Bring the first parcel to its end: sent, failed, or for good unknown. What is known of
        it by then stays in the queue: a store that fails between two attempts forgets no doubt."""
        parcel, gate = chat.deliveries[0], chat.gate
        if not isinstance(parcel, QueuedDelivery):
            await self._send_best_effort(parcel, gate)
            return
        if parcel.stale:  # known without its platform, which may never be connected again
            why = "expired with the process that owed it"
            await self._sender.settle(parcel, DeliveryState.FAILED, error=why)
            return
        line = self._connectivity.connected_event(parcel.address)
        await line.wait()  # what an account can do is known once it is connected
        if self._has_parts(parcel):
            await self._send_parts(parcel, gate)
            return
        if parcel.started is not None:  # and nothing of it was shown: it is one like any other
            self._streams.pop(parcel.id, None)
        account = self._connectivity.rate_gate(parcel.address)
        while True:
            await gate.wait()
            await account.wait()
            await line.wait()
            following = await self._attempt(parcel, gate)
            if following is None:
                return
            parcel = chat.deliveries[0] = following

    def _has_parts(self, delivery: QueuedDelivery) -> bool:
        """Some of it is there already, or it is too long for one message."""
        platform = self._platforms.find(delivery.address)
        if delivery.file is not None:
            return False
        if platform is None or (
            delivery.started is None and platform.capabilities.max_length is None
        ):
            return False
        if self._sender.end_without_sending(delivery, platform):
            return False
        if (begun := self._started_stream(delivery)) is not None and begun.parts:
            return True
        limited = platform.capabilities.max_length is not None
        return limited and not self._multipart_sender.is_one_message(delivery, platform)

    def _started_stream(self, delivery: QueuedDelivery) -> StartedDelivery | None:
        """As it stands now: something may have been shown since its turn ended."""
        stream = self._streams.get(delivery.id)
        return delivery.started if stream is None else stream.as_started

    async def _send_parts(self, delivery: QueuedDelivery, gate: RateGate) -> None:
        platform = self._platforms.find(delivery.address)
        assert platform is not None, "a parcel without a platform has no parts"
        begun = self._started_stream(delivery) or StartedDelivery(id=delivery.id)
        if (stream := self._streams.get(delivery.id)) is not None:
            gate.hold(stream.edit_cooldown)
        end = await self._multipart_sender.send_parts(
            delivery,
            platform,
            parts=[recovered_part(part) for part in begun.parts],
            shown_text=begun.shown_text,
            send_gate=self._send_gate(delivery, gate),
        )
        await self._sender.settle(delivery, end.state, message_id=end.message_id, error=end.error)
        self._streams.pop(delivery.id, None)

    def _send_gate(
        self, output: QueuedDelivery | BestEffortOutput | Reaction, gate: RateGate
    ) -> SendGate:
        return SendGate(
            gate,
            self._connectivity.rate_gate(output.address),
            connected=self._connectivity.connected_event(output.address),
            on_unreachable=partial(self._connectivity.mark_unreachable, output.address),
        )

    async def _send_reaction(self, chat: ChatQueue) -> None:
        """What it waits for, anything that comes to be owed would wait for as well; and that goes
        first then."""
        sign = chat.reactions[0]
        way = self._send_gate(sign, chat.gate)
        await way.wait()
        if chat.deliveries:
            return
        chat.reactions.popleft()
        if (platform := self._platforms.find(sign.address)) is not None:
            await sign.apply(platform, way)

    async def _send_best_effort(self, output: BestEffortOutput, gate: RateGate) -> None:
        platform = self._platforms.find(output.address)
        if platform is not None:
            await output.send(self._part_sender, platform, self._send_gate(output, gate))
        await gate.wait()  # who comes next waits too, where the platform has asked for that

    async def _attempt(self, delivery: QueuedDelivery, gate: RateGate) -> QueuedDelivery | None:
        """One attempt; the parcel as it now stands if there is to be another."""
        platform = self._platforms.find(delivery.address)
        if end := self._sender.end_without_sending(delivery, platform):
            await self._sender.settle(delivery, end[0], error=end[1])
            return None
        assert platform is not None, "a parcel without a platform has ended"
        try:
            await self._sender.attempt(delivery, platform)
        except Throttled as error:
            held = self._connectivity.rate_gate(delivery.address) if error.whole_account else gate
            held.hold(error.retry_after)
            await self._sender.settle(delivery, DeliveryState.PENDING, error=str(error))
            return delivery
        except NotConnected as error:
            self._connectivity.mark_unreachable(delivery.address)
            if self._connectivity.connected_event(
                delivery.address
            ).is_set():  # else it is waited for, not guessed at
                gate.hold(min(FIRST_WAIT * 2**delivery.failures, _MAX_WAIT))
            await self._sender.settle(delivery, DeliveryState.PENDING, error=str(error))
            return msgspec.structs.replace(delivery, failures=delivery.failures + 1)
        except SendRejected as error:
            about = {"action": "delivery_failed", "session": delivery.session_id}
            log.warning("A reply was refused: %s", error, extra=about)
            await self._sender.settle(delivery, DeliveryState.FAILED, error=str(error))
        except OutcomeUnknown as error:
            await self._sender.settle(delivery, DeliveryState.UNKNOWN, error=str(error))
            if delivery.outcome_unknown:  # the first is sent again at once, and no other
                gate.hold(min(_RESEND_WAIT * 2**delivery.failures, _MAX_WAIT))
            failures = delivery.failures + 1
            return msgspec.structs.replace(
                delivery, outcome_unknown=True, resent=delivery.outcome_unknown, failures=failures
            )
        return None
