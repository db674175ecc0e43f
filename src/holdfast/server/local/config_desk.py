"""The configuration on the machine itself: what the command line asks over the control socket."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from aiohttp import web

from holdfast.config import ConfigError

if TYPE_CHECKING:
    from holdfast.server.config_editor import Configuring

BY = "command line"
_MOST = 1000
_LAST = 1_000_000_000

T = TypeVar("T")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    before: Annotated[int, msgspec.Meta(ge=1, le=_LAST)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = 20


class ConfigDesk:
    """Owns who changes the configuration, from the first question on: no start waits for it, and
    the event loop does not while it is imported."""

    def __init__(self, make: "Callable[[], Configuring]", *, ready: Callable[[], bool]) -> None:
        self._make = make
        self._ready = ready
        self._made: Configuring | None = None

    async def _asked(self) -> "Configuring":
        if not self._ready():
            raise web.HTTPServiceUnavailable(text="the gateway is starting or stopping; try again")
        if self._made is None:
            await asyncio.to_thread(import_module, "holdfast.server.config_editor")
        return self.configuring

    @property
    def configuring(self) -> "Configuring":
        if self._made is None:
            self._made = self._make()
        return self._made

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/config", self._view),
            web.post("/config/set", self._set),
            web.post("/config/reload", self._reload),
            web.post("/config/rollback", self._roll_back),
            web.get("/config/history", self._history),
            web.get("/config/history/{number}", self._one),
        ]

    async def _view(self, request: web.Request) -> web.Response:
        return await _answer((await self._asked()).view())

    async def _set(self, request: web.Request) -> web.Response:
        configuring = await self._asked()
        from holdfast.server.api.views.configuration_views import ConfigChange  # noqa: PLC0415 - see class

        asked = _read(await request.read(), ConfigChange)
        return await _answer(configuring.change(asked, by=BY))

    async def _reload(self, request: web.Request) -> web.Response:
        return await _answer((await self._asked()).reload(by=BY))

    async def _roll_back(self, request: web.Request) -> web.Response:
        configuring = await self._asked()
        from holdfast.server.api.views.configuration_views import RollbackAsked  # noqa: PLC0415 - see class

        asked = _read(await request.read(), RollbackAsked)
        return await _answer(configuring.roll_back(asked, by=BY))

    async def _history(self, request: web.Request) -> web.Response:
        try:
            asked = msgspec.convert(dict(request.query), Page, strict=False)
        except msgspec.ValidationError as error:
            raise web.HTTPBadRequest(text=f"this is no page: {error}") from None
        configuring = await self._asked()
        return await _answer(configuring.history(before=asked.before, limit=asked.limit))

    async def _one(self, request: web.Request) -> web.Response:
        number = request.match_info["number"]
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise web.HTTPNotFound(text=f"there is no configuration {number!r}")
        return await _answer((await self._asked()).one(int(number), against=None))


async def _answer(asked: Awaitable[object]) -> web.Response:
    from holdfast.config.editor import ChangedMeanwhile  # noqa: PLC0415 - see the desk
    from holdfast.config.whole_file import NotWritten  # noqa: PLC0415 - see the desk
    from holdfast.server.config_editor import NoSuchNumber, StaleRead  # noqa: PLC0415 - see the desk

    try:
        answer = await asked
    except NoSuchNumber as error:
        raise web.HTTPNotFound(text=str(error)) from None
    except (StaleRead, ChangedMeanwhile, NotWritten) as error:
        raise web.HTTPConflict(text=str(error)) from None
    except ConfigError as error:
        raise web.HTTPUnprocessableEntity(text=str(error)) from None
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None
