"""Replies to commands: each commits with the effect of its command and the end of its row."""

from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

import msgspec

from holdfast.core.errors import NotAllowed
from holdfast.core.messages.inbox import InboxEnd, InboxRow, InboxState
from holdfast.core.messages.outbox import DeliveryKind, NewDelivery
from holdfast.core.sessions.session import CommandEffect, CommandOutcome
from holdfast.gateway.commands.context import ReplyContext

T = TypeVar("T")


def build_reply(context: ReplyContext, row: InboxRow, text: str) -> tuple[InboxEnd, NewDelivery]:
    """The end of the command's row and the delivery that answers it."""
    reply = context.delivery_factory.reply(row, text, kind=DeliveryKind.COMMAND)
    return InboxEnd(inbox_id=row.id, state=InboxState.ANSWERED), reply


async def send_reply(context: ReplyContext, row: InboxRow, text: str, **effect: object) -> None:
    """Commit the effect with its reply, then send it; `effect` are fields of `CommandEffect`."""
    await context.effects.commit(prepare_effect(context, row, text, **effect))


async def send_effect_reply(
    context: ReplyContext,
    row: InboxRow,
    *,
    on_committed: Callable[[CommandOutcome], None] | None = None,
    **effect: object,
) -> CommandOutcome:
    """As `send_reply`, where the effect itself words the reply when it commits."""
    return await context.effects.commit(
        prepare_effect(context, row, "", **effect), on_committed=on_committed
    )


async def refuse(context: ReplyContext, row: InboxRow, why: NotAllowed) -> None:
    """End the row as refused, and reply with the reason."""
    end = InboxEnd(inbox_id=row.id, state=InboxState.REFUSED, reason=str(why))
    await send_reply(context, row, why.for_person(), inbox_ends=(end,))


def prepare_effect(
    context: ReplyContext, row: InboxRow, text: str, **effect: object
) -> CommandEffect:
    end, reply = build_reply(context, row, text)
    plain = CommandEffect(
        inbox_ends=(end,),
        source=row.inbound.source,
        deliveries=(reply,),
        session_id=row.session_id,
        at=context.clock.now(),
    )
    return msgspec.structs.replace(plain, **effect)


def in_this_language(reply: Callable[[T], str]) -> Callable[[T], str]:
    """For a reply that the commit words: it is called in another thread, which has the language of
    no chat."""
    context = copy_context()
    return lambda outcome: context.run(reply, outcome)


async def no_effect() -> None:
    """For a command that has done everything already, or whose effect commits with another."""
