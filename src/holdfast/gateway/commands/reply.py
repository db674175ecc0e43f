"""Replies to commands: each commits with the effect of its command and the end of its row."""

from collections.abc import Callable

import msgspec

from holdfast.core.messages.inbox import InboxEnd, InboxRow, InboxState
from holdfast.core.messages.outbox import DeliveryKind, NewDelivery
from holdfast.core.sessions.session import CommandEffect, CommandOutcome
from holdfast.gateway.commands.context import ReplyContext


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


async def refuse(context: ReplyContext, row: InboxRow, why: str) -> None:
    """End the row as refused, and reply with the reason."""
    end = InboxEnd(inbox_id=row.id, state=InboxState.REFUSED, reason=why)
    await send_reply(context, row, why, inbox_ends=(end,))


def prepare_effect(
    context: ReplyContext, row: InboxRow, text: str, **effect: object
) -> CommandEffect:
    end, reply = build_reply(context, row, text)
    plain = CommandEffect(
        inbox_ends=(end,), deliveries=(reply,), session_id=row.session_id, at=context.clock.now()
    )
    return msgspec.structs.replace(plain, **effect)


async def no_effect() -> None:
    """For a command whose whole effect is there already, or commits with something else."""
