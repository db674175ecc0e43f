"""Commits the effect of a command, and publishes it after the commit."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import InboxEnd, InboxState
from holdfast.core.ports.store import Store
from holdfast.core.sessions.session import CommandEffect, CommandOutcome
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.outbound.post_commit import PostCommitPublisher

log = logging.getLogger(__name__)

RETRY_WAITS = (0.1, 0.5, 2.0)  # seconds; a disk that is full or busy is often not so a moment later


class EffectContext(Protocol):
    """The store that commits an effect, and the receivers of what was committed."""

    @property
    def store(self) -> Store: ...
    @property
    def publisher(self) -> PostCommitPublisher: ...
    @property
    def subscriptions(self) -> MessageSubscriptions: ...
    @property
    def feeds(self) -> SessionFeeds: ...


async def commit_effect(
    context: EffectContext,
    effect: CommandEffect,
    *,
    retry_waits: Sequence[float] = RETRY_WAITS,
    on_committed: Callable[[CommandOutcome], None] | None = None,
) -> CommandOutcome:
    """Commit what a command decided, and try again after each of these waits. The commit calls
    `on_committed`, even if the caller was cancelled meanwhile.

    Raises `StoreError` if every attempt failed: then nothing has happened.
    """
    for wait in retry_waits:
        try:
            return await _commit_once(context, effect, on_committed)
        except StoreError as error:
            log.error(
                "A command waits for the store: %s",
                error,
                extra={"action": "command_waiting_for_store"},
            )
            await asyncio.sleep(wait)
    return await _commit_once(context, effect, on_committed)


async def _commit_once(
    context: EffectContext,
    effect: CommandEffect,
    on_committed: Callable[[CommandOutcome], None] | None,
) -> CommandOutcome:
    """Published by the commit itself, so that what was committed first goes out first."""

    def settled(done: asyncio.Future[CommandOutcome]) -> None:
        if not done.cancelled() and done.exception() is None:
            if on_committed is not None:
                on_committed(done.result())
            _publish(context, effect, done.result())

    settling = asyncio.ensure_future(context.store.write(effect))
    settling.add_done_callback(settled)
    return await asyncio.shield(settling)


def _publish(context: EffectContext, effect: CommandEffect, outcome: CommandOutcome) -> None:
    dropped = [
        InboxEnd(inbox_id=inbox_id, state=InboxState.SUPERSEDED, reason="a new session was begun")
        for inbox_id in outcome.superseded
    ]
    ends = [*dropped, *effect.inbox_ends]
    if outcome.resubmitted is not None:
        # The subscribers of the command get the reply to the message that it resubmitted.
        context.subscriptions.open(outcome.resubmitted.id)
        for end in effect.inbox_ends:
            context.subscriptions.merge(end.inbox_id, into=outcome.resubmitted.id)
    context.publisher.messages_ended(ends, outcome.deliveries, session_id=effect.session_id)
    for session_id in (effect.session_id, effect.new_session):
        if session_id is not None:
            context.feeds.session_changed(session_id)
