"""The configuration on the machine itself: what the command line asks over the control socket."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from aiohttp import web

from holdfast.config import ConfigError

if TYPE_CHECKING:
    from holdfast.server.config_editor import ConfigEditor

ACTOR = "command line"
_MAX_PAGE = 1000
_MAX_NUMBER = 1_000_000_000

T = TypeVar("T")


class ConfigHistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    before: Annotated[int, msgspec.Meta(ge=1, le=_MAX_NUMBER)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MAX_PAGE)] = 20


class ConfigHandlers:
    """Owns who changes the configuration, from the first question on: no start waits for it, and
    the event loop does not while it is imported."""

    def __init__(
        self, make_editor: "Callable[[], ConfigEditor]", *, ready: Callable[[], bool]
    ) -> None:
        self._make_editor = make_editor
        self._ready = ready
        self._editor: ConfigEditor | None = None

    async def _ready_editor(self) -> "ConfigEditor":
        if not self._ready():
            raise web.HTTPServiceUnavailable(text="the gateway is starting or stopping; try again")
        if self._editor is None:
            await asyncio.to_thread(import_module, "holdfast.server.config_editor")
        return self.editor

    @property
    def editor(self) -> "ConfigEditor":
        if self._editor is None:
            self._editor = self._make_editor()
        return self._editor

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/config", self._view),
            web.post("/config/set", self._set),
            web.post("/config/reload", self._reload),
            web.post("/config/rollback", self._roll_back),
            web.get("/config/history", self._history),
            web.get("/config/history/{number}", self._version),
        ]

    async def _view(self, request: web.Request) -> web.Response:
        return await _config_response((await self._ready_editor()).view())

    async def _set(self, request: web.Request) -> web.Response:
        configuring = await self._ready_editor()
        from holdfast.server.api.views.configuration_views import ConfigChange  # noqa: PLC0415 - see class

        asked = _decode_config_body(await request.read(), ConfigChange)
        return await _config_response(configuring.change(asked, by=ACTOR))

    async def _reload(self, request: web.Request) -> web.Response:
        return await _config_response((await self._ready_editor()).reload(by=ACTOR))

    async def _roll_back(self, request: web.Request) -> web.Response:
        configuring = await self._ready_editor()
        from holdfast.server.api.views.configuration_views import RollbackParams  # noqa: PLC0415 - see class

        asked = _decode_config_body(await request.read(), RollbackParams)
        return await _config_response(configuring.roll_back(asked, by=ACTOR))

    async def _history(self, request: web.Request) -> web.Response:
        try:
            asked = msgspec.convert(dict(request.query), ConfigHistoryPage, strict=False)
        except msgspec.ValidationError as error:
            raise web.HTTPBadRequest(text=f"this is no page: {error}") from None
        configuring = await self._ready_editor()
        return await _config_response(configuring.history(before=asked.before, limit=asked.limit))

    async def _version(self, request: web.Request) -> web.Response:
        number = request.match_info["number"]
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise web.HTTPNotFound(text=f"there is no configuration {number!r}")
        return await _config_response(
            (await self._ready_editor()).version(int(number), against=None)
        )


async def _config_response(result: Awaitable[object]) -> web.Response:
    from holdfast.config.editor import FileChangedMeanwhile  # noqa: PLC0415 - see the desk
    from holdfast.config.whole_file import FileNotWritten  # noqa: PLC0415 - see the desk
    from holdfast.server.config_editor import NoSuchConfigVersion, StaleRead  # noqa: PLC0415 - see the desk

    try:
        answer = await result
    except NoSuchConfigVersion as error:
        raise web.HTTPNotFound(text=str(error)) from None
    except (StaleRead, FileChangedMeanwhile, FileNotWritten) as error:
        raise web.HTTPConflict(text=str(error)) from None
    except ConfigError as error:
        raise web.HTTPUnprocessableEntity(text=str(error)) from None
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


def _decode_config_body(body: bytes, params_type: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=params_type)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None
