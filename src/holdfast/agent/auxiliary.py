"""Auxiliary model calls outside of the conversation: titles, summaries, image descriptions."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from holdfast.core.config.settings import KEY_VARIABLES, Provider, Settings, VisionMode
from holdfast.core.ids import SessionId
from holdfast.core.ports.runtime import ModelClient
from holdfast.core.turns.model import (
    AuxiliaryFailed,
    AuxiliaryTask,
    Completed,
    ModelFailed,
    ModelRequest,
    accepts_images,
    context_window,
)

LeaseClient = Callable[[str | None], ModelClient]


class _RunningCall:
    """A running call: its session, and its time limit, by which it can be ended."""

    __slots__ = ("_limit", "session_id")

    def __init__(self, session_id: SessionId, limit: asyncio.Timeout) -> None:
        self.session_id = session_id
        self._limit = limit

    def end(self) -> None:
        """End the call by setting its time limit to now; this also releases its client.
        Idempotent."""
        if not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())


class AuxiliaryClient:
    """Owns the clients of calls outside of a conversation: titles, summaries, image descriptions.

    Each call has a client of its own, which is released when the call ends (C9): at the latest when
    its session ends or the gateway stops.
    """

    name = "auxiliary client"

    def __init__(self, settings: Settings, *, lease: LeaseClient, model: str) -> None:
        self._calls: set[_RunningCall] = set()
        self._closed = False
        self.update_settings(settings, lease=lease, model=model)

    def update_settings(self, settings: Settings, *, lease: LeaseClient, model: str) -> None:
        """Use these settings for the next call; a running call keeps its client."""
        self._settings = settings.auxiliary
        self._model_settings = settings.model
        self._lease = lease
        self.model = self._settings.model or model

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def context_window(self) -> int:
        own = 0 if self._settings.model else self._model_settings.context_window
        return own or context_window(self.model)

    def is_enabled(self, task: AuxiliaryTask) -> bool:
        """Whether calls of this kind are made at all. The demo model can do none of them."""
        if self._model_settings.provider is Provider.DEMO:
            return False
        match task:
            case AuxiliaryTask.TITLE:
                return self._settings.titles and self._titles_are_free
            case AuxiliaryTask.SUMMARY:
                return self._settings.summaries
            case AuxiliaryTask.VISION:
                vision = VisionMode.AUTO if self._settings.model else self._model_settings.vision
                return self._settings.vision and accepts_images(self.model, vision)

    @property
    def _titles_are_free(self) -> bool:
        """Whether titles cost the user no waiting time. A local server often answers one request at
        a time and caches one prompt: there, a title would delay the next message, unless a separate
        model is configured for auxiliary calls."""
        hosted = (
            self._model_settings.provider in KEY_VARIABLES and not self._model_settings.base_url
        )
        return bool(self._settings.model) or hosted

    async def ask(
        self, task: AuxiliaryTask, request: ModelRequest, *, session_id: SessionId
    ) -> Completed:
        """Make one call and return the whole answer. Raises `AuxiliaryFailed` for any failure;
        never hangs."""
        if self._closed or not self.is_enabled(task):
            raise AuxiliaryFailed(
                "auxiliary calls of the kind {task} are turned off", task=task, retryable=False
            )
        client = self._lease(self._settings.model or None)
        try:
            async with asyncio.timeout(self._settings.timeout or None) as limit:
                call = _RunningCall(session_id, limit)
                self._calls.add(call)
                try:
                    return await _complete(client, request)
                finally:
                    self._calls.discard(call)
        except TimeoutError:
            raise AuxiliaryFailed(
                "{name} gave no {task} in time, or its session ended. The time limit is "
                "`timeout` under [auxiliary]",
                name=client.name,
                task=task,
                retryable=False,
            ) from None
        except ModelFailed as failed:
            raise AuxiliaryFailed("{error}", error=failed) from failed
        finally:
            client.release()

    async def end_session(self, session_id: SessionId) -> None:
        """End the calls of a session that has ended."""
        for call in tuple(self._calls):
            if call.session_id == session_id:
                call.end()

    async def close(self) -> None:
        """End all calls, and refuse new ones."""
        self._closed = True
        for call in tuple(self._calls):
            call.end()


async def _complete(client: ModelClient, request: ModelRequest) -> Completed:
    completed: Completed | None = None
    async with aclosing(client.stream(request)) as events:
        async for event in events:
            if isinstance(event, Completed):
                completed = event
    assert completed is not None, "the port promises that a stream ends with Completed"
    return completed
