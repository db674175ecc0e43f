"""The sessions: which one a route goes on in, and when a fresh one takes its place."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import tzinfo
from typing import Any

from holdfast.core.config.settings import SessionSettings, Settings
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import PrincipalId, SessionId, SessionKey
from holdfast.core.messages.inbox import InboxRow, Pointed
from holdfast.core.messages.message import NoteMessage
from holdfast.core.messages.source import Source, build_session_key, is_shared
from holdfast.core.people.audit import GATEWAY, Act, AuditKind
from holdfast.core.sessions.reset import Opening, ResetPolicies, ResetPolicy, ResetReason, reset_due
from holdfast.core.sessions.session import ProcessRow, SessionRow
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.inbound.authorise import principal_of
from holdfast.gateway.services import House
from holdfast.gateway.turns.barrier import Barrier
from holdfast.gateway.turns.cut_notes import cut_note
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)

_ASKED_FOR = 5.0  # seconds a workbench has to say what runs; one that is silent counts as busy

Processes = Callable[[SessionId], Awaitable[Sequence[ProcessRow]]]
Close = Callable[[SessionId], Coroutine[Any, Any, None]]


class SessionStore:
    """Owns the choice of the session that a message goes to; the sessions are the store's.

    An ordinary message is placed by what its own commit brought back, without a question and
    without an await. Only where a session is about to be left does anybody ask whether
    something still runs in it, and its lane is shut meanwhile: whatever else comes waits there.
    """

    def __init__(
        self,
        house: House,
        lanes: Lanes,
        *,
        processes: Processes,
        close: Close,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._house = house
        self._lanes = lanes
        self.follow(house.settings)
        self._processes = processes
        self._close = close
        self._tasks = tasks
        self._finding: dict[SessionKey, asyncio.Task[SessionRow | HoldfastError]] = {}

    def follow(self, settings: Settings) -> None:
        """Sessions are shared and left by these from now on."""
        self._settings = settings.sessions
        self.policies = policies_of(settings.sessions, zone=_zone(settings.sessions.time_zone))

    def key(self, source: Source) -> SessionKey:
        return route_of(source, self._settings)

    def admit(self, row: InboxRow, *, known: SessionId | None, pointed: Pointed | None) -> None:
        """Give a message to the lane of its session; `pointed` is what its commit brought back,
        and `known` where there is none of that."""
        note = _note_owed(pointed)
        if pointed is None or self._lanes.session_of(row.route) is not None:
            here = pointed is not None and self._lanes.session_of(row.route) == pointed.session_id
            self._lanes.admit(row, known=known, note_owed=note if here else None)
            return
        due = self._due(pointed, row.inbound.source, now=row.accepted_at)
        if row.inbound.note and pointed.goes_on:
            due = None  # it belongs there: a child of that session has brought it
        if due is None:
            fresh = self._untold(pointed)
            self._lanes.admit(row, known=known, opening=fresh, note_owed=note)
        elif due.reason is ResetReason.SUSPENDED or pointed.ended:
            self._leave(due)
            self._lanes.admit(row, known=None, opening=due)
        else:
            self._admit_if_idle(row, due)

    def _due(self, pointed: Pointed, source: Source, *, now: float) -> Opening | None:
        """Why this session is to be left, in the order that decides; None: it goes on."""
        if pointed.suspended:
            return Opening(reason=ResetReason.SUSPENDED, previous=pointed.session_id)
        if pointed.resume_pending and not pointed.ended:
            return None
        policy = self.policies.of(source.platform, source.chat_type)
        reason = reset_due(policy, active_at=pointed.active_at, now=now)
        return Opening(reason=reason, previous=pointed.session_id) if reason else None

    def opening_for(self, asked: Asked) -> Opening | None:
        """Why a session that a command opens is fresh; None: it took nobody's place."""
        pointed, row = asked.pointed, asked.row
        if asked.session_id is not None or pointed is None or pointed.goes_on:
            return None
        return self._due(pointed, row.inbound.source, now=row.accepted_at)

    def _untold(self, pointed: Pointed) -> Opening | None:
        if pointed.untold is None or pointed.previous is None or not pointed.goes_on:
            return None
        return Opening(reason=pointed.untold, previous=pointed.previous)

    def _admit_if_idle(self, row: InboxRow, due: Opening) -> None:
        """The message waits in the lane of its old session until it is known to be idle."""
        barrier = self._lanes.shut(due.previous)
        self._lanes.admit(row, known=due.previous)
        if barrier is not None:
            name = f"placing {row.route}"
            self._tasks.create_task(self._place(row.route, due, barrier), name=name)

    async def _place(self, route: SessionKey, due: Opening, barrier: Barrier) -> None:
        try:
            await barrier.rests()
            if await self._in_use(due.previous) or not self._only(route, due.previous):
                return
            rows = self._lanes.take_back(due.previous, route)
            if rows:  # else a command has ended what was to be placed
                self._leave(due)
            for row in rows:
                self._lanes.admit(row, known=None, opening=due)
        finally:
            barrier.lift()

    def _only(self, route: SessionKey, session_id: SessionId) -> bool:
        """Whether nobody else goes on there at this instant."""
        lane = self._lanes.get(session_id)
        return lane is None or all(row.route == route for row in lane.waiting)

    async def _in_use(self, session_id: SessionId) -> bool:
        if self._house.children.in_background(session_id):
            return True
        try:
            async with asyncio.timeout(_ASKED_FOR):
                return any(row.ended_at is None for row in await self._processes(session_id))
        except (HoldfastError, TimeoutError, OSError) as error:
            # Kept: what may still run for somebody is not taken from them on a guess.
            log.warning(
                "Session %s goes on, since nobody could say what runs in it: %s",
                session_id,
                error,
                extra={"action": "reset_deferred", "session": session_id},
            )
            return True

    def _leave(self, opening: Opening) -> None:
        self._tasks.create_task(self._close(opening.previous), name=f"leave {opening.previous}")

    async def get_or_create_session(self, source: Source) -> SessionRow:
        """The session a message from there would go to, opened if need be. Those who ask for one
        key at one time get the same."""
        key = self.key(source)
        finding = self._finding.get(key)
        if finding is None:
            finding = self._finding[key] = self._tasks.create_task(
                self._found(key, source), name=f"session of {key}"
            )
            finding.add_done_callback(lambda _: self._finding.pop(key))
        found = await asyncio.shield(finding)
        if isinstance(found, HoldfastError):
            raise found
        return found

    async def _found(self, key: SessionKey, source: Source) -> SessionRow | HoldfastError:
        """The session, or why there is none: that is for those who asked, not for the gateway."""
        try:
            return await self._find(key, source)
        except HoldfastError as error:
            return error

    async def _find(self, key: SessionKey, source: Source) -> SessionRow:
        store, now = self._house.store, self._house.clock.now()
        session_id = self._lanes.session_of(key)
        pointed = None if session_id else await store.pointed(key)
        due = None if pointed is None else self._due(pointed, source, now=now)
        if pointed is not None and pointed.goes_on:
            in_use = due is not None and await self._in_use(pointed.session_id)
            session_id = pointed.session_id if due is None or in_use else None
        known = await store.session(session_id) if session_id else None
        return known or await self._open(key, source, session_id, due)

    async def _open(
        self, key: SessionKey, source: Source, session_id: SessionId | None, due: Opening | None
    ) -> SessionRow:
        house = self._house
        opened = await house.store.open_fresh(
            session_id or SessionId(house.new_id("s")),
            route=key,
            principal=self._owner(source),
            opening=due,
            at=house.clock.now(),
        )
        if due is not None:
            self._leave(due)
        row = await house.store.session(opened)
        assert row is not None, "it was opened by the line above"
        house.feeds.changed(opened)
        return row

    def _owner(self, source: Source) -> PrincipalId | None:
        settings = self._settings
        groups, threads = settings.group_sessions_per_user, settings.thread_sessions_per_user
        return None if is_shared(source, groups, threads) else principal_of(source).id

    async def mark_resume_pending(self, key: SessionKey, reason: str = "restart_timeout") -> bool:
        """Its turn is about to be cut: until one completes, the session is not left by policy.
        False, and no change: the key is unknown, or its session is suspended."""
        at = self._house.clock.now()
        return await self._house.store.mark_resume_pending(key, reason=reason, at=at)

    async def clear_resume_pending(self, key: SessionKey) -> bool:
        """False: nothing was pending, or the key is unknown."""
        return await self._house.store.clear_resume_pending(key)

    async def suspend_recently_active(self, within: float = 120.0) -> int:
        """F8: after an unclean death, what was said to last begins afresh, except where a session
        is marked to be resumed; how many do. What they were is kept, as of any suspended one."""
        store = self._house.store
        found = await store.recently_active(since=self._house.clock.now() - within)
        suspended = [one for one in found if await store.suspend_one(one)]
        for session_id in suspended:
            self._house.feeds.changed(session_id)
        return len(suspended)

    async def suspend(self, session_id: SessionId, *, by: str = GATEWAY) -> bool:
        """What its routes are next used for happens in a fresh session. False: it was suspended
        already."""
        lane = self._lanes.get(session_id)
        routes = tuple(lane.routes) if lane is not None else ()
        kind, at = AuditKind.SESSION_SUSPENDED, self._house.clock.now()
        act = Act(kind=kind, actor=by, at=at, session_id=session_id, subject=session_id)
        if not await self._house.store.acting(act).suspend_one(session_id):
            return False
        for route in routes:
            pointed = await self._house.store.pointed(route)
            for row in self._lanes.take_back(session_id, route):
                self.admit(row, known=None, pointed=pointed)
        self._house.feeds.changed(session_id)
        return True

    async def suspend_session(self, key: SessionKey) -> bool:
        """What the key is next used for happens in a fresh session, also what waits behind a turn
        that runs on. False: the key is unknown."""
        session_id = await self._house.store.suspend_route(key)
        if session_id is None:
            return False
        pointed = await self._house.store.pointed(key)
        for row in self._lanes.take_back(session_id, key):
            self.admit(row, known=None, pointed=pointed)
        self._house.feeds.changed(session_id)
        return True


def _note_owed(pointed: Pointed | None) -> NoteMessage | None:
    """F6: what the next turn of a marked session is told, where no turn was there to resume."""
    if pointed is None or not (pointed.note_owed and pointed.goes_on):
        return None
    return cut_note(pointed.resume_reason)


def policies_of(settings: SessionSettings, *, zone: tzinfo | None) -> ResetPolicies:
    common = ResetPolicy(
        mode=settings.reset,
        idle_minutes=settings.idle_minutes,
        daily_hour=settings.daily_hour,
        zone=zone,
    )
    return ResetPolicies(common, settings.rules, zone=zone)


def route_of(source: Source, settings: SessionSettings) -> SessionKey:
    groups, threads = settings.group_sessions_per_user, settings.thread_sessions_per_user
    return build_session_key(source, groups, threads)


def _zone(name: str) -> tzinfo | None:
    if not name:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - 3 ms that most gateways never need

    return ZoneInfo(name)
