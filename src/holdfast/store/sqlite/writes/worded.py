"""What a command does and can only tell of when it is done: the change and its words."""

import apsw
import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Accepted
from holdfast.core.sessions.session import CommandEffect, CommandOutcome
from holdfast.core.sessions.worded import BackgroundStart, SessionOpening
from holdfast.store.sqlite.writes import children, jobs, notes, standing


def apply_computed_effects(cursor: apsw.Cursor, effect: CommandEffect) -> CommandOutcome:
    """Make the changes, and put what came of them into the first delivery."""
    edits = effect.notes.edits if effect.notes is not None else ()
    edited = tuple(notes.edit_notes(cursor, edit=edit) for edit in edits)
    text = (
        effect.notes.reply(edited)
        if effect.notes is not None
        else _apply_job_effects(cursor, effect)
    )
    deliveries = effect.deliveries
    if text is not None:
        deliveries = (msgspec.structs.replace(deliveries[0], text=text), *deliveries[1:])
    sent_off = (
        _start_subagent(cursor, effect.background, at=effect.at) if effect.background else None
    )
    return CommandOutcome(deliveries=deliveries, note_edits=edited, background=sent_off)


def _apply_job_effects(cursor: apsw.Cursor, effect: CommandEffect) -> str | None:
    if (job := effect.new_job) is not None:
        return job.reply(jobs.add_job(cursor, new=job.new, most=job.limit))
    if (skip := effect.skip_runs) is not None:
        return skip.reply(jobs.skip_runs(cursor, job_id=skip.job_id, why=skip.why))
    return None


def _start_subagent(cursor: apsw.Cursor, sent_off: BackgroundStart, *, at: float) -> Accepted:
    child, inbound = sent_off.inbound.subagent, sent_off.inbound
    assert child is not None, "only a child is sent off"
    if sent_off.open_parent is not None:
        parent = _open_parent(cursor, child.parent, sent_off.open_parent, at=at)
        child = msgspec.structs.replace(child, parent=parent, sandbox_session=parent)
        inbound = msgspec.structs.replace(inbound, subagent=child)
    return children.accept_subagent_task(
        cursor,
        child,
        inbound=inbound,
        route=sent_off.route,
        principal=sent_off.principal,
        at=at,
    )


def _open_parent(
    cursor: apsw.Cursor, session_id: SessionId, opens: SessionOpening, *, at: float
) -> SessionId:
    return standing.open_new_session(
        cursor,
        session_id=session_id,
        route=opens.route,
        principal=opens.principal,
        opening=opens.reset,
        at=at,
    )
