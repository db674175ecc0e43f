"""The model and its fallbacks: when one fails for good, the next takes over the turn."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial

import msgspec

from holdfast.core.config.settings import FallbackModel, ModelSettings, Provider
from holdfast.core.messages.transcript import AssistantMessage, Message
from holdfast.core.ports.runtime import ModelClient
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import (
    Completed,
    FallbackUsed,
    ModelEvent,
    ModelFailed,
    ModelFault,
    ModelRequest,
)
from holdfast.models.local.server import find_model_file
from holdfast.models.pool import ModelPool
from holdfast.models.target import ModelTarget, make_target

log = logging.getLogger(__name__)

LeaseClient = Callable[[], ModelClient]


class FallbackClient:
    """Owns the leases on a model and its fallbacks.

    A fallback that took over keeps the rest of the turn: its tool calls are in progress, and
    trying the first model again at each step would cost one failure per step. The lease is
    released after that turn, and the next turn begins with the first model (A5).
    """

    __slots__ = ("_clients", "_current", "_fallbacks", "_released", "name")

    def __init__(self, first: ModelClient, *, fallbacks: Sequence[LeaseClient]) -> None:
        self.name = first.name
        self._clients = [first]
        self._fallbacks = fallbacks
        self._current = 0
        self._released = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the first model that does not fail, with a `FallbackUsed` before each next
        one.

        Raises the `ModelFailed` of the last model, or of the current one where the lease was
        released or the conversation is too long: another model seldom helps then.
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
                fallback = FallbackUsed(failed.text, self._client().name)
            log.warning(
                "%s Switching to %s.",
                fallback.why,
                fallback.model,
                extra={"action": "model_fell_back"},
            )
            yield fallback

    def release(self) -> None:
        self._released = True
        for client in self._clients:
            client.release()

    def _is_final(self, failed: ModelFailed) -> bool:
        too_long = failed.fault is ModelFault.CONTEXT_TOO_LONG
        return self._released or too_long or self._current == len(self._fallbacks)

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the current model. Reasoning is signed by its provider and identified by
        the model's name. A fallback with the name of the first model (another account or address)
        must not get the first one's signed reasoning, nor store its own under that name."""
        client = self._client()
        same_name = self._current > 0 and client.name == self.name
        if same_name:
            messages = tuple(_unsigned_messages(request.messages))
            request = msgspec.structs.replace(request, messages=messages)
        async with aclosing(client.stream(request)) as events:
            async for event in events:
                if same_name and isinstance(event, Completed):
                    yield Completed(_unsigned_message(event.message), event.usage)
                else:
                    yield event

    def _client(self) -> ModelClient:
        """A fallback is leased when it is first needed: most never are."""
        while self._current >= len(self._clients):
            self._clients.append(self._fallbacks[len(self._clients) - 1]())
        return self._clients[self._current]


def _unsigned_messages(messages: Iterable[Message]) -> Iterator[Message]:
    for message in messages:
        yield _unsigned_message(message) if isinstance(message, AssistantMessage) else message


def _unsigned_message(message: AssistantMessage) -> AssistantMessage:
    unsigned = tuple(msgspec.structs.replace(part, opaque=None) for part in message.reasoning)
    return msgspec.structs.replace(message, reasoning=unsigned)


class ModelLeases:
    """Owns the targets that `[model]` describes, and leases clients for them.

    The constructor raises `InvalidTarget` for the first model that could not be called: at the
    start, and not when the model is needed.
    """

    def __init__(
        self, settings: ModelSettings, pool: ModelPool, *, secrets: Mapping[str, Secret]
    ) -> None:
        self._pool = pool
        self.targets = tuple(model_targets(settings, secrets=secrets))

    def lease(self, override: str | None = None) -> ModelClient:
        """The model, or another of the same provider by name, with its fallbacks."""
        first, *others = self.targets
        named = msgspec.structs.replace(first, name=override or first.name)
        client = self._pool.lease(named)
        if not others:
            return client
        return FallbackClient(
            client, fallbacks=[partial(self._pool.lease, target) for target in others]
        )


def model_targets(settings: ModelSettings, *, secrets: Mapping[str, Secret]) -> list[ModelTarget]:
    """The model, then its fallbacks in order. Raises `InvalidTarget`."""
    targets = [make_target(settings, api_key=secrets.get("model.api_key"))]
    for index, fallback in enumerate(settings.fallbacks):
        key = secrets.get(f"model.fallbacks[{index}].api_key")
        targets.append(make_target(_fallback_settings(fallback, settings), api_key=key))
    for target in targets:
        if target.embedded:
            find_model_file(target.name)
    return targets


def _fallback_settings(fallback: FallbackModel, settings: ModelSettings) -> ModelSettings:
    """A fallback has the time limits of the model that it replaces."""
    return msgspec.structs.replace(
        settings,
        provider=Provider(fallback.provider),
        name=fallback.name,
        api_mode=fallback.api_mode,
        base_url=fallback.base_url,
        api_key=fallback.api_key,
        allow_unencrypted=fallback.allow_unencrypted,
        fallbacks=(),
    )
