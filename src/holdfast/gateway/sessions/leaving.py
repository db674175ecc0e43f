"""Leaving a session from outside its chat: its turn stopped, or all of it deleted."""

import asyncio
from contextlib import AsyncExitStack

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.people.audit import GATEWAY, Act, AuditKind
from holdfast.core.sessions.session import CommandEffect
from holdfast.gateway.commands.reply import settle
from holdfast.gateway.services import House
from holdfast.gateway.sessions.closing import Closing
from holdfast.gateway.turns.endings import superseded
from holdfast.gateway.turns.lanes import Lanes


async def stop(house: House, lanes: Lanes, session_id: SessionId, *, by: str = GATEWAY) -> bool:
    """What /stop does, without a message: True once it is durable, False: nothing was running."""
    lane = lanes.get(session_id)
    if lane is None:
        return False
    waiting = lane.drop_waiting()
    ends = tuple(superseded(waiting))
    async with AsyncExitStack() as stack:
        running = lane.answering
        if running is not None and running in house.watchers:
            events = await stack.enter_async_context(house.watchers.watch(running))
            if lane.stop(ends, (), by=by):
                async for _ in events:
                    pass
                return True
    if waiting:
        at = house.clock.now()
        try:
            effect = CommandEffect(inbox_ends=ends, by=by, session_id=session_id, at=at)
            await settle(house, effect, again=())  # whoever asked can ask again
        except StoreError:
            lanes.give_back(waiting, session_id)
            raise
    return bool(waiting)


async def delete(
    house: House, lanes: Lanes, closing: Closing, session_id: SessionId, *, by: str = GATEWAY
) -> None:
    """The session is gone when this returns, with its children, from the store, the search and
    the disk: no word of it can be read from a file of ours."""
    await stop(house, lanes, session_id, by=by)  # first: while it runs it may get more children
    for child in reversed(await house.store.descendants(session_id)):
        await _delete(house, lanes, closing, child.session_id, by=by)
    await _delete(house, lanes, closing, session_id, by=by)
    await house.store.scrub()


async def _delete(
    house: House, lanes: Lanes, closing: Closing, session_id: SessionId, *, by: str
) -> None:
    """Ended first, so that what is said meanwhile opens another session, and its rows last, so
    that one who is cut in the middle of this finds it there to delete."""
    await house.store.end_session(session_id, at=house.clock.now())
    while (lane := lanes.get(session_id)) is not None:
        await stop(house, lanes, session_id, by=by)
        if lane.task is not None:
            await asyncio.wait([lane.task])
    await closing.forget(session_id)
    inbox_ids = await house.store.inbox_of(session_id)
    kind, at = AuditKind.SESSION_DELETED, house.clock.now()
    act = Act(kind=kind, actor=by, at=at, session_id=session_id, subject=session_id)
    await house.store.acting(act).delete_session(session_id, inbox_ids=inbox_ids)
    await house.store.forget(session_id)
    house.feeds.deleted(session_id)
