"""Commands for operators: /restart, /pairing, /sethome."""

from collections.abc import Awaitable, Callable
from enum import Enum

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME, CommandRequest
from holdfast.core.config.settings import account_table
from holdfast.core.errors import RestartRefused
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address, DeliveryKind, DeliveryState
from holdfast.core.ports.runtime import Lifecycle
from holdfast.core.text.locale_format import format_long_duration
from holdfast.core.turns.stop import HomeChannel, StopKind, StopOrder, StopRequester
from holdfast.gateway.commands.context import AdminContext, ReplyContext
from holdfast.gateway.commands.reply import prepare_effect, send_reply
from holdfast.gateway.inbound.pairing import (
    CommitDecision,
    PairingDecision,
    PairingRefused,
    PairingService,
    person_with_name,
)
from holdfast.gateway.lifecycle.notices import NOTICE_EXPIRES_AFTER
from holdfast.gateway.notify.home_channels import format_chat_and_thread
from holdfast.gateway.outbound.delivery import reply_address

CANNOT_RESTART = "Nothing here can start the gateway again; restart it where it was started."
RESTARTING = "Restarting …"
_RUNNING = f"{RESTARTING} {{turns}} interrupted; I will try to resume what was being worked on."
_WHEN_IDLE = "The gateway restarts as soon as nothing runs; {turns} at work now."


class _RestartWhen(Enum):
    SOON = ""
    NOW = "now"
    IDLE = "when idle"


async def cmd_restart(context: AdminContext, request: CommandRequest) -> None:
    """Restart the gateway, now or when it is idle, if a successor can start. The reply is the
    shutdown notice of this chat: like all of these it is never sent by the next process."""
    words = " ".join(request.argument.lower().replace("-", " ").split())
    if words not in {when.value for when in _RestartWhen}:
        why = f"/restart knows no {request.argument!r}."
        await send_reply(context.replies, request.row, COMMANDS_BY_NAME["restart"].usage_error(why))
    elif context.lifecycle is None:
        await send_reply(context.replies, request.row, CANNOT_RESTART)
    else:
        await _restart(context, request.row, _RestartWhen(words), context.lifecycle)


async def _restart(
    context: AdminContext, row: InboxRow, when: _RestartWhen, lifecycle: Lifecycle
) -> None:
    notices = context.lifecycle_notices
    order = StopOrder(
        kind=StopKind.RESTART,
        by=StopRequester.CHAT,
        at=context.clock.now(),
        principal=row.principal,
        address=msgspec.structs.replace(reply_address(row), reply_to=row.inbound.message_id),
        language=row.inbound.source.language,
        now=when is _RestartWhen.NOW,
    )
    with notices.answering(order):
        try:
            await lifecycle.restart(order, when_idle=when is _RestartWhen.IDLE)
        except RestartRefused as error:
            await send_reply(context.replies, row, f"Not restarted: {error}")
            return
        if when is _RestartWhen.IDLE and (running := notices.running_turns):
            await send_reply(context.replies, row, _WHEN_IDLE.format(turns=_turns(running)))
        else:
            await _reply_restarting(context, row, order)


async def _reply_restarting(context: AdminContext, row: InboxRow, order: StopOrder) -> None:
    running = context.lifecycle_notices.running_turns
    text = _RUNNING.format(turns=_turns(running)) if running else RESTARTING
    plain = prepare_effect(context.replies, row, text)
    (reply,) = plain.deliveries
    sent = reply.state is DeliveryState.PENDING  # else the sender fetches it
    notice = msgspec.structs.replace(
        reply,
        address=order.address,
        kind=DeliveryKind.SHUTDOWN_NOTICE if sent else DeliveryKind.COMMAND,
        expires_at=plain.at + NOTICE_EXPIRES_AFTER if sent else None,
    )
    await context.replies.effects.commit(msgspec.structs.replace(plain, deliveries=(notice,)))
    context.lifecycle_notices.mark_answered(order)


def _turns(running: int) -> str:
    return "1 turn is" if running == 1 else f"{running} turns are"


_NO_PENDING_REQUESTS = (
    "Nobody waits to be let in. Whoever writes to me privately and is not known gets a code; "
    "/pairing approve CODE lets them in."
)
_HOW = "/pairing approve CODE lets in whose code it is: ask them for it."
_PEOPLE = "Let in by a code:"


async def cmd_pairing(
    replies: ReplyContext, pairing: PairingService, request: CommandRequest
) -> None:
    """List pairing requests and paired users; approve, deny or revoke. A decision is committed
    together with the end of the command's row."""
    verb, _, who = request.argument.partition(" ")
    who, by = who.strip(), PrincipalId(request.row.principal)
    match verb.lower():
        case "":
            await send_reply(replies, request.row, _pairing_list(pairing, now=replies.clock.now()))
        case "approve":
            await _decide(replies, request, lambda save: pairing.approve(who, by=by, commit=save))
        case "deny":
            await _decide(replies, request, lambda save: pairing.deny(who, by=by, commit=save))
        case "revoke":
            await _decide(replies, request, lambda save: pairing.revoke(who, by=by, commit=save))
        case _:
            wrong = COMMANDS_BY_NAME["pairing"].usage_error(f"/pairing knows no {verb!r}.")
            await send_reply(replies, request.row, wrong)


async def _decide(
    replies: ReplyContext,
    request: CommandRequest,
    decide: Callable[[CommitDecision], Awaitable[PairingDecision]],
) -> None:
    async def save(decided: PairingDecision) -> None:
        effect = prepare_effect(replies, request.row, decided.text, pairing=decided.change)
        await replies.effects.commit(effect)

    try:
        await decide(save)
    except PairingRefused as refused:
        await send_reply(replies, request.row, str(refused))


def _pairing_list(pairing: PairingService, *, now: float) -> str:
    lines = [
        f"{person_with_name(each)} waits, for {format_long_duration(each.expires_at - now)} more."
        for each in pairing.pending()
    ]
    lines = [*lines, _HOW] if lines else [_NO_PENDING_REQUESTS]
    people = [f"- {person_with_name(each)}" for each in pairing.paired_users.users()]
    return "\n".join([*lines, *([_PEOPLE, *people] if people else [])])


SETHOME_OFF = "off"
_HOME_SET = (
    "This chat is the home channel of {account} now: it is told when the gateway stops, restarts "
    "and is back. /sethome off ends that."
)
_HOME_SILENT = " Nothing is told yet: {table}.restart_notices is off."
_HOME_QUIET = " Nothing is told yet: it is to be quiet here. /quiet off ends that."
_NO_HOME = "{account} has no home channel now: /sethome in a chat makes it one."
_HOME_CONFIGURED = (
    "The home channel of {account} is {place} now, as {table}.home says; take that out of "
    "the configuration to have none."
)
_HOME_FETCHED = (
    "This chat cannot be a home channel: nothing is sent here by itself. Say /sethome in a chat "
    "of a platform that brings messages."
)


async def cmd_sethome(context: AdminContext, request: CommandRequest) -> None:
    """Make this chat the home channel, which gets notices about the gateway; or not."""
    replies, row, word = context.replies, request.row, request.argument.lower()
    here = msgspec.structs.replace(reply_address(row), reply_to=None)
    if word == SETHOME_OFF:
        effect = prepare_effect(replies, row, _unset_home_text(context, here), unset_home=here)
        await replies.effects.commit(
            effect, on_committed=lambda _: context.home_channels.unset_home(here)
        )
    elif word:
        why = f"/sethome knows no {request.argument!r}."
        await send_reply(replies, row, COMMANDS_BY_NAME["sethome"].usage_error(why))
    elif replies.delivery_factory.is_fetched(row):
        await send_reply(replies, row, _HOME_FETCHED)
    else:
        home = HomeChannel(address=here, set_by=row.principal, at=context.clock.now())
        effect = prepare_effect(replies, row, _set_home_text(context, here), home=home)
        await replies.effects.commit(
            effect, on_committed=lambda _: context.home_channels.set_home(home)
        )


def _set_home_text(context: AdminContext, here: Address) -> str:
    account = context.live_settings.current.account(here.platform, here.account)
    silent = account is not None and not account.restart_notices
    text = _HOME_SET.format(account=_account_name(here))
    if context.quiet_chats.is_quiet_chat(here.platform, here.account, here.chat_id):
        return text + _HOME_QUIET
    table = account_table(here.platform, here.account)
    return text + (_HOME_SILENT.format(table=table) if silent else "")


def _unset_home_text(context: AdminContext, here: Address) -> str:
    configured = context.home_channels.configured(here)
    if configured is None:
        return _NO_HOME.format(account=_account_name(here))
    return _HOME_CONFIGURED.format(
        account=_account_name(here),
        table=account_table(here.platform, here.account),
        place=format_chat_and_thread(configured.address),
    )


def _account_name(address: Address) -> str:
    usual = address.account == "default"
    return address.platform if usual else f"{address.platform}:{address.account}"
