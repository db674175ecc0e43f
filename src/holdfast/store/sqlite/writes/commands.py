"""Commands: what one does, its answer and the end of its row, in one commit."""

import apsw
import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.sessions.session import CommandEffect, CommandOutcome
from holdfast.core.turns.auxiliary import AuxiliaryTask
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


def apply_command(cursor: apsw.Cursor, effect: CommandEffect) -> CommandOutcome:
    for end in effect.inbox_ends:
        inbox.end_row(cursor, end, at=effect.at, session_id=effect.session_id)
    superseded = _supersede(cursor, effect)
    settled = msgspec.structs.replace(
        worded.apply_computed_effects(cursor, effect), superseded=superseded
    )
    outbox.add_deliveries(cursor, settled.deliveries, at=effect.at)
    if effect.decision is not None:
        own = effect.inbox_ends[-1:]
        by = audit.message_author(cursor, own[0].inbox_id)[0] if own else ""
        approvals.decide_approvals(cursor, decision=effect.decision, by=by)
    if effect.new_session is not None:
        _replace_session(cursor, effect, effect.new_session)
    if effect.model_override is not None:
        _override_model(cursor, effect, effect.model_override)
    if effect.busy_mode is not None:
        busy.set_busy_mode(cursor, _target_session(cursor, effect), effect.busy_mode)
    _change_gateway(cursor, effect)
    if effect.compaction is not None and effect.session_id is not None:
        session_id = effect.session_id
        history.require_messages(cursor, session_id, messages=effect.compaction.covers)
        compactions.add_compaction_between_turns(
            cursor, session_id=session_id, message=effect.compaction, at=effect.at
        )
        compactions.add_auxiliary_usage(
            cursor,
            session_id=session_id,
            errand=AuxiliaryTask.SUMMARY,
            usage=effect.compaction_usage,
        )
    again = _change_history(cursor, effect)
    command_audit.record_command(cursor, effect)
    return settled if again is None else msgspec.structs.replace(settled, resubmitted=again)


def _change_gateway(cursor: apsw.Cursor, effect: CommandEffect) -> None:
    """What belongs to no session: jobs, home channels, quiet ones, and who is let in."""
    if effect.job is not None:
        jobs.change_job(cursor, change=effect.job)
    if effect.runs is not None:
        jobs.plan_runs(cursor, plan=effect.runs)
    if effect.pairing is not None:
        pairing.change_pairing(cursor, change=effect.pairing)
    if effect.home is not None:
        stopping.set_home_channel(cursor, effect.home)
    if (gone := effect.unset_home) is not None:
        stopping.clear_home_channel(cursor, platform=gone.platform, account=gone.account)
    if effect.quiet is not None:
        quiet.set_quiet_chat(cursor, effect.quiet)


def _change_history(cursor: apsw.Cursor, effect: CommandEffect) -> InboxRow | None:
    """What it takes back, copies, returns to or says again; the last is handed to a lane."""
    if effect.title is not None and effect.session_id is not None:
        whole_sessions.rename_session(cursor, session_id=effect.session_id, title=effect.title)
    if effect.undo is not None:
        history.undo_messages(cursor, effect.undo, at=effect.at)
    if effect.fork is not None:
        history.fork_session(cursor, effect.fork, route=_required_route(effect), at=effect.at)
    if effect.resume is not None:
        history.resume_session(cursor, effect.resume, route=_required_route(effect), at=effect.at)
    if effect.resubmit is None:
        return None
    ended = tuple(end.inbox_id for end in effect.inbox_ends)
    route = _required_route(effect)
    return history.retry_message(cursor, effect.resubmit, route=route, merged=ended, at=effect.at)


def _supersede(cursor: apsw.Cursor, effect: CommandEffect) -> tuple[InboxId, ...]:
    if effect.supersede_before is None:
        return ()
    route = _required_route(effect)
    return inbox.supersede_queued(
        cursor, route, before=effect.supersede_before, spared=effect.keep, at=effect.at
    )


def _replace_session(cursor: apsw.Cursor, effect: CommandEffect, fresh: SessionId) -> None:
    route = _required_route(effect)
    cursor.execute(
        "UPDATE sessions SET ended_at = ? WHERE ended_at IS NULL AND id <> ?"
        " AND id IN (?, (SELECT session_id FROM routes WHERE key = ?))",
        (effect.at, fresh, effect.session_id, route),
    )
    sessions.open_session(cursor, fresh, route=route, at=effect.at)
    sessions.point_route(cursor, route, fresh)


def _target_session(cursor: apsw.Cursor, effect: CommandEffect) -> SessionId:
    """The session that something is chosen for; one that was not begun yet is opened by it."""
    session_id = effect.new_session or effect.session_id
    if session_id is None:
        raise StoreError("a choice needs the session it is made for; none was named")
    if effect.route is None:
        return session_id
    if effect.reset is not None:
        return standing.open_new_session(
            cursor,
            session_id=session_id,
            route=effect.route,
            principal=None,
            opening=effect.reset,
            at=effect.at,
        )
    sessions.open_session(cursor, session_id, route=effect.route, at=effect.at)
    sessions.claim_route(cursor, effect.route, session_id)
    return session_id


def _override_model(cursor: apsw.Cursor, effect: CommandEffect, model: str) -> None:
    session_id = _target_session(cursor, effect)
    cursor.execute(
        "UPDATE sessions SET model_override = ? WHERE id = ?", (model or None, session_id)
    )
    if not cursor.connection.changes():
        raise StoreError(f"there is no session {session_id} to override the model of")


def _required_route(effect: CommandEffect) -> SessionKey:
    if effect.route is None:
        raise StoreError("a command that replaces a session or ends its queue needs a route")
    return effect.route
