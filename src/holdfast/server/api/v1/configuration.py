"""The configuration over HTTP: looked at, changed, and put back to an earlier one."""

from collections.abc import Awaitable
from typing import Annotated, TypeVar

import msgspec
from aiohttp import web

from holdfast.config import ConfigError
from holdfast.config.editor import ChangedMeanwhile
from holdfast.config.whole_file import NotWritten
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import Refused, conflict, not_found
from holdfast.server.api.room import Room
from holdfast.server.api.views.configuration_views import ConfigChange, Number, RollbackAsked
from holdfast.server.config_editor import NoSuchNumber, StaleRead

BY = "owner"  # nobody else may
T = TypeVar("T")


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    before: Number | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


class AgainstQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    against: Number | None = None


async def read_config(room: Room, call: Call[NoQuery, None]) -> web.Response:
    return room.say(await room.config_desk.configuring.view())


async def change_config(room: Room, call: Call[NoQuery, ConfigChange]) -> web.Response:
    changing = room.config_desk.configuring.change(call.body, by=BY)
    return room.say(await _told(changing))


async def reload_config(room: Room, call: Call[NoQuery, None]) -> web.Response:
    return room.say(await _told(room.config_desk.configuring.reload(by=BY)))


async def roll_back(room: Room, call: Call[NoQuery, RollbackAsked]) -> web.Response:
    rolling = room.config_desk.configuring.roll_back(call.body, by=BY)
    return room.say(await _told(rolling))


async def list_history(room: Room, call: Call[HistoryQuery, None]) -> web.Response:
    """The newest first."""
    asked = call.query
    configuring = room.config_desk.configuring
    return room.say(await configuring.history(before=asked.before, limit=asked.limit))


async def read_kept(room: Room, call: Call[AgainstQuery, None]) -> web.Response:
    name = call.part("number")
    if not (name.isascii() and name.isdigit() and len(name) <= 9):
        raise not_found(f"there is no configuration {name!r}; GET /api/v1/config/history has all.")
    looking = room.config_desk.configuring.one(int(name), against=call.query.against)
    return room.say(await _told(looking))


async def _told(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except NoSuchNumber as error:
        raise not_found(str(error)) from None
    except (StaleRead, ChangedMeanwhile) as error:
        raise conflict(str(error), code="changed_meanwhile") from None
    except NotWritten as error:
        raise conflict(str(error), code="not_written") from None
    except ConfigError as error:
        raise Refused(422, str(error), code="invalid_config") from None
