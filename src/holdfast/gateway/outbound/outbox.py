"""The outbox worker: sends pending deliveries, in order per chat.

It is the only component that sends to platforms. Each chat has a queue and a task of its own, so
that a slow chat delays no other. Reactions are sent while nothing is pending for the chat.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import (
    Address,
    DeliveryBlocker,
    DeliveryRow,
    DeliveryState,
    DeliveryStatus,
    NewDelivery,
)
from holdfast.core.ports.command import Committed
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.committed import committed_deliveries, final_text, requeued_delivery
from holdfast.gateway.outbound.best_effort import BestEffortOutput, Reaction
from holdfast.gateway.outbound.delivery import (
    DeliveryWaiters,
    QueuedDelivery,
    queued_delivery,
    recovered_delivery,
)
from holdfast.gateway.outbound.rate_limit import AccountConnectivity, RateGate, SendGate
from holdfast.gateway.outbound.reply_stream import ReplyStream
from holdfast.gateway.outbound.sender import Sender
from holdfast.gateway.tracing import MessageTracer

ChatKey = tuple[str, str, str]  # platform, account, chat


class ChatQueue:
    """The deliveries of one chat, sent one at a time and in order, and its reactions, which are
    sent while no delivery is pending."""

    __slots__ = ("deliveries", "first_since", "gate", "reactions", "task")

    def __init__(self, clock: Clock) -> None:
        self.gate = RateGate(clock)
        self.deliveries: deque[QueuedDelivery | BestEffortOutput] = deque()
        self.reactions: deque[Reaction] = deque()
        self.first_since = clock.now()  # when the first delivery became the first
        self.task: asyncio.Task[None] | None = None


class ChatQueues(dict[ChatKey, ChatQueue]):
    """The queues of all chats with a pending delivery or reaction."""

    def find(self, address: Address) -> ChatQueue | None:
        return self.get(chat_key(address))

    @property
    def with_deliveries(self) -> Iterator[tuple[ChatKey, ChatQueue]]:
        """The queues that hold at least one delivery."""
        return ((key, chat) for key, chat in self.items() if chat.deliveries)

    @property
    def pending_count(self) -> int:
        return sum(len(chat.deliveries) for chat in self.values())

    @property
    def oldest_since(self) -> float | None:
        """When the delivery that has waited longest as the first of its queue became the first;
        None if there is no delivery."""
        return min((chat.first_since for _, chat in self.with_deliveries), default=None)

    def undeliverable_counts(self, has: Callable[[str, str], bool]) -> dict[str, int]:
        """The number of deliveries for accounts that are no longer configured, by account."""
        waiting: dict[str, int] = {}
        for (name, account, _), chat in self.with_deliveries:
            if not has(name, account):
                key = f"{name}:{account}"
                waiting[key] = waiting.get(key, 0) + len(chat.deliveries)
        return waiting

    def holds(self, delivery_id: DeliveryId) -> bool:
        queued = (each for chat in self.values() for each in chat.deliveries)
        return any(isinstance(each, QueuedDelivery) and each.id == delivery_id for each in queued)


def chat_key(address: Address) -> ChatKey:
    return (address.platform, address.account, address.chat_id)


def delivery_status(
    delivery_id: DeliveryId,
    queue: Collection[QueuedDelivery | BestEffortOutput],
    *,
    connected: bool,
    until: float | None,
) -> DeliveryStatus | None:
    """What a pending delivery waits for; None if it is not in the queue of its chat. `until` is the
    end of the chat's rate limit."""
    pending = [each.id for each in queue if isinstance(each, QueuedDelivery)]
    if delivery_id not in pending:
        return None
    if not connected:
        return DeliveryStatus(blocked_by=DeliveryBlocker.ACCOUNT)
    if pending[0] != delivery_id:
        return DeliveryStatus(blocked_by=DeliveryBlocker.CHAT)
    if until is not None:
        return DeliveryStatus(blocked_by=DeliveryBlocker.RATE_LIMIT, until=until)
    return DeliveryStatus(blocked_by=DeliveryBlocker.NOTHING)


class OutboxWorker:
    """Owns the queue of each chat, its task and its rate gate."""

    def __init__(
        self,
        platforms: PlatformRegistry,
        sender: Sender,
        *,
        clock: Clock,
        delivery_waiters: DeliveryWaiters,
        tracer: MessageTracer | None = None,
    ) -> None:
        self._tracer = tracer
        self._platforms = platforms
        self._sender = sender
        self._clock = clock
        self._receipts = delivery_waiters
        self._streams: dict[DeliveryId, ReplyStream] = {}  # shown, and not yet pending
        self._queues = ChatQueues()
        self._connectivity = AccountConnectivity(platforms, clock=clock)
        self._closed = False

    def __len__(self) -> int:
        return self._queues.pending_count

    @property
    def undeliverable_counts(self) -> dict[str, int]:
        """The number of deliveries for accounts that are no longer configured, by account."""
        return self._queues.undeliverable_counts(self._platforms.has)

    @property
    def oldest_since(self) -> float | None:
        """When the delivery that has waited longest as the first of its queue became the first;
        None if there is no delivery."""
        return self._queues.oldest_since

    def on_committed(self, event: Committed) -> None:
        """Send the deliveries that a commit has added, or has made pending again."""
        if (requeued := requeued_delivery(event)) is not None:
            self.recover([requeued])
        self.enqueue_committed(committed_deliveries(event), final_text(event))

    def enqueue_committed(self, deliveries: Iterable[NewDelivery], final: str = "") -> None:
        """Deliver rows that have just been committed; `final` is the text of rows without one."""
        for new in deliveries:
            if new.started is not None and new.state is not DeliveryState.PENDING:
                self._streams.pop(new.id, None)
                if new.shown_part is not None:
                    self._sender.ended_with_turn(queued_delivery(new, final=final))
            if new.state is DeliveryState.PENDING:
                self._enqueue(queued_delivery(new, final=final))

    def recover(self, rows: Iterable[DeliveryRow]) -> None:
        """Continue with the pending rows of an earlier process, in their order."""
        for row in rows:
            self._enqueue(recovered_delivery(row))

    def holds(self, delivery_id: DeliveryId) -> bool:
        """Whether the delivery is being sent or queued."""
        return self._queues.holds(delivery_id)

    def status_of(self, row: DeliveryRow) -> DeliveryStatus | None:
        """What the delivery waits for; None if it is not queued, because it has ended or was never
        pending."""
        address = row.address
        if (chat := self._queues.find(address)) is None:
            return None
        wait = max(chat.gate.wait_seconds, self._connectivity.rate_gate(address).wait_seconds)
        connected = self._connectivity.connected_event(address).is_set()
        until = self._clock.now() + wait if wait > 0 else None
        return delivery_status(row.id, chat.deliveries, connected=connected, until=until)

    def account_connected(self, platform: Platform) -> None:
        """Begin to send to this account.

        Deliveries wait for this. Before the account connects, the platform's capabilities are
        unknown, and so is how a delivery that may have arrived is resolved.
        """
        self._connectivity.mark_connected(platform)

    def account_disconnected(self, platform: Platform) -> None:
        """Let deliveries to this account wait until it is connected again."""
        self._connectivity.mark_disconnected(platform)

    async def flush(self) -> None:
        """Return when nothing is being sent. Deliveries to a disconnected account stay in the store
        and are not waited for."""
        while active := self._active_tasks():
            one_lost = asyncio.ensure_future(self._connectivity.wait_until_one_lost())
            try:
                await asyncio.wait((*active, one_lost), return_when=asyncio.FIRST_COMPLETED)
            finally:
                one_lost.cancel()

    def _active_tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that send to accounts that are reachable, as far as is known."""
        reachable = [
            chat
            for key, chat in self._queues.with_deliveries
            if self._connectivity.is_reachable(*key[:2])
        ]
        return [chat.task for chat in reachable if chat.task and not chat.task.done()]

    async def close(self) -> None:
        """Stop sending. Whatever has no receipt yet is in the store, and the next process resolves
        it, including deliveries that are committed from now on."""
        self._closed = True
        self._receipts.close()
        tasks = [chat.task for chat in self._queues.values() if chat.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._sender.close()
        self._queues.clear()

    def stream(self, delivery_id: DeliveryId) -> ReplyStream | None:
        """The reply with that id, if this process has begun to show it."""
        return self._streams.get(delivery_id)

    def try_show(self, output: BestEffortOutput) -> bool:
        """Queue best-effort output. False if it is dropped, because a delivery is pending for its
        chat or a rate limit applies: progress and typing are dropped under pressure, replies
        never."""
        chat = self._queues.find(output.address)
        if (chat is not None and chat.deliveries) or not self.allows_best_effort(output.address):
            return False
        self._enqueue(output)
        return True

    def allows_best_effort(self, address: Address) -> bool:
        """Whether the account is reachable and neither it nor the chat is rate-limited."""
        chat = self._queues.find(address)
        if self._connectivity.rate_gate(address).is_limited or (
            chat is not None and chat.gate.is_limited
        ):
            return False
        return self._closed or self._connectivity.is_reachable(address.platform, address.account)

    def enqueue_reaction(self, reaction: Reaction) -> None:
        """Set or remove the reaction as soon as no delivery is pending for its chat."""
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
        """The queue of a chat, with a task that also sends what is added before the next await."""
        key = chat_key(address)
        chat = self._queues.get(key)
        if chat is None:
            chat = self._queues[key] = ChatQueue(self._clock)
            chat.task = asyncio.create_task(self._drain(key, chat), name=f"deliver {key[2]}")
        return chat

    async def _drain(self, key: ChatKey, chat: ChatQueue) -> None:
        while chat.deliveries or chat.reactions:
            if not chat.deliveries:
                await self._send_reaction(chat)
                continue
            await self._send_first(chat)
            done = chat.deliveries.popleft()
            if self._tracer is not None and isinstance(done, QueuedDelivery):
                self._tracer.delivery_done(done.id)
            chat.first_since = self._clock.now()
        del self._queues[key]  # no await since the queue was found empty, so nothing was added

    async def _send_first(self, chat: ChatQueue) -> None:
        """Bring the first delivery to its end, or show the first best-effort output."""
        first, gate = chat.deliveries[0], chat.gate
        if not isinstance(first, QueuedDelivery):
            await self._send_best_effort(first, gate)
            return
        stream = self._streams.get(first.id)
        if stream is not None:
            gate.hold(stream.edit_cooldown)
        # The text that the chat shows may have changed since the turn ended.
        started = first.started if stream is None else stream.as_started
        await self._sender.deliver(first, self._send_gate(first, gate), started=started)
        self._streams.pop(first.id, None)

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
        """Send one reaction. A delivery that arrives while this waits for the gates goes first,
        because it would wait for the same gates."""
        reaction = chat.reactions[0]
        send_gate = self._send_gate(reaction, chat.gate)
        await send_gate.wait()
        if chat.deliveries:
            return
        chat.reactions.popleft()
        if (platform := self._platforms.find(reaction.address)) is not None:
            await reaction.apply(platform, send_gate)

    async def _show(
        self, output: BestEffortOutput, platform: Platform, send_gate: SendGate
    ) -> None:
        if isinstance(output, ReplyStream):
            self._streams[output.id] = output
        await output.show(self._sender, platform, send_gate)
        if isinstance(output, ReplyStream) and not output.started:
            self._streams.pop(output.id, None)

    async def _send_best_effort(self, output: BestEffortOutput, gate: RateGate) -> None:
        platform = self._platforms.find(output.address)
        if platform is not None:
            await self._show(output, platform, self._send_gate(output, gate))
        await gate.wait()  # a rate limit caused by this reaction also applies to the next
