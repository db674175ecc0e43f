"""Chooses the session of a message: the current one of its route, or a fresh one.

The reset policy decides when a session is replaced.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import tzinfo
from typing import Any

from holdfast.core.commands import CommandRequest
from holdfast.core.config.settings import SessionSettings, Settings, route_of
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import InboxRow, RouteTarget
from holdfast.core.messages.source import Source, is_shared
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditEntry, AuditKind
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import (
    ClearResumePending,
    MarkResumePending,
    OpenNewSession,
    SuspendSession,
)
from holdfast.core.ports.store_queries import GetRouteTarget, GetSession, ListRecentlyActiveSessions
from holdfast.core.sessions.reset import (
    ResetPolicies,
    ResetPolicy,
    ResetReason,
    SessionReset,
    reset_due,
)
from holdfast.core.sessions.session import ProcessRow, SessionRow
from holdfast.core.turns.stop import TurnExitReason
from holdfast.gateway.access import principal_of
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.subagents import Subagents
from holdfast.gateway.turns.lane import LanePause
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.transcript_notes import interruption_note

log = logging.getLogger(__name__)

_PROCESS_LIST_TIMEOUT = (
    5.0  # seconds for a runner to report what runs; one that does not answer counts as busy
)

ListProcesses = Callable[[SessionId], Awaitable[Sequence[ProcessRow]]]
CloseSession = Callable[[SessionId], Coroutine[Any, Any, None]]


async def has_work(subagents: Subagents, processes: ListProcesses, session_id: SessionId) -> bool:
    """Whether a background subagent or a process of the session runs."""
    if subagents.in_background(session_id):
        return True
    try:
        async with asyncio.timeout(_PROCESS_LIST_TIMEOUT):
            return any(row.ended_at is None for row in await processes(session_id))
    except (HoldfastError, TimeoutError, OSError) as error:
        # Processes that may still run are not killed on a guess.
        log.warning(
            "Keeping session %s: could not check for running processes: %s",
            session_id,
            error,
            extra={"action": "reset_deferred", "session": session_id},
        )
        return True


class SessionStore:
    """Owns the choice of the session that a message goes to. The sessions themselves are in the
    store.

    The session of an ordinary message comes from the result of its own commit, without a query and
    without an await. Only if a session is about to be replaced is it checked whether something
    still runs in it; its lane is paused meanwhile, and messages wait there.
    """

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        live_settings: LiveSettings,
        lanes: Lanes,
        *,
        has_work: Callable[[SessionId], Awaitable[bool]],
        close: CloseSession,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._lanes = lanes
        self._has_work = has_work
        self.apply_settings(live_settings.current)
        self._close = close
        self._tasks = tasks
        self._lookups: dict[SessionKey, asyncio.Task[SessionRow | HoldfastError]] = {}

    def apply_settings(self, settings: Settings) -> None:
        """Apply changed settings: which sessions are shared, and when they are replaced."""
        self._settings = settings.sessions
        self.policies = reset_policies(settings.sessions, zone=_zone(settings.sessions.time_zone))

    def session_key(self, source: Source) -> SessionKey:
        return route_of(source, self._settings)

    def admit(
        self, row: InboxRow, *, known: SessionId | None, route_target: RouteTarget | None
    ) -> None:
        """Give a message to the lane of its session. `route_target` is the result of its commit;
        `known` is used if there is none."""
        note = _pending_note(route_target)
        if route_target is None or self._lanes.session_of(row.route) is not None:
            here = (
                route_target is not None
                and self._lanes.session_of(row.route) == route_target.session_id
            )
            self._lanes.admit(row, known=known, pending_note=note if here else None)
            return
        due = self._reset_due(route_target, row.inbound.source, now=row.accepted_at)
        if row.inbound.note and route_target.can_continue:
            due = None  # it belongs there: a subagent of that session sent it
        if due is None:
            fresh = self._unannounced_reset(route_target)
            self._lanes.admit(row, known=known, reset=fresh, pending_note=note)
        elif due.reason is ResetReason.SUSPENDED or route_target.ended:
            self._close_previous(due)
            self._lanes.admit(row, known=None, reset=due)
        else:
            self._admit_if_idle(row, due)

    def _reset_due(
        self, route_target: RouteTarget, source: Source, *, now: float
    ) -> SessionReset | None:
        """Why this session is to be replaced, in order of precedence; None if it continues."""
        if route_target.suspended:
            return SessionReset(reason=ResetReason.SUSPENDED, previous=route_target.session_id)
        if route_target.resume_pending and not route_target.ended:
            return None
        policy = self.policies.for_chat(source.platform, source.chat_type)
        reason = reset_due(policy, active_at=route_target.active_at, now=now)
        return SessionReset(reason=reason, previous=route_target.session_id) if reason else None

    def reset_for(self, request: CommandRequest) -> SessionReset | None:
        """Why a session that a command opens is fresh; None if it replaces no other."""
        pointed, row = request.route_target, request.row
        if request.session_id is not None or pointed is None or pointed.can_continue:
            return None
        return self._reset_due(pointed, row.inbound.source, now=row.accepted_at)

    def _unannounced_reset(self, route_target: RouteTarget) -> SessionReset | None:
        if (
            route_target.unannounced_reset is None
            or route_target.previous is None
            or not route_target.can_continue
        ):
            return None
        return SessionReset(reason=route_target.unannounced_reset, previous=route_target.previous)

    def _admit_if_idle(self, row: InboxRow, reset: SessionReset) -> None:
        """Let the message wait in the lane of its old session until that is known to be idle."""
        pause = self._lanes.pause_lane(reset.previous)
        self._lanes.admit(row, known=reset.previous)
        if pause is not None:
            name = f"resolve session of {row.route}"
            self._tasks.create_task(self._place_when_paused(row.route, reset, pause), name=name)

    async def _place_when_paused(
        self, route: SessionKey, reset: SessionReset, pause: LanePause
    ) -> None:
        try:
            await pause.wait_until_paused()
            if await self._has_work(reset.previous) or not self._is_only_route(
                route, reset.previous
            ):
                return
            rows = self._lanes.take_waiting(reset.previous, route)
            if rows:  # otherwise a command has ended the message
                self._close_previous(reset)
            for row in rows:
                self._lanes.admit(row, known=None, reset=reset)
        finally:
            pause.release()

    def _is_only_route(self, route: SessionKey, session_id: SessionId) -> bool:
        """Whether no other route uses the session now."""
        lane = self._lanes.get(session_id)
        return lane is None or all(row.route == route for row in lane.waiting_messages)

    async def is_in_use(self, session_id: SessionId) -> bool:
        """Whether a turn, a background subagent or a process of the session runs."""
        return self._lanes.get(session_id) is not None or await self._has_work(session_id)

    def _close_previous(self, reset: SessionReset) -> None:
        self._tasks.create_task(self._close(reset.previous), name=f"leave {reset.previous}")

    async def get_or_create_session(self, source: Source) -> SessionRow:
        """The session that a message from `source` would go to, opened if necessary. Concurrent
        calls for one key get the same session."""
        key = self.session_key(source)
        finding = self._lookups.get(key)
        if finding is None:
            finding = self._lookups[key] = self._tasks.create_task(
                self._find_or_error(key, source), name=f"session of {key}"
            )
        found = await asyncio.shield(finding)
        if isinstance(found, HoldfastError):
            raise found
        return found

    async def _find_or_error(self, key: SessionKey, source: Source) -> SessionRow | HoldfastError:
        """The session, or the error: it is raised in the callers, not in the task of the
        gateway."""
        try:
            return await self._find_or_open(key, source)
        except HoldfastError as error:
            return error
        finally:
            del self._lookups[key]

    async def _find_or_open(self, key: SessionKey, source: Source) -> SessionRow:
        store, now = self._store, self._runtime.clock.now()
        session_id = self._lanes.session_of(key)
        pointed = None if session_id else await store.read(GetRouteTarget(key=key))
        due = None if pointed is None else self._reset_due(pointed, source, now=now)
        if pointed is not None and pointed.can_continue:
            in_use = due is not None and await self._has_work(pointed.session_id)
            session_id = pointed.session_id if due is None or in_use else None
        known = await store.read(GetSession(session_id=session_id)) if session_id else None
        return known or await self._open_session(key, source, session_id, due)

    async def _open_session(
        self,
        key: SessionKey,
        source: Source,
        session_id: SessionId | None,
        reset: SessionReset | None,
    ) -> SessionRow:
        opened = await self._store.write(
            OpenNewSession(
                session_id=session_id or SessionId(self._runtime.new_id("s")),
                route=key,
                principal=self._owner(source),
                reset=reset,
                at=self._runtime.clock.now(),
            )
        )
        if reset is not None:
            self._close_previous(reset)
        row = await self._store.read(GetSession(session_id=opened))
        assert row is not None, "it was opened by the line above"
        return row

    def _owner(self, source: Source) -> PrincipalId | None:
        settings = self._settings
        groups, threads = settings.group_sessions_per_user, settings.thread_sessions_per_user
        return None if is_shared(source, groups, threads) else principal_of(source).id

    async def mark_resume_pending(self, key: SessionKey, reason: str = "restart_timeout") -> bool:
        """Mark the session of the key, because its turn is about to be cut: until a turn completes,
        no reset policy replaces it. False, without a change, if the key is unknown or its session
        is suspended."""
        session_id = await self._session_of(key)
        return session_id is not None and await self._mark(session_id, reason, route=key)

    def mark_turn(
        self, session_id: SessionId, turn_id: TurnId, *, reason: TurnExitReason
    ) -> Awaitable[bool]:
        """As `mark_resume_pending`, for an open turn that this process is about to cut: the same
        commit stores how it is left and counts the interruption. Queued when this is called."""
        return self._mark(session_id, reason.value, turn_id=turn_id)

    def _mark(self, session_id: SessionId, reason: str, **about: Any) -> Awaitable[bool]:
        at = self._runtime.clock.now()
        return self._store.write(
            MarkResumePending(session_id=session_id, reason=reason, at=at, **about)
        )

    async def clear_resume_pending(self, key: SessionKey) -> bool:
        """Clear the mark. False if nothing was pending, or the key is unknown."""
        session_id = await self._session_of(key)
        return session_id is not None and await self._store.write(
            ClearResumePending(session_id=session_id, route=key)
        )

    async def _session_of(self, key: SessionKey) -> SessionId | None:
        target = await self._store.read(GetRouteTarget(key=key))
        return None if target is None else target.session_id

    async def suspend_recently_active(self, within: float = 120.0) -> int:
        """F8: after an unclean death, suspend the sessions that were active within the given time,
        except those marked to be resumed. Returns how many. Their history is kept, as that of any
        suspended session."""
        store = self._store
        found = await store.read(
            ListRecentlyActiveSessions(since=self._runtime.clock.now() - within)
        )
        suspended = [one for one in found if await store.write(SuspendSession(session_id=one))]
        return len(suspended)

    async def suspend(self, session_id: SessionId, *, by: str = GATEWAY_ACTOR) -> bool:
        """Suspend a session: its routes get a fresh one with their next message. False if it was
        suspended already."""
        lane = self._lanes.get(session_id)
        routes = tuple(lane.routes) if lane is not None else ()
        kind, at = AuditKind.SESSION_SUSPENDED, self._runtime.clock.now()
        act = AuditEntry(kind=kind, actor=by, at=at, session_id=session_id, subject=session_id)
        if not await self._store.write(SuspendSession(session_id=session_id), audit=act):
            return False
        for route in routes:
            pointed = await self._store.read(GetRouteTarget(key=route))
            for row in self._lanes.take_waiting(session_id, route):
                self.admit(row, known=None, route_target=pointed)
        return True

    async def suspend_session(self, key: SessionKey) -> bool:
        """Suspend the session of the key: the next message of the key goes to a fresh session, as
        do messages that wait behind a turn that still runs. False if the key is unknown."""
        session_id = await self._session_of(key)
        if session_id is None:
            return False
        await self._store.write(SuspendSession(session_id=session_id))
        pointed = await self._store.read(GetRouteTarget(key=key))
        for row in self._lanes.take_waiting(session_id, key):
            self.admit(row, known=None, route_target=pointed)
        return True


def _pending_note(route_target: RouteTarget | None) -> NoteMessage | None:
    """F6: the note for the next turn of a marked session that had no turn to resume."""
    if route_target is None or not (
        route_target.interruption_note_pending and route_target.can_continue
    ):
        return None
    return interruption_note(route_target.resume_reason)


def reset_policies(settings: SessionSettings, *, zone: tzinfo | None) -> ResetPolicies:
    common = ResetPolicy(
        mode=settings.reset,
        idle_minutes=settings.idle_minutes,
        daily_hour=settings.daily_hour,
        zone=zone,
    )
    return ResetPolicies(common, settings.rules, zone=zone)


def _zone(name: str) -> tzinfo | None:
    if not name:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - 3 ms that most gateways never need

    return ZoneInfo(name)
