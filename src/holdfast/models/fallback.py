"""Fallback: when a model fails for good, the next one of a list takes the turn over."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing

import msgspec

from holdfast.core.messages.message import AssistantMessage, Message
from holdfast.core.ports.protocols import ModelClient
from holdfast.core.turns.model import (
    Completed,
    FallbackUsed,
    ModelEvent,
    ModelFailed,
    ModelFault,
    ModelRequest,
)

log = logging.getLogger(__name__)

LeaseClient = Callable[[], ModelClient]


class FallbackClient:
    """Owns the leases on a model and on those that stand in for it.

    Whoever took over keeps the lease to its end, and so the turn: its tools are half-way
    through, and asking the first one again at each step would cost a failure a step. Whoever
    holds the lease gives it back after that turn, and the next begins with the first (A5).
    """

    __slots__ = ("_current", "_clients", "_fallbacks", "_released", "name")

    def __init__(self, first: ModelClient, *, fallbacks: Sequence[LeaseClient]) -> None:
        self.name = first.name
        self._clients = [first]
        self._fallbacks = fallbacks
        self._current = 0
        self._released = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the first model that does not fail, a `FallbackUsed` before each next one.

        Raises `ModelFailed` of the last, and of the present one where the call was let go or the
        conversation is too long: a shorter one mends that, and another model seldom does.
        """
        while True:
            try:
                async with aclosing(self._events(request)) as events:
                    async for event in events:
                        yield event
                return
            except ModelFailed as failed:
                if self._is_final(failed):
                    raise
                self._current += 1
                fallen = FallbackUsed(str(failed), self._client().name)
            log.warning(
                "%s %s takes over.", fallen.why, fallen.model, extra={"action": "model_fell_back"}
            )
            yield fallen

    def release(self) -> None:
        self._released = True
        for client in self._clients:
            client.release()

    def _is_final(self, failed: ModelFailed) -> bool:
        too_long = failed.fault is ModelFault.CONTEXT_TOO_LONG
        return self._released or too_long or self._current == len(self._fallbacks)

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """What the present one says. Thoughts are signed by who had them, and are told apart by
        the model's name: a stand-in of the first one's name (another account, another address)
        neither gets the first one's nor leaves any that would be taken for those."""
        client = self._client()
        namesake = self._current > 0 and client.name == self.name
        if namesake:
            messages = tuple(_unsigned_messages(request.messages))
            request = msgspec.structs.replace(request, messages=messages)
        async with aclosing(client.stream(request)) as events:
            async for event in events:
                if namesake and isinstance(event, Completed):
                    yield Completed(_unsigned_message(event.message), event.usage)
                else:
                    yield event

    def _client(self) -> ModelClient:
        """A stand-in is leased when it is first needed: most never are."""
        while self._current >= len(self._clients):
            self._clients.append(self._fallbacks[len(self._clients) - 1]())
        return self._clients[self._current]


def _unsigned_messages(messages: Iterable[Message]) -> Iterator[Message]:
    for message in messages:
        yield _unsigned_message(message) if isinstance(message, AssistantMessage) else message


def _unsigned_message(message: AssistantMessage) -> AssistantMessage:
    thoughts = tuple(msgspec.structs.replace(part, opaque=None) for part in message.reasoning)
    return msgspec.structs.replace(message, reasoning=thoughts)
