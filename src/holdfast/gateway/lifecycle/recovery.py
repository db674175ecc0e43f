"""Recovery at start: resumes what an earlier process left open before anything new is accepted."""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from holdfast.core.config.settings import CrashRecovery
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Accepted, InboxRow
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import Store, StoreReader
from holdfast.core.ports.store_commands import EndRunner
from holdfast.core.ports.store_queries import (
    GetRouteTarget,
    GetSession,
    ListOpenStops,
    ListOpenTurns,
    ListQueuedMessages,
    ListRunners,
    ListUndelivered,
)
from holdfast.core.sessions.session import RunnerRow
from holdfast.core.text.translation import use_catalogue
from holdfast.core.turns.stop import StopKind
from holdfast.core.turns.turn import OpenTurn
from holdfast.gateway.inbound.router import Router
from holdfast.gateway.outbound.outbox import OutboxWorker
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.turn_factory import TurnFactory

log = logging.getLogger(__name__)

MAX_CUTS = 3  # the first run and two resumes


class TurnGivenUp(HoldfastError):
    """Why a turn of an earlier process is not resumed. People read it in their chat; that their
    conversation starts afresh they are told with their next message."""


class RunnerAdopter(Protocol):
    """Takes over the runners that survived the last process."""

    async def adopt(
        self, known: Sequence[RunnerRow], *, needed: Collection[SessionId]
    ) -> list[SessionId]: ...


async def recover(
    store: Store,
    runtime: Runtime,
    *,
    mode: CrashRecovery,
    router: Router,
    sessions: SessionStore,
    lanes: Lanes,
    turns: TurnFactory,
    outbox: OutboxWorker,
    runners: RunnerAdopter,
) -> int:
    """Runs once, before the intake opens. Deliveries are sent first, then turns are resumed, then
    messages that no turn has taken are routed: the order in which they were promised. Returns how
    many turns are resumed."""
    undelivered, open_turns = (
        await store.read(ListUndelivered()),
        await store.read(ListOpenTurns()),
    )
    queued = await store.read(ListQueuedMessages())
    runtime.crash(CrashPoint.RECOVERY_READ)
    left = {one.turn.session_id for one in open_turns if await _session_has_ended(one, store)}
    given_up = {
        one.turn.session_id: None
        if one.turn.session_id in left
        else await _give_up_reason(one, store, mode)
        for one in open_turns
    }
    # The runner of a turn that is given up is ended before people are told.
    await _adopt_runners(runners, store, given_up, left)
    for open_turn in open_turns:
        router.open_subscriptions(open_turn)
        if given_up[open_turn.turn.session_id] is None:
            lanes.resume(open_turn, left=open_turn.turn.session_id in left)
    # All lanes exist, and none runs yet: an approval request that cannot be delivered finds the
    # turn that waits for it, and older deliveries are sent first.
    outbox.recover(undelivered)
    for open_turn in open_turns:
        if why := given_up[open_turn.turn.session_id]:
            await _give_up_turn(turns, open_turn, why)
    if mode is CrashRecovery.SUSPEND:
        await _suspend_recent_sessions(sessions, store)
    for row in queued:
        router.route_recovered(await _recovered_message(row, store))
    if undelivered or open_turns or queued:
        log.info(
            "Recovered %d open turns, %d queued messages and %d deliveries",
            len(open_turns),
            len(queued),
            len(undelivered),
            extra={"action": "recovered"},
        )
    return sum(why is None for why in given_up.values())


async def _session_has_ended(open_turn: OpenTurn, store: StoreReader) -> bool:
    """Whether a /new has ended the session before the end of the turn that it stopped was
    committed: then the turn ends without a message."""
    session = await store.read(GetSession(session_id=open_turn.turn.session_id))
    return session is not None and session.ended_at is not None


async def _give_up_reason(
    open_turn: OpenTurn, store: StoreReader, mode: CrashRecovery
) -> TurnGivenUp | None:
    """Why a turn is not resumed; None: it is. One that waits or is parked was not interrupted, and
    a session that is marked resume-pending is exempt from `crash_recovery = "suspend"` (F8)."""
    session = await store.read(GetSession(session_id=open_turn.turn.session_id))
    if session is not None and session.suspended:
        return TurnGivenUp("This was not finished before its conversation was suspended.")
    if not open_turn.was_interrupted:
        return None
    crashed = open_turn.exit_reason is None
    marked = session is not None and session.resume_pending
    if crashed and not marked and mode is CrashRecovery.SUSPEND:
        return TurnGivenUp(
            "The gateway stopped while I was working on this, and it is configured not to resume "
            "such work. Send your message again to start over."
        )
    # What a process marked when it went it has counted too.
    cuts = (session.interruptions if session else 0) + crashed
    if cuts < MAX_CUTS:
        return None
    return TurnGivenUp(
        "This was interrupted {cuts} times, so I have given it up. Send your message again to "
        "start over.",
        cuts=cuts,
    )


async def _suspend_recent_sessions(sessions: SessionStore, store: StoreReader) -> None:
    """F8, if configured. A process that has recorded its stop did not crash."""
    stops = await store.read(ListOpenStops())
    if any(one.stopped_at and one.order.kind is not StopKind.CRASH for one in stops):
        return
    if suspended := await sessions.suspend_recently_active():
        log.warning(
            "Suspended %d sessions, because the last process crashed (gateway.crash_recovery)",
            suspended,
            extra={"action": "suspended"},
        )


async def _adopt_runners(
    runners: RunnerAdopter,
    store: Store,
    given_up: Mapping[SessionId, TurnGivenUp | None],
    left: Collection[SessionId],
) -> None:
    """A runner is needed by a turn that is resumed, and by a session that can continue."""
    known = await store.read(ListRunners())
    resumed = {session_id for session_id, why in given_up.items() if why is None}
    needed = resumed.difference(left)
    for runner in known:
        session = await store.read(GetSession(session_id=runner.session_id))
        open_to_more = session and session.ended_at is None and not session.suspended
        if open_to_more and runner.session_id not in given_up:
            needed.add(runner.session_id)
    adopted = await runners.adopt(known, needed=needed)
    for runner in known:
        if runner.session_id not in adopted:
            await store.write(EndRunner(session_id=runner.session_id))


async def _give_up_turn(turns: TurnFactory, open_turn: OpenTurn, why: TurnGivenUp) -> None:
    turn, text = turns.restore(open_turn), str(why)
    if open_turn.rows:
        with use_catalogue(turns.language_of(open_turn.rows[-1])):
            text = why.for_person()
    await turn.fail(str(why), text=text, suspend=True)
    await turn.close_once()
    log.warning(
        "Suspended session %s: %s",
        turn.session_id,
        why,
        extra={"action": "suspended", "session": turn.session_id},
    )


async def _recovered_message(row: InboxRow, store: StoreReader) -> Accepted:
    pointed = await store.read(GetRouteTarget(key=row.route))
    known = pointed.session_id if pointed is not None and pointed.can_continue else None
    return Accepted(row=row, duplicate=False, route_session=known, route_target=pointed)
