"""Who watches an accepted message, and what has streamed for it so far."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from holdfast.core.events import Event, MessageEnded, StepEnded, StreamVoided, TextStreamed
from holdfast.core.ids import InboxId


class _Watched:
    """One message on its way: the text of the present step, and the queues of its watchers."""

    __slots__ = ("queues", "streamed", "went_to")

    def __init__(self) -> None:
        self.streamed: list[str] = []
        self.queues: list[asyncio.Queue[Event | None]] = []
        self.went_to: _Watched | None = None  # the message this one was merged into

    def forget(self, queue: asyncio.Queue[Event | None]) -> None:
        if queue in self.queues:
            self.queues.remove(queue)
        if self.went_to is not None:
            self.went_to.forget(queue)


class Watchers:
    """Owns one object for each message that was accepted and has not ended.

    What happens to a message is told to all who watch it; one that nobody watches costs a
    list of strings while its turn runs.
    """

    def __init__(self) -> None:
        self._watched: dict[InboxId, _Watched] = {}

    def __len__(self) -> int:
        return len(self._watched)

    def __contains__(self, inbox_id: InboxId) -> bool:
        return inbox_id in self._watched

    def open(self, inbox_id: InboxId) -> None:
        self._watched[inbox_id] = _Watched()

    def merge(self, inbox_id: InboxId, into: InboxId) -> None:
        """Whoever watches the one message hears from now on what happens to the other."""
        target, merged = self._watched.get(into), self._watched.pop(inbox_id, None)
        if merged and target:
            merged.went_to = target
            target.queues.extend(merged.queues)

    def publish(self, inbox_ids: Iterable[InboxId], event: Event) -> None:
        for inbox_id in inbox_ids:
            if watched := self._watched.get(inbox_id):
                match event:
                    case TextStreamed():
                        watched.streamed.append(event.text)
                    case StepEnded() | StreamVoided():
                        watched.streamed.clear()
                for queue in watched.queues:
                    queue.put_nowait(event)

    def end(self, ended: MessageEnded) -> None:
        """Tell the end of a message. Ending one that is not open changes nothing."""
        watched = self._watched.pop(ended.inbox_id, None)
        if watched:
            for queue in watched.queues:
                queue.put_nowait(ended)

    def close(self) -> None:
        """The gateway stops: whoever watches hears no more, and asks its successor."""
        for watched in self._watched.values():
            for queue in watched.queues:
                queue.put_nowait(None)
        self._watched.clear()

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
            watched.forget(queue)


async def _until_ended(queue: asyncio.Queue[Event | None]) -> AsyncIterator[Event]:
    while True:
        event = await queue.get()
        if event is None:
            return
        yield event
        if isinstance(event, MessageEnded):
            return
