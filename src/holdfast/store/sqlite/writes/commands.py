"""Commands: what one does, its answer and the end of its row, in one commit."""

import apsw
import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.sessions.session import CommandEffect, Settled
from holdfast.core.turns.auxiliary import Errand
from holdfast.store.sqlite.writes import (
    approvals,
    audit,
    busy,
    command_audit,
    compactions,
    history,
    inbox,
    jobs,
    outbox,
    pairing,
    quiet,
    sessions,
    standing,
    stopping,
    whole_sessions,
    worded,
)


def settle(cursor: apsw.Cursor, effect: CommandEffect) -> Settled:
    for end in effect.inbox_ends:
        inbox.end(cursor, end, at=effect.at, session_id=effect.session_id)
    superseded = _supersede(cursor, effect)
    settled = msgspec.structs.replace(worded.settle(cursor, effect), superseded=superseded)
    outbox.add(cursor, settled.deliveries, at=effect.at)
    if effect.decision is not None:
        own = effect.inbox_ends[-1:]
        by = audit.asker(cursor, own[0].inbox_id)[0] if own else ""
        approvals.decide(cursor, decision=effect.decision, by=by)
    if effect.new_session is not None:
        _replace_session(cursor, effect, effect.new_session)
    if effect.model_override is not None:
        _override_model(cursor, effect, effect.model_override)
    if effect.busy_mode is not None:
        busy.choose(cursor, _chosen_in(cursor, effect), effect.busy_mode)
    _change_the_house(cursor, effect)
    if effect.compaction is not None and effect.session_id is not None:
        session_id = effect.session_id
        history.must_stand(cursor, session_id, messages=effect.compaction.covers)
        compactions.between_turns(
            cursor, session_id=session_id, message=effect.compaction, at=effect.at
        )
        compactions.count(
            cursor, session_id=session_id, errand=Errand.SUMMARY, usage=effect.compaction_usage
        )
    again = _change_history(cursor, effect)
    command_audit.given(cursor, effect)
    return settled if again is None else msgspec.structs.replace(settled, again=again)


def _change_the_house(cursor: apsw.Cursor, effect: CommandEffect) -> None:
    """What belongs to no session: jobs, home channels, quiet ones, and who is let in."""
    if effect.job is not None:
        jobs.change(cursor, change=effect.job)
    if effect.runs is not None:
        jobs.plan(cursor, plan=effect.runs)
    if effect.pairing is not None:
        pairing.change(cursor, change=effect.pairing)
    if effect.home is not None:
        stopping.set_home(cursor, effect.home)
    if (gone := effect.no_home) is not None:
        stopping.clear_home(cursor, platform=gone.platform, account=gone.account)
    if effect.quiet is not None:
        quiet.choose(cursor, effect.quiet)


def _change_history(cursor: apsw.Cursor, effect: CommandEffect) -> InboxRow | None:
    """What it takes back, copies, returns to or says again; the last is handed to a lane."""
    if effect.title is not None and effect.session_id is not None:
        whole_sessions.rename(cursor, session_id=effect.session_id, title=effect.title)
    if effect.undo is not None:
        history.undo(cursor, effect.undo, at=effect.at)
    if effect.fork is not None:
        history.fork(cursor, effect.fork, route=_needed_route(effect), at=effect.at)
    if effect.resume is not None:
        history.resume(cursor, effect.resume, route=_needed_route(effect), at=effect.at)
    if effect.again is None:
        return None
    ended = tuple(end.inbox_id for end in effect.inbox_ends)
    route = _needed_route(effect)
    return history.say_again(cursor, effect.again, route=route, merged=ended, at=effect.at)


def _supersede(cursor: apsw.Cursor, effect: CommandEffect) -> tuple[InboxId, ...]:
    if effect.supersede_before is None:
        return ()
    route = _needed_route(effect)
    return inbox.supersede(
        cursor, route, before=effect.supersede_before, spared=effect.spared, at=effect.at
    )


def _replace_session(cursor: apsw.Cursor, effect: CommandEffect, fresh: SessionId) -> None:
    route = _needed_route(effect)
    cursor.execute(
        "UPDATE sessions SET ended_at = ? WHERE ended_at IS NULL AND id <> ?"
        " AND id IN (?, (SELECT session_id FROM routes WHERE key = ?))",
        (effect.at, fresh, effect.session_id, route),
    )
    sessions.open_session(cursor, fresh, route=route, at=effect.at)
    sessions.point_route(cursor, route, fresh)


def _chosen_in(cursor: apsw.Cursor, effect: CommandEffect) -> SessionId:
    """The session that something is chosen for; one that was not begun yet is opened by it."""
    session_id = effect.new_session or effect.session_id
    if session_id is None:
        raise StoreError("a choice needs the session it is made for; none was named")
    if effect.route is None:
        return session_id
    if effect.opening is not None:
        return standing.open_fresh(
            cursor,
            session_id=session_id,
            route=effect.route,
            principal=None,
            opening=effect.opening,
            at=effect.at,
        )
    sessions.open_session(cursor, session_id, route=effect.route, at=effect.at)
    sessions.claim_route(cursor, effect.route, session_id)
    return session_id


def _override_model(cursor: apsw.Cursor, effect: CommandEffect, model: str) -> None:
    session_id = _chosen_in(cursor, effect)
    cursor.execute(
        "UPDATE sessions SET model_override = ? WHERE id = ?", (model or None, session_id)
    )
    if not cursor.connection.changes():
        raise StoreError(f"there is no session {session_id} to override the model of")


def _needed_route(effect: CommandEffect) -> SessionKey:
    if effect.route is None:
        raise StoreError("a command that replaces a session or ends its queue needs a route")
    return effect.route
