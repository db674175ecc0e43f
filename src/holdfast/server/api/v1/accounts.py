"""Accounts of platforms over HTTP: how each stands; pausing, resuming and checking one."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from holdfast.core.ops.account import NoSuchAccount
from holdfast.core.ops.facts import PlatformFacts
from holdfast.gateway.accounts.accounts import NotPausable
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.room import Room
from holdfast.server.api.views.account_views import account_list, account_view

Asked = Call[NoQuery, None]


async def list_accounts(room: Room, call: Asked) -> web.Response:
    return room.say(account_list(room.gateway.accounts.facts(), now=room.clock.now()))


async def pause_account(room: Room, call: Asked) -> web.Response:
    """It stays paused over a restart; no turn is cut by it, and what is owed there waits."""
    return await _done(room, call, room.gateway.accounts.pause)


async def resume_account(room: Room, call: Asked) -> web.Response:
    """Also one that was refused, or that waits for its next try, is tried now."""
    return await _done(room, call, room.gateway.accounts.resume)


async def check_account(room: Room, call: Asked) -> web.Response:
    return await _done(room, call, room.gateway.accounts.check)


async def _done(
    room: Room, call: Asked, do: Callable[[str, str], Awaitable[PlatformFacts]]
) -> web.Response:
    try:
        facts = await do(call.part("name"), call.part("account"))
    except NoSuchAccount as error:
        raise not_found(str(error)) from None
    except NotPausable as error:
        raise conflict(str(error), code="not_pausable") from None
    return room.say(account_view(facts, now=room.clock.now()))
