"""Those who ask a gateway of the machine and look at what becomes of it, from outside its chats."""

import asyncio

from holdfast.core.ids import InboxId
from holdfast.core.messages.events import TurnEvent
from holdfast.core.messages.inbox import Accepted, Inbound


class Request:
    """A program's message, and what its intake answered."""

    def __init__(self, inbound: Inbound) -> None:
        self.inbound = inbound
        self.task: asyncio.Task[Accepted] | None = None

    @property
    def accepted(self) -> Accepted | None:
        task = self.task
        if task is None or not task.done() or task.cancelled() or task.exception():
            return None
        return task.result()


class Watch:
    """Somebody who looks at a message until it ends, or until they have seen enough."""

    def __init__(self, inbox_id: InboxId) -> None:
        self.inbox_id = inbox_id
        self.events: list[TurnEvent] = []
        self.left = False  # by themselves, or with the gateway
        self.task: asyncio.Task[None] | None = None
