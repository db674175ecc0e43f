"""The configuration over HTTP: read, change, reload, history, roll back."""

from collections.abc import Awaitable
from typing import Annotated, TypeVar

import msgspec
from aiohttp import web

from holdfast.config import ConfigError
from holdfast.config.editor import FileChangedMeanwhile
from holdfast.config.files import FileNotWritten
from holdfast.core.config.versions import ReloadResult
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery
from holdfast.server.api.errors import EndpointError, conflict, not_found
from holdfast.server.api.views.config import (
    ConfigChange,
    ConfigChangeResult,
    ConfigNumber,
    ConfigVersionDetail,
    ConfigVersionList,
    ConfigView,
    RollbackParams,
)
from holdfast.server.config_editor import NoSuchConfigVersion, StaleRead

ACTOR = "owner"
T = TypeVar("T")


class ConfigHistoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    before: ConfigNumber | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20


class ConfigDiffQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    against: ConfigNumber | None = None


async def read_config(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    return context.respond(await context.config.editor.view())


async def change_config(context: ApiContext, call: ApiCall[NoQuery, ConfigChange]) -> web.Response:
    changing = context.config.editor.change(call.body, by=ACTOR)
    return context.respond(await _map_errors(changing))


async def reload_config(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    return context.respond(await _map_errors(context.config.editor.reload(by=ACTOR)))


async def roll_back_config(
    context: ApiContext, call: ApiCall[NoQuery, RollbackParams]
) -> web.Response:
    rolling = context.config.editor.roll_back(call.body, by=ACTOR)
    return context.respond(await _map_errors(rolling))


async def list_config_history(
    context: ApiContext, call: ApiCall[ConfigHistoryQuery, None]
) -> web.Response:
    """The newest first."""
    asked = call.query
    editor = context.config.editor
    return context.respond(await editor.history(before=asked.before, limit=asked.limit))


async def read_config_version(
    context: ApiContext, call: ApiCall[ConfigDiffQuery, None]
) -> web.Response:
    name = call.path_param("number")
    if not (name.isascii() and name.isdigit() and len(name) <= 9):
        raise not_found(
            "There is no configuration {number!r}; GET /api/v1/config/history lists them.",
            number=name,
        )
    looking = context.config.editor.version(int(name), against=call.query.against)
    return context.respond(await _map_errors(looking))


async def _map_errors(result: Awaitable[T]) -> T:
    try:
        return await result
    except NoSuchConfigVersion as error:
        raise not_found(error) from None
    except (StaleRead, FileChangedMeanwhile) as error:
        raise conflict(error, code="changed_meanwhile") from None
    except FileNotWritten as error:
        raise conflict(error, code="not_written") from None
    except ConfigError as error:
        raise EndpointError(422, error, code="invalid_config") from None


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/config",
        summary="Every key: its value, where it was set, and when a change takes effect.",
        handler=read_config,
        read_only=True,
        response_type=ConfigView,
    ),
    Endpoint(
        method="PATCH",
        path="/config",
        summary="Set or remove keys of holdfast.toml; checked, then applied.",
        handler=change_config,
        read_only=False,
        request_type=ConfigChange,
        response_type=ConfigChangeResult,
        error_statuses=(409, 422),
    ),
    Endpoint(
        method="POST",
        path="/config/reload",
        summary="Read the file again and apply it; some keys need a restart.",
        handler=reload_config,
        read_only=False,
        response_type=ReloadResult,
        error_statuses=(422,),
    ),
    Endpoint(
        method="GET",
        path="/config/history",
        summary="The versions of the configuration, the newest first.",
        handler=list_config_history,
        read_only=True,
        query=ConfigHistoryQuery,
        response_type=ConfigVersionList,
    ),
    Endpoint(
        method="GET",
        path="/config/history/{number}",
        summary="One version: its text, and the difference to the one before it or to another.",
        handler=read_config_version,
        read_only=True,
        query=ConfigDiffQuery,
        response_type=ConfigVersionDetail,
        error_statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/config/rollback",
        summary="Roll back to an earlier version: checked by the current rules, with a new number.",
        handler=roll_back_config,
        read_only=False,
        request_type=RollbackParams,
        response_type=ConfigChangeResult,
        error_statuses=(404, 409, 422),
    ),
)
