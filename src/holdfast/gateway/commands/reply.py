"""Answering a command: the text, the effect and the end of its row in one commit."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import InboxEnd, InboxRow, InboxState
from holdfast.core.messages.outbox import DeliveryKind, NewDelivery
from holdfast.core.sessions.session import CommandEffect, Settled
from holdfast.gateway.services import House

log = logging.getLogger(__name__)

AGAIN = (0.1, 0.5, 2.0)  # seconds; a disk that is full or busy is often not so a moment later


def answer_to(house: House, row: InboxRow, text: str) -> tuple[InboxEnd, NewDelivery]:
    """The end of the command's row and the delivery that answers it."""
    reply = house.replies.to(row, text, kind=DeliveryKind.COMMAND)
    return InboxEnd(inbox_id=row.id, state=InboxState.ANSWERED), reply


async def answer(house: House, row: InboxRow, text: str, **effect: object) -> None:
    """Commit the effect with its answer, then tell it; `effect` are fields of `CommandEffect`."""
    await settle(house, prepare(house, row, text, **effect))


async def answer_with(
    house: House,
    row: InboxRow,
    *,
    kept: Callable[[Settled], None] | None = None,
    **effect: object,
) -> Settled:
    """As `answer`, where the effect itself words the answer when it commits."""
    return await settle(house, prepare(house, row, "", **effect), kept=kept)


async def refuse(house: House, row: InboxRow, why: str) -> None:
    """End the row as refused, and tell whoever asked why."""
    end = InboxEnd(inbox_id=row.id, state=InboxState.REFUSED, reason=why)
    await answer(house, row, why, inbox_ends=(end,))


def prepare(house: House, row: InboxRow, text: str, **effect: object) -> CommandEffect:
    end, reply = answer_to(house, row, text)
    plain = CommandEffect(
        inbox_ends=(end,), deliveries=(reply,), session_id=row.session_id, at=house.clock.now()
    )
    return msgspec.structs.replace(plain, **effect)


async def nothing() -> None:
    """For a command whose whole effect is there already, or commits with something else."""


async def settle(
    house: House,
    effect: CommandEffect,
    *,
    again: Sequence[float] = AGAIN,
    kept: Callable[[Settled], None] | None = None,
) -> Settled:
    """Commit what a command decided, and try again after each of these waits. The commit calls
    `kept`, whether or not anybody still waits for it.

    Raises `StoreError` where the store does not take it at all: then nothing has happened.
    """
    for wait in again:
        try:
            return await _settle(house, effect, kept)
        except StoreError as error:
            log.error("A command waits for the store: %s", error, extra={"action": "command"})
            await asyncio.sleep(wait)
    return await _settle(house, effect, kept)


async def _settle(
    house: House, effect: CommandEffect, kept: Callable[[Settled], None] | None
) -> Settled:
    """Announced by the commit itself, so that what was committed first goes out first."""

    def settled(done: asyncio.Future[Settled]) -> None:
        if not done.cancelled() and done.exception() is None:
            if kept is not None:
                kept(done.result())
            announce(house, effect, done.result())

    settling = asyncio.ensure_future(house.store.settle_command(effect))
    settling.add_done_callback(settled)
    return await asyncio.shield(settling)


def announce(house: House, effect: CommandEffect, settled: Settled) -> None:
    dropped = [
        InboxEnd(inbox_id=inbox_id, state=InboxState.SUPERSEDED, reason="a new session was begun")
        for inbox_id in settled.superseded
    ]
    ends = [*dropped, *effect.inbox_ends]
    if settled.again is not None:
        # Whoever waits for the command's answer waits for that of what it handed in.
        house.watchers.open(settled.again.id)
        for end in effect.inbox_ends:
            house.watchers.merge(end.inbox_id, into=settled.again.id)
    house.announcer.messages(ends, settled.deliveries, session_id=effect.session_id)
    for session_id in (effect.session_id, effect.new_session):
        if session_id is not None:
            house.feeds.changed(session_id)
