"""Subscriptions to an accepted message: its events while it is processed, and its end."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

from holdfast.core.ids import InboxId
from holdfast.core.messages.events import (
    MessageEnded,
    StepEnded,
    StreamVoided,
    TextStreamed,
    TurnEvent,
)
from holdfast.core.messages.inbox import END_STATES, InboxRow
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import GetInboxRow, GetTurn, ListDeliveriesForMessage

EndFuture = asyncio.Future[MessageEnded | None]


class _SubscribedMessage:
    """One message that is being processed, with those that were merged into it: the text streamed
    in the current step, and the queues of all subscribers."""

    __slots__ = ("ids", "queues", "streamed", "waiting")

    def __init__(self, inbox_id: InboxId) -> None:
        self.ids = [inbox_id]
        self.streamed: list[str] = []
        self.queues: list[asyncio.Queue[TurnEvent | None]] = []
        self.waiting: list[EndFuture] = []  # subscribers that need only the end

    def settle(self, ended: MessageEnded | None) -> None:
        for queue in self.queues:
            queue.put_nowait(ended)
        for future in self.waiting:
            if not future.done():
                future.set_result(ended)


class MessageSubscriptions:
    """Owns one object for each message that was accepted and has not ended.

    Every subscriber gets the events of its message. A message without subscribers costs a list of
    strings while its turn runs.
    """

    def __init__(self) -> None:
        self._messages: dict[InboxId, _SubscribedMessage] = {}
        self._closed = False

    def __contains__(self, inbox_id: InboxId) -> bool:
        return inbox_id in self._messages

    @property
    def ids(self) -> frozenset[InboxId]:
        """Every message that this process has accepted and not yet ended."""
        return frozenset(self._messages)

    def open(self, inbox_id: InboxId) -> None:
        """Called twice for a message that /retry submits: by its router and for its readers."""
        if not self._closed:  # else it was committed while the gateway stopped: no turn runs it
            self._messages.setdefault(inbox_id, _SubscribedMessage(inbox_id))

    def merge(self, inbox_id: InboxId, into: InboxId) -> None:
        """Send the subscribers of one message the events of the other from now on."""
        merged, target = self._messages.get(inbox_id), self._messages.get(into)
        if merged is None or target is None or merged is target:
            return
        target.queues.extend(merged.queues)
        target.waiting.extend(merged.waiting)
        target.ids.extend(merged.ids)
        self._messages |= dict.fromkeys(merged.ids, target)

    def publish(self, inbox_id: InboxId, event: TurnEvent) -> None:
        watched = self._messages.get(inbox_id)
        if watched is None:
            return
        match event:
            case TextStreamed():
                watched.streamed.append(event.text)
            case StepEnded() | StreamVoided():
                watched.streamed.clear()
        for queue in watched.queues:
            queue.put_nowait(event)

    def end(self, ended: MessageEnded) -> None:
        """Publish the end of a message, and of all that were merged into it."""
        watched = self._messages.get(ended.inbox_id)
        if watched is None or watched.ids[0] != ended.inbox_id:
            return  # a merged message ends with the one it was merged into
        for inbox_id in watched.ids:
            del self._messages[inbox_id]
        watched.settle(ended)

    def close(self) -> None:
        """End every subscription, because the gateway stops. Subscribers reconnect to its
        successor."""
        self._closed = True
        for watched in set(self._messages.values()):
            watched.settle(None)
        self._messages.clear()

    def end_of(self, inbox_id: InboxId) -> EndFuture:
        """A future with the end of the message, for callers that need no events; its result is None
        if the message is not in progress here. It is registered by this call, so call it before
        starting a task that waits for it."""
        ended: EndFuture = asyncio.get_running_loop().create_future()
        if (watched := self._messages.get(inbox_id)) is not None:
            watched.waiting.append(ended)
        else:
            ended.set_result(None)
        return ended

    @asynccontextmanager
    async def subscribe(self, inbox_id: InboxId) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        """The events of an open message from now on, preceded by what was streamed before."""
        watched = self._messages[inbox_id]
        queue: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        if watched.streamed:
            queue.put_nowait(TextStreamed("".join(watched.streamed)))
        watched.queues.append(queue)
        try:
            yield _events_until_end(queue)
        finally:
            # Looked up again: the message may have been merged into another meanwhile.
            watched = self._messages.get(inbox_id, watched)
            if queue in watched.queues:
                watched.queues.remove(queue)


async def _events_until_end(queue: asyncio.Queue[TurnEvent | None]) -> AsyncIterator[TurnEvent]:
    while True:
        event = await queue.get()
        if event is None:
            return
        yield event
        if isinstance(event, MessageEnded):
            return


class MessageWatcher:
    """Watches a message in progress in this process, or one that has ended and is in the store.
    Owns nothing."""

    def __init__(
        self,
        subscriptions: MessageSubscriptions,
        *,
        reads: StoreReader,
        redact: Callable[[str], str],
    ) -> None:
        self._subscriptions = subscriptions
        self._reads = reads
        self._redact = redact

    @asynccontextmanager
    async def watch(self, inbox_id: InboxId) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        if inbox_id in self._subscriptions:
            async with self._subscriptions.subscribe(inbox_id) as events:
                yield events
        else:
            yield self._stored_events(inbox_id)

    def wait_for_end(self, inbox_id: InboxId) -> Awaitable[MessageEnded | None]:
        if inbox_id in self._subscriptions:
            return self._subscriptions.end_of(inbox_id)
        return self._wait_for_stored_end(inbox_id)

    async def _wait_for_stored_end(self, inbox_id: InboxId) -> MessageEnded | None:
        async with aclosing(self._stored_events(inbox_id)) as events:
            async for event in events:
                if isinstance(event, MessageEnded):
                    return event
        return None

    async def _stored_events(self, inbox_id: InboxId) -> AsyncGenerator[TurnEvent, None]:
        """The end of a message that is not in progress in this process."""
        row = await self._reads.read(GetInboxRow(inbox_id=inbox_id))
        while row is not None and row.merged_into is not None:
            if row.merged_into in self._subscriptions:
                async with self._subscriptions.subscribe(row.merged_into) as events:
                    async for event in events:
                        yield event
                return
            row = await self._reads.read(GetInboxRow(inbox_id=row.merged_into))
        if row is not None and row.state in END_STATES:
            yield await self._stored_end(row)

    async def _stored_end(self, row: InboxRow) -> MessageEnded:
        answers = await self._reads.read(ListDeliveriesForMessage(inbox_id=row.id))
        turn = await self._reads.read(GetTurn(turn_id=row.turn_id)) if row.turn_id else None
        return MessageEnded(
            row.id,
            row.state,
            self._redact("\n\n".join(answer.text for answer in answers)),
            turn_id=row.turn_id,
            session_id=row.session_id,
            reason=row.reason,
            **({"usage": turn.usage} if turn else {}),
        )
