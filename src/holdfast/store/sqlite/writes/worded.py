"""What a command does and can only tell of when it is done: the change and its words."""

import apsw
import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Accepted
from holdfast.core.sessions.session import CommandEffect, Settled
from holdfast.core.sessions.worded import Opens, SentOff
from holdfast.store.sqlite.writes import children, jobs, notes, standing


def settle(cursor: apsw.Cursor, effect: CommandEffect) -> Settled:
    """Make the changes, and put what came of them into the first delivery."""
    edits = effect.notes.edits if effect.notes is not None else ()
    edited = tuple(notes.edit(cursor, edit=edit) for edit in edits)
    text = effect.notes.told(edited) if effect.notes is not None else _of_jobs(cursor, effect)
    deliveries = effect.deliveries
    if text is not None:
        deliveries = (msgspec.structs.replace(deliveries[0], text=text), *deliveries[1:])
    sent_off = _send_off(cursor, effect.sent_off, at=effect.at) if effect.sent_off else None
    return Settled(deliveries=deliveries, edited=edited, sent_off=sent_off)


def _of_jobs(cursor: apsw.Cursor, effect: CommandEffect) -> str | None:
    if (job := effect.new_job) is not None:
        return job.told(jobs.add(cursor, new=job.new, most=job.most))
    if (skip := effect.skip) is not None:
        return skip.told(jobs.skip(cursor, job_id=skip.job_id, why=skip.why))
    return None


def _send_off(cursor: apsw.Cursor, sent_off: SentOff, *, at: float) -> Accepted:
    child, inbound = sent_off.inbound.child, sent_off.inbound
    assert child is not None, "only a child is sent off"
    if sent_off.opens is not None:
        parent = _opened(cursor, child.parent, sent_off.opens, at=at)
        child = msgspec.structs.replace(child, parent=parent, bench=parent)
        inbound = msgspec.structs.replace(inbound, child=child)
    return children.accept(
        cursor,
        child,
        inbound=inbound,
        route=sent_off.route,
        principal=sent_off.principal,
        at=at,
    )


def _opened(cursor: apsw.Cursor, session_id: SessionId, opens: Opens, *, at: float) -> SessionId:
    return standing.open_fresh(
        cursor,
        session_id=session_id,
        route=opens.route,
        principal=opens.principal,
        opening=opens.opening,
        at=at,
    )
