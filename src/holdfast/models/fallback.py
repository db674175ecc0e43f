"""Fallback: when a model fails for good, the next one of a list takes the call over."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from holdfast.core.message import ToolMessage
from holdfast.core.model import FellBack, ModelEvent, ModelFailed, ModelRequest
from holdfast.core.ports import ModelClient

log = logging.getLogger(__name__)

Lease = Callable[[], ModelClient]


class FallbackClient:
    """Owns the leases on a model and on those that stand in for it.

    Whoever took over keeps the turn to its end: its tools are half-way through, and asking the
    first one again at each step would cost a failure a step. The next turn begins with the first.
    """

    __slots__ = ("_at", "_clients", "_leases", "_released", "name")

    def __init__(self, first: ModelClient, *, others: Sequence[Lease]) -> None:
        self.name = first.name
        self._clients = [first]
        self._leases = others
        self._at = 0
        self._released = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the first model that does not fail, a `FellBack` before each next one.

        Raises `ModelFailed` of the last, and of the present one where the call was let go.
        """
        place = self._at if isinstance(request.messages[-1], ToolMessage) else 0
        while True:
            try:
                async with aclosing(self._client(place).stream(request)) as events:
                    async for event in events:
                        yield event
                self._at = place
                return
            except ModelFailed as failed:
                if self._released or place == len(self._leases):
                    raise
                place += 1
                fallen = FellBack(str(failed), self._client(place).name)
            log.warning(
                "%s %s takes over.", fallen.why, fallen.model, extra={"action": "model_fell_back"}
            )
            yield fallen

    def release(self) -> None:
        self._released = True
        for client in self._clients:
            client.release()

    def _client(self, place: int) -> ModelClient:
        """A stand-in is leased when it is first needed: most never are."""
        while place >= len(self._clients):
            self._clients.append(self._leases[len(self._clients) - 1]())
        return self._clients[place]
