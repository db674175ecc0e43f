"""Slash commands: their effects, the reply and the end of the inbox row, in one commit."""

import apsw
import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.messages.inbox import Accepted, InboxRow
from holdfast.core.sessions.session import (
    BackgroundStart,
    CommandEffect,
    CommandOutcome,
    SessionOpening,
)
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.store.sqlite.writes import (
    approvals,
    audit_log,
    gateway_state,
    gateway_stops,
    inbox,
    jobs,
    memory,
    outbox,
    pairing,
    session_history,
    session_state,
    transcript,
)


def apply_computed_effects(cursor: apsw.Cursor, effect: CommandEffect) -> CommandOutcome:
    """Apply the effects whose reply depends on their result, and put that reply into the first
    delivery."""
    edits = effect.notes.edits if effect.notes is not None else ()
    edited = tuple(memory.edit_notes(cursor, edit=edit) for edit in edits)
    text = (
        effect.notes.reply(edited)
        if effect.notes is not None
        else _apply_job_effects(cursor, effect)
    )
    deliveries = effect.deliveries
    if text is not None:
        deliveries = (msgspec.structs.replace(deliveries[0], text=text), *deliveries[1:])
    background = (
        _start_subagent(cursor, effect.background, at=effect.at) if effect.background else None
    )
    return CommandOutcome(deliveries=deliveries, note_edits=edited, background=background)


def _apply_job_effects(cursor: apsw.Cursor, effect: CommandEffect) -> str | None:
    if (job := effect.new_job) is not None:
        return job.reply(jobs.add_job(cursor, new=job.new, most=job.limit))
    if (skip := effect.skip_runs) is not None:
        return skip.reply(jobs.skip_runs(cursor, job_id=skip.job_id, why=skip.why))
    return None


def _start_subagent(cursor: apsw.Cursor, start: BackgroundStart, *, at: float) -> Accepted:
    subagent, inbound = start.inbound.subagent, start.inbound
    assert subagent is not None, "background work is a subagent's"
    if start.open_parent is not None:
        parent = _open_parent(cursor, subagent.parent, start.open_parent, at=at)
        subagent = msgspec.structs.replace(subagent, parent=parent, sandbox_session=parent)
        inbound = msgspec.structs.replace(inbound, subagent=subagent)
    return inbox.accept_subagent_task(
        cursor,
        subagent,
        inbound=inbound,
        route=start.route,
        principal=start.principal,
        at=at,
    )


def _open_parent(
    cursor: apsw.Cursor, session_id: SessionId, opens: SessionOpening, *, at: float
) -> SessionId:
    return session_state.open_new_session(
        cursor,
        session_id=session_id,
        route=opens.route,
        principal=opens.principal,
        opening=opens.reset,
        at=at,
    )


def apply_command(cursor: apsw.Cursor, effect: CommandEffect) -> CommandOutcome:
    for end in effect.inbox_ends:
        inbox.end_row(cursor, end, at=effect.at, session_id=effect.session_id)
    superseded = _supersede(cursor, effect)
    outcome = msgspec.structs.replace(apply_computed_effects(cursor, effect), superseded=superseded)
    outbox.add_deliveries(cursor, outcome.deliveries, at=effect.at)
    if effect.decision is not None:
        own = effect.inbox_ends[-1:]
        by = audit_log.message_author(cursor, own[0].inbox_id)[0] if own else ""
        approvals.decide_approvals(cursor, decision=effect.decision, by=by)
    if effect.new_session is not None:
        _replace_session(cursor, effect, effect.new_session)
    if effect.model_override is not None:
        _override_model(cursor, effect, effect.model_override)
    if effect.busy_mode is not None:
        session_state.set_busy_mode(cursor, _target_session(cursor, effect), effect.busy_mode)
    _change_gateway(cursor, effect)
    if effect.compaction is not None and effect.session_id is not None:
        session_id = effect.session_id
        session_history.require_messages(cursor, session_id, messages=effect.compaction.covers)
        transcript.add_compaction_between_turns(
            cursor, session_id=session_id, message=effect.compaction, at=effect.at
        )
        transcript.add_auxiliary_usage(
            cursor,
            session_id=session_id,
            errand=AuxiliaryTask.SUMMARY,
            usage=effect.compaction_usage,
        )
    resubmitted = _change_history(cursor, effect)
    audit_log.record_command(cursor, effect)
    if resubmitted is None:
        return outcome
    return msgspec.structs.replace(outcome, resubmitted=resubmitted)


def _change_gateway(cursor: apsw.Cursor, effect: CommandEffect) -> None:
    """Effects that belong to no session: jobs, home channels, quiet chats, pairing."""
    if effect.job is not None:
        jobs.change_job(cursor, change=effect.job)
    if effect.runs is not None:
        jobs.plan_runs(cursor, plan=effect.runs)
    if effect.pairing is not None:
        pairing.change_pairing(cursor, change=effect.pairing)
    if effect.home is not None:
        gateway_stops.set_home_channel(cursor, effect.home)
    if (home := effect.unset_home) is not None:
        gateway_stops.clear_home_channel(cursor, platform=home.platform, account=home.account)
    if effect.quiet is not None:
        gateway_state.set_quiet_chat(cursor, effect.quiet)


def _change_history(cursor: apsw.Cursor, effect: CommandEffect) -> InboxRow | None:
    """Rename, undo, fork, resume and retry; the resubmitted message of a retry is returned."""
    if effect.title is not None and effect.session_id is not None:
        session_history.rename_session(cursor, session_id=effect.session_id, title=effect.title)
    if effect.undo is not None:
        session_history.undo_messages(cursor, effect.undo, at=effect.at)
    if effect.fork is not None:
        session_history.fork_session(
            cursor, effect.fork, route=_required_route(effect), at=effect.at
        )
    if effect.resume is not None:
        session_history.resume_session(
            cursor, effect.resume, route=_required_route(effect), at=effect.at
        )
    if effect.resubmit is None:
        return None
    ended = tuple(end.inbox_id for end in effect.inbox_ends)
    route = _required_route(effect)
    return session_history.retry_message(
        cursor, effect.resubmit, route=route, merged=ended, at=effect.at
    )


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
    session_state.open_session(cursor, fresh, route=route, at=effect.at)
    session_state.point_route(cursor, route, fresh)


def _target_session(cursor: apsw.Cursor, effect: CommandEffect) -> SessionId:
    """The session that a setting is chosen for. If it does not exist yet, this opens it."""
    session_id = effect.new_session or effect.session_id
    if session_id is None:
        raise StoreError("no session was named for this choice")
    if effect.route is None:
        return session_id
    if effect.reset is not None:
        return session_state.open_new_session(
            cursor,
            session_id=session_id,
            route=effect.route,
            principal=None,
            opening=effect.reset,
            at=effect.at,
        )
    session_state.open_session(cursor, session_id, route=effect.route, at=effect.at)
    session_state.claim_route(cursor, effect.route, session_id)
    return session_id


def _override_model(cursor: apsw.Cursor, effect: CommandEffect, model: str) -> None:
    session_id = _target_session(cursor, effect)
    cursor.execute(
        "UPDATE sessions SET model_override = ? WHERE id = ?", (model or None, session_id)
    )
    if not cursor.connection.changes():
        raise StoreError(
            "session {session_id} does not exist: its model was not changed", session_id=session_id
        )


def _required_route(effect: CommandEffect) -> SessionKey:
    if effect.route is None:
        raise StoreError("a command that replaces a session or ends its queue needs a route")
    return effect.route
