"""Leaving a session from outside its chat: its turn stopped, or all of it deleted."""

import asyncio
from contextlib import AsyncExitStack

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditEntry, AuditKind
from holdfast.core.sessions.session import CommandEffect
from holdfast.gateway.commands.reply import commit_effect
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.closing import SessionTeardown
from holdfast.gateway.turns.endings import superseded_ends
from holdfast.gateway.turns.lanes import Lanes


async def stop_session(
    services: Services, lanes: Lanes, session_id: SessionId, *, by: str = GATEWAY_ACTOR
) -> bool:
    """What /stop does, without a message: True once it is durable, False: nothing was running."""
    lane = lanes.get(session_id)
    if lane is None:
        return False
    waiting = lane.drop_waiting_messages()
    ends = tuple(superseded_ends(waiting))
    async with AsyncExitStack() as stack:
        running = lane.answering
        if running is not None and running in services.subscriptions:
            events = await stack.enter_async_context(services.subscriptions.subscribe(running))
            if lane.stop(ends, (), by=by):
                async for _ in events:
                    pass
                return True
    if waiting:
        at = services.clock.now()
        try:
            effect = CommandEffect(inbox_ends=ends, by=by, session_id=session_id, at=at)
            await commit_effect(services, effect, retry_waits=())  # whoever asked can ask again
        except StoreError:
            lanes.readmit(waiting, session_id)
            raise
    return bool(waiting)


async def delete_session(
    services: Services,
    lanes: Lanes,
    teardown: SessionTeardown,
    session_id: SessionId,
    *,
    by: str = GATEWAY_ACTOR,
) -> None:
    """The session is gone when this returns, with its children, from the store, the search and
    the disk: no word of it can be read from a file of ours."""
    await stop_session(
        services, lanes, session_id, by=by
    )  # first: while it runs it may get more children
    for child in reversed(await services.store.subagents_below(session_id)):
        await _delete_one_session(services, lanes, teardown, child.session_id, by=by)
    await _delete_one_session(services, lanes, teardown, session_id, by=by)
    await services.store.erase_deleted()


async def _delete_one_session(
    services: Services, lanes: Lanes, teardown: SessionTeardown, session_id: SessionId, *, by: str
) -> None:
    """Ended first, so that what is said meanwhile opens another session, and its rows last, so
    that one who is cut in the middle of this finds it there to delete."""
    await services.store.end_session(session_id, at=services.clock.now())
    while (lane := lanes.get(session_id)) is not None:
        await stop_session(services, lanes, session_id, by=by)
        if lane.task is not None:
            await asyncio.wait([lane.task])
    await teardown.forget(session_id)
    inbox_ids = await services.store.session_inbox_ids(session_id)
    kind, at = AuditKind.SESSION_DELETED, services.clock.now()
    act = AuditEntry(kind=kind, actor=by, at=at, session_id=session_id, subject=session_id)
    await services.store.audited(act).delete_session(session_id, inbox_ids=inbox_ids)
    await services.store.unindex_session(session_id)
    services.feeds.session_deleted(session_id)
