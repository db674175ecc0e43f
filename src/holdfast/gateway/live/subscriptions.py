"""Who watches an accepted message, and what has streamed for it so far."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.core.ids import InboxId
from holdfast.core.messages.events import Event, MessageEnded, StepEnded, StreamVoided, TextStreamed

Ending = asyncio.Future[MessageEnded | None]


class _Watched:
    """One message on its way, with those that were merged into it: what the present step has
    said so far, and the queues of all who watch."""

    __slots__ = ("ids", "queues", "streamed", "waiting")

    def __init__(self, inbox_id: InboxId) -> None:
        self.ids = [inbox_id]
        self.streamed: list[str] = []
        self.queues: list[asyncio.Queue[Event | None]] = []
        self.waiting: list[Ending] = []  # for the end alone

    def settle(self, ended: MessageEnded | None) -> None:
        for queue in self.queues:
            queue.put_nowait(ended)
        for future in self.waiting:
            if not future.done():
                future.set_result(ended)


class Watchers:
    """Owns one object for each message that was accepted and has not ended.

    What happens to a message is told to all who watch it; one that nobody watches costs a
    list of strings while its turn runs.
    """

    def __init__(self) -> None:
        self._watched: dict[InboxId, _Watched] = {}
        self._closed = False

    def __contains__(self, inbox_id: InboxId) -> bool:
        return inbox_id in self._watched

    @property
    def ids(self) -> frozenset[InboxId]:
        """Every message that somebody in this process is to bring to its end."""
        return frozenset(self._watched)

    def open(self, inbox_id: InboxId) -> None:
        if not self._closed:  # its commit came through as the gateway stopped: nobody runs it
            self._watched[inbox_id] = _Watched(inbox_id)

    def merge(self, inbox_id: InboxId, into: InboxId) -> None:
        """Whoever watches the one message hears from now on what happens to the other."""
        merged, target = self._watched.get(inbox_id), self._watched.get(into)
        if merged is None or target is None or merged is target:
            return
        target.queues.extend(merged.queues)
        target.waiting.extend(merged.waiting)
        target.ids.extend(merged.ids)
        self._watched |= dict.fromkeys(merged.ids, target)

    def publish(self, inbox_id: InboxId, event: Event) -> None:
        watched = self._watched.get(inbox_id)
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
        """Tell the end of a message, and so of all that were merged into it."""
        watched = self._watched.get(ended.inbox_id)
        if watched is None or watched.ids[0] != ended.inbox_id:
            return  # one that was merged ends with the one it was merged into
        for inbox_id in watched.ids:
            del self._watched[inbox_id]
        watched.settle(ended)

    def close(self) -> None:
        """The gateway stops: whoever watches hears no more, and asks its successor."""
        self._closed = True
        for watched in set(self._watched.values()):
            watched.settle(None)
        self._watched.clear()

    def end_of(self, inbox_id: InboxId) -> Ending:
        """The end of a message, for whom the way there does not matter; None: not here. It is heard
        from this call on: whoever has a task wait for it calls before the task begins."""
        ended: Ending = asyncio.get_running_loop().create_future()
        if (watched := self._watched.get(inbox_id)) is not None:
            watched.waiting.append(ended)
        else:
            ended.set_result(None)
        return ended

    @asynccontextmanager
    async def watch(self, inbox_id: InboxId) -> AsyncIterator[AsyncIterator[Event]]:
        """The events of an open message, from now on; what streamed before comes first."""
        watched = self._watched[inbox_id]
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        if watched.streamed:
            queue.put_nowait(TextStreamed("".join(watched.streamed)))
        watched.queues.append(queue)
        try:
            yield _until_ended(queue)
        finally:
            # Asked for again: the message may have been merged into another meanwhile.
            watched = self._watched.get(inbox_id, watched)
            if queue in watched.queues:
                watched.queues.remove(queue)


async def _until_ended(queue: asyncio.Queue[Event | None]) -> AsyncIterator[Event]:
    while True:
        event = await queue.get()
        if event is None:
            return
        yield event
        if isinstance(event, MessageEnded):
            return
