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
from holdfast.core.text.translation import _, _n
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


class _RestartWhen(Enum):
    SOON = ""
    NOW = "now"
    IDLE = "when idle"


async def cmd_restart(context: AdminContext, request: CommandRequest) -> None:
    """Restart the gateway, now or when it is idle, if a successor can start. The reply is the
    shutdown notice of this chat: as every shutdown notice, it is never sent by the next process."""
    words = " ".join(request.argument.lower().replace("-", " ").split())
    if words not in {when.value for when in _RestartWhen}:
        wrong = COMMANDS_BY_NAME["restart"].unknown_argument(request.argument)
        await send_reply(context.replies, request.row, wrong)
    elif context.lifecycle is None:
        text = _(
            "This gateway cannot restart itself. Restart it where it was started, for example "
            "in its terminal."
        )
        await send_reply(context.replies, request.row, text)
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
            text = _("Not restarted: {reason}").format(reason=error.for_person())
            await send_reply(context.replies, row, text)
            return
        if when is _RestartWhen.IDLE and (running := notices.running_turns):
            await send_reply(context.replies, row, _when_idle_text(running))
        else:
            await _reply_restarting(context, row, order)


async def _reply_restarting(context: AdminContext, row: InboxRow, order: StopOrder) -> None:
    text = _restarting_text(context.lifecycle_notices.running_turns)
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


def _when_idle_text(running: int) -> str:
    return _n(
        "The gateway restarts as soon as it is idle; {n} turn is running now.",
        "The gateway restarts as soon as it is idle; {n} turns are running now.",
        running,
    ).format(n=running)


def _restarting_text(running: int) -> str:
    if not running:
        return _("The gateway is restarting.")
    return _n(
        "The gateway is restarting. {n} turn is running; I will try to resume it.",
        "The gateway is restarting. {n} turns are running; I will try to resume them.",
        running,
    ).format(n=running)


async def cmd_pairing(
    replies: ReplyContext, pairing: PairingService, request: CommandRequest
) -> None:
    """List pairing requests and paired users; approve, deny or revoke. A decision is committed
    together with the end of the command's row."""
    verb, _space, who = request.argument.partition(" ")
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
            wrong = COMMANDS_BY_NAME["pairing"].unknown_argument(verb)
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
        await send_reply(replies, request.row, refused.for_person())


def _pairing_list(pairing: PairingService, *, now: float) -> str:
    lines = [
        _("{person} asks for access; the code is valid for {duration}.").format(
            person=person_with_name(each),
            duration=format_long_duration(each.expires_at - now),
        )
        for each in pairing.pending()
    ]
    if lines:
        how = _("Ask the person for their code, then send {command}.")
    else:
        how = _(
            "No access requests. People who write to me in a direct chat and are not known get a "
            "code; {command} gives access to the person with that code."
        )
    lines.append(how.format(command="/pairing approve CODE"))
    people = [f"- {person_with_name(each)}" for each in pairing.paired_users.users()]
    if people:
        lines += [_("Paired users:"), *people]
    return "\n".join(lines)


SETHOME_OFF = "off"


async def cmd_sethome(context: AdminContext, request: CommandRequest) -> None:
    """Make this chat the home channel, which gets notices about the gateway; or not."""
    replies, row, word = context.replies, request.row, request.argument.lower()
    here = msgspec.structs.replace(reply_address(row), reply_to=None)
    if word == SETHOME_OFF:
        effect = prepare_effect(replies, row, _unset_home_text(context, here), unset_home=here)
        await replies.effects.commit(
            effect, on_committed=lambda _outcome: context.home_channels.unset_home(here)
        )
    elif word:
        wrong = COMMANDS_BY_NAME["sethome"].unknown_argument(request.argument)
        await send_reply(replies, row, wrong)
    elif replies.delivery_factory.is_fetched(row):
        text = _(
            "This chat cannot be a home channel, because nothing can be sent to it unasked. Use "
            "/sethome in a chat of a messaging platform."
        )
        await send_reply(replies, row, text)
    else:
        home = HomeChannel(address=here, set_by=row.principal, at=context.clock.now())
        effect = prepare_effect(replies, row, _set_home_text(context, here), home=home)
        await replies.effects.commit(
            effect, on_committed=lambda _outcome: context.home_channels.set_home(home)
        )


def _set_home_text(context: AdminContext, here: Address) -> str:
    account = context.live_settings.current.account(here.platform, here.account)
    text = _(
        "This chat is now the home channel of {account}: it gets a notice when the gateway stops, "
        "restarts and is back. /sethome off ends that."
    ).format(account=_account_name(here))
    if context.quiet_chats.is_quiet_chat(here.platform, here.account, here.chat_id):
        silent = _("No notices are sent yet, because this chat is quiet. /quiet off changes that.")
    elif account is not None and not account.restart_notices:
        silent = _("No notices are sent yet, because {key} is off.").format(
            key=f"{account_table(here.platform, here.account)}.restart_notices"
        )
    else:
        return text
    return f"{text} {silent}"


def _unset_home_text(context: AdminContext, here: Address) -> str:
    configured = context.home_channels.configured(here)
    if configured is None:
        return _("{account} has no home channel now. /sethome in a chat makes it one.").format(
            account=_account_name(here)
        )
    return _(
        "The home channel of {account} is now {place}, as {key} says. Remove that key from the "
        "configuration to have none."
    ).format(
        account=_account_name(here),
        key=f"{account_table(here.platform, here.account)}.home",
        place=format_chat_and_thread(configured.address),
    )


def _account_name(address: Address) -> str:
    usual = address.account == "default"
    return address.platform if usual else f"{address.platform}:{address.account}"
