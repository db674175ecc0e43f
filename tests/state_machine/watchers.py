"""API clients: requests that send a message, and watchers that read the events of one."""

import asyncio

from holdfast.core.ids import InboxId
from holdfast.core.messages.events import TurnEvent
from holdfast.core.messages.inbox import Accepted, Inbound


class ApiRequest:
    """A message sent over the API, and the result of its acceptance."""

    def __init__(self, inbound: Inbound) -> None:
        self.inbound = inbound
        self.task: asyncio.Task[Accepted] | None = None

    @property
    def accepted(self) -> Accepted | None:
        task = self.task
        if task is None or not task.done() or task.cancelled() or task.exception():
            return None
        return task.result()


class Watcher:
    """A client that reads the events of a message until it ends, or until it disconnects."""

    def __init__(self, inbox_id: InboxId) -> None:
        self.inbox_id = inbox_id
        self.events: list[TurnEvent] = []
        self.closed = False  # by the client, or with the gateway
        self.task: asyncio.Task[None] | None = None
