"""Platform accounts over HTTP: list, pause, resume, check."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from holdfast.core.ops.account import NoSuchAccount
from holdfast.core.ops.status import AccountStatus
from holdfast.gateway.accounts.accounts import NotPausable
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.views.gateway import AccountList, AccountView, account_list, account_view

AccountCall = ApiCall[NoQuery, None]


async def list_accounts(context: ApiContext, call: AccountCall) -> web.Response:
    return context.respond(
        account_list(context.gateway.accounts.statuses(), now=context.runtime.clock.now())
    )


async def pause_account(context: ApiContext, call: AccountCall) -> web.Response:
    """It stays paused over a restart; no turn is interrupted, and its deliveries wait."""
    return await _run_action(context, call, context.gateway.accounts.pause)


async def resume_account(context: ApiContext, call: AccountCall) -> web.Response:
    """A blocked account, or one that waits for its next attempt, is tried now too."""
    return await _run_action(context, call, context.gateway.accounts.resume)


async def check_account(context: ApiContext, call: AccountCall) -> web.Response:
    return await _run_action(context, call, context.gateway.accounts.check)


async def _run_action(
    context: ApiContext, call: AccountCall, action: Callable[[str, str], Awaitable[AccountStatus]]
) -> web.Response:
    try:
        status = await action(call.path_param("name"), call.path_param("account"))
    except NoSuchAccount as error:
        raise not_found(error) from None
    except NotPausable as error:
        raise conflict(error, code="not_pausable") from None
    return context.respond(account_view(status, now=context.runtime.clock.now()))


_ACCOUNT = "/platforms/{name}/{account}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/platforms",
        summary="Every account of every platform: whether it is connected, and if not, why.",
        handler=list_accounts,
        read_only=True,
        response_type=AccountList,
    ),
    Endpoint(
        method="POST",
        path=f"{_ACCOUNT}/pause",
        summary="Disconnect an account until it is resumed. No turn is interrupted.",
        handler=pause_account,
        read_only=False,
        response_type=AccountView,
        error_statuses=(404, 409),
    ),
    Endpoint(
        method="POST",
        path=f"{_ACCOUNT}/resume",
        summary="Connect an account that is paused or blocked, or that waits for its next attempt.",
        handler=resume_account,
        read_only=False,
        response_type=AccountView,
        error_statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path=f"{_ACCOUNT}/check",
        summary="Make a round trip to an account now, or try to connect it, and report the result.",
        handler=check_account,
        read_only=False,
        response_type=AccountView,
        error_statuses=(404,),
    ),
)
