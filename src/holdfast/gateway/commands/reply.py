"""Commits the effect of a command together with its reply and the end of its row."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import InboxEnd, InboxRow, InboxState
from holdfast.core.messages.outbox import DeliveryKind, NewDelivery
from holdfast.core.sessions.session import CommandEffect, CommandOutcome
from holdfast.gateway.services import Services

log = logging.getLogger(__name__)

RETRY_WAITS = (0.1, 0.5, 2.0)  # seconds; a disk that is full or busy is often not so a moment later


def build_reply(services: Services, row: InboxRow, text: str) -> tuple[InboxEnd, NewDelivery]:
    """The end of the command's row and the delivery that answers it."""
    reply = services.delivery_factory.reply(row, text, kind=DeliveryKind.COMMAND)
    return InboxEnd(inbox_id=row.id, state=InboxState.ANSWERED), reply


async def send_reply(services: Services, row: InboxRow, text: str, **effect: object) -> None:
    """Commit the effect with its answer, then tell it; `effect` are fields of `CommandEffect`."""
    await commit_effect(services, prepare_effect(services, row, text, **effect))


async def send_effect_reply(
    services: Services,
    row: InboxRow,
    *,
    on_committed: Callable[[CommandOutcome], None] | None = None,
    **effect: object,
) -> CommandOutcome:
    """As `answer`, where the effect itself words the answer when it commits."""
    return await commit_effect(
        services, prepare_effect(services, row, "", **effect), on_committed=on_committed
    )


async def refuse(services: Services, row: InboxRow, why: str) -> None:
    """End the row as refused, and tell whoever asked why."""
    end = InboxEnd(inbox_id=row.id, state=InboxState.REFUSED, reason=why)
    await send_reply(services, row, why, inbox_ends=(end,))


def prepare_effect(services: Services, row: InboxRow, text: str, **effect: object) -> CommandEffect:
    end, reply = build_reply(services, row, text)
    plain = CommandEffect(
        inbox_ends=(end,), deliveries=(reply,), session_id=row.session_id, at=services.clock.now()
    )
    return msgspec.structs.replace(plain, **effect)


async def no_effect() -> None:
    """For a command whose whole effect is there already, or commits with something else."""


async def commit_effect(
    services: Services,
    effect: CommandEffect,
    *,
    retry_waits: Sequence[float] = RETRY_WAITS,
    on_committed: Callable[[CommandOutcome], None] | None = None,
) -> CommandOutcome:
    """Commit what a command decided, and try again after each of these waits. The commit calls
    `kept`, whether or not anybody still waits for it.

    Raises `StoreError` where the store does not take it at all: then nothing has happened.
    """
    for wait in retry_waits:
        try:
            return await _commit_once(services, effect, on_committed)
        except StoreError as error:
            log.error(
                "A command waits for the store: %s",
                error,
                extra={"action": "command_waiting_for_store"},
            )
            await asyncio.sleep(wait)
    return await _commit_once(services, effect, on_committed)


async def _commit_once(
    services: Services, effect: CommandEffect, on_committed: Callable[[CommandOutcome], None] | None
) -> CommandOutcome:
    """Announced by the commit itself, so that what was committed first goes out first."""

    def settled(done: asyncio.Future[CommandOutcome]) -> None:
        if not done.cancelled() and done.exception() is None:
            if on_committed is not None:
                on_committed(done.result())
            publish_effect(services, effect, done.result())

    settling = asyncio.ensure_future(services.store.write(effect))
    settling.add_done_callback(settled)
    return await asyncio.shield(settling)


def publish_effect(services: Services, effect: CommandEffect, outcome: CommandOutcome) -> None:
    dropped = [
        InboxEnd(inbox_id=inbox_id, state=InboxState.SUPERSEDED, reason="a new session was begun")
        for inbox_id in outcome.superseded
    ]
    ends = [*dropped, *effect.inbox_ends]
    if outcome.resubmitted is not None:
        # Whoever waits for the command's answer waits for that of what it handed in.
        services.subscriptions.open(outcome.resubmitted.id)
        for end in effect.inbox_ends:
            services.subscriptions.merge(end.inbox_id, into=outcome.resubmitted.id)
    services.publisher.messages_ended(ends, outcome.deliveries, session_id=effect.session_id)
    for session_id in (effect.session_id, effect.new_session):
        if session_id is not None:
            services.feeds.session_changed(session_id)
