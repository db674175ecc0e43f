"""Departing: a stop or a restart asked for on the machine itself, and followed to its end."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from aiohttp import web

from holdfast.core.ports.protocols import Clock, Lifecycle
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.server.api.views.departing_views import RestartMode, RestartParams, StopParams
from holdfast.server.local.progress import LifecycleProgress

Asked = TypeVar("Asked")

# Gives what a successor needs to the one that waits at the path, and goes; or says which
# supervisor is to be asked instead.
HandOver = Callable[[Path, StopOrder], Awaitable[str]]


class HandoverParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: str  # a private socket of the successor, in the home's folder of sockets


class LifecycleHandlers:
    """What the control socket lets the owner of the home do to the process.

    An answer is a stream of JSON lines, a phase each. It ends when the control socket does: that
    is near the end of the stop and not the end itself, which only the kernel can tell.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        *,
        hand_over: HandOver,
        progress: LifecycleProgress,
        clock: Clock,
    ) -> None:
        self._lifecycle = lifecycle
        self._hand_over = hand_over
        self._progress = progress
        self._clock = clock

    def close(self) -> None:
        self._progress.close()

    async def stop(self, request: web.Request) -> web.StreamResponse:
        asked = await _decode_body(request, StopParams)
        self._lifecycle.stop(self._stop_order(StopKind.STOP, now=asked.now))
        return await self._stream_progress(request)

    async def restart(self, request: web.Request) -> web.StreamResponse:
        asked = await _decode_body(request, RestartParams)
        order = self._stop_order(StopKind.RESTART, now=asked.mode is RestartMode.NOW)
        await self._lifecycle.restart(order, when_idle=asked.mode is RestartMode.WHEN_IDLE)
        return await self._stream_progress(request)

    async def handover(self, request: web.Request) -> web.StreamResponse:
        """For a successor that waits: see `system/socket_handover.py`."""
        asked = await _decode_body(request, HandoverParams)
        order = StopOrder(kind=StopKind.REPLACE, by=StopRequester.SUCCESSOR, at=self._clock.now())
        if supervisor := await self._hand_over(Path(asked.to), order):
            return web.json_response({"supervisor": supervisor})
        return await self._stream_progress(request)

    def _stop_order(self, kind: StopKind, *, now: bool) -> StopOrder:
        return StopOrder(kind=kind, by=StopRequester.CLI, at=self._clock.now(), now=now)

    async def _stream_progress(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        async for phase in self._progress.follow():
            await response.write(msgspec.json.encode({"phase": phase}) + b"\n")
        return response


async def _decode_body(request: web.Request, params_type: type[Asked]) -> Asked:
    try:
        return msgspec.json.decode(await request.read() or b"{}", type=params_type)
    except msgspec.DecodeError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None
