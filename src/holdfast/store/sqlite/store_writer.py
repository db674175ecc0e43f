"""Implements the `StoreWriter` port: each method queues one write when it is called.

The SQL of each write is in `writes/`; an audited write is committed together with its audit row.
"""

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from apsw import Cursor

from holdfast.core.config.versions import NewConfigVersion
from holdfast.core.ids import (
    CallId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.jobs.job import Job, JobChange, JobId, NewJob, RunPlan
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound
from holdfast.core.messages.outbox import (
    DeliveryPart,
    DeliveryRow,
    DeliveryState,
    NewDelivery,
    ProactiveDelivery,
)
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ops.stats import MinuteStats
from holdfast.core.people.approval import ApprovalDecision, ApprovalRequest
from holdfast.core.people.audit import GATEWAY_ACTOR, AuditEntry
from holdfast.core.people.memory import NoteEdit, NoteEditResult, OwnerId
from holdfast.core.people.pairing import PairingChange, RefusedMessage
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.sessions.session import (
    CommandEffect,
    CommandOutcome,
    ImportedSession,
    ProcessRow,
    RunnerRow,
)
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.stop import LeftTurn, StopRow
from holdfast.core.turns.turn import BeginTurn, EndTurn, Usage
from holdfast.store.sqlite.writes import (
    approvals,
    audit_log,
    commands,
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
    turns,
)
from holdfast.store.sqlite.writes.transcript import TurnPosition

T = TypeVar("T")

Work = Callable[[Cursor], T]


class WriteQueue(Protocol):
    """Queues a write; its future is resolved when the write is durable."""

    def submit(self, work: Work[T], /) -> Future[T]: ...


class AuditedWrites:
    """Submits every write together with an audit row, in one request."""

    def __init__(self, submit: Callable[[Work[Any]], Future[Any]], entry: AuditEntry) -> None:
        self._submit = submit
        self._entry = entry

    def submit(self, work: Work[T], /) -> Future[T]:
        return self._submit(partial(audit_log.do_audited, work=work, act=self._entry))


_NO_PERMISSIONS: Mapping[CallId, str] = {}


class SqliteStoreWriter:
    """Implements the `StoreWriter` port: each method submits one function of `writes/`."""

    def __init__(self, writer: WriteQueue) -> None:
        self._submit = writer.submit

    def accept(
        self, inbound: Inbound, *, route: SessionKey, principal: PrincipalId, at: float
    ) -> Future[Accepted]:
        details: dict[str, Any] = {
            "inbound": inbound,
            "route": route,
            "principal": principal,
            "at": at,
        }
        if inbound.subagent is not None:
            return self._submit(
                partial(inbox.accept_subagent_task, subagent=inbound.subagent, **details)
            )
        if inbound.run is not None:
            return self._submit(partial(jobs.accept_run, run=inbound.run, **details))
        return self._submit(partial(inbox.accept_message, **details))

    def record_busy_decision(
        self, inbox_id: InboxId, *, session_id: SessionId, decision: BusyMode
    ) -> Future[None]:
        return self._submit(
            partial(
                inbox.record_busy_decision,
                inbox_id=inbox_id,
                session_id=session_id,
                decision=decision,
            )
        )

    def begin_turn(self, begin: BeginTurn) -> Future[None]:
        return self._submit(partial(turns.begin_turn, begin=begin))

    def record_reply(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: AssistantMessage,
        usage: Usage,
        at: float,
    ) -> Future[None]:
        position = TurnPosition(session_id, turn_id, at)
        return self._submit(
            partial(turns.record_reply, position=position, message=message, usage=usage)
        )

    def record_started(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        call_ids: Sequence[CallId],
        allowed: Mapping[CallId, str] = _NO_PERMISSIONS,
        at: float,
    ) -> Future[None]:
        position = TurnPosition(session_id, turn_id, at)
        return self._submit(
            partial(
                turns.record_calls_started,
                position=position,
                call_ids=tuple(call_ids),
                allowed=allowed,
            )
        )

    def record_finished(
        self, turn_id: TurnId, *, session_id: SessionId, message: ToolMessage, at: float
    ) -> Future[None]:
        position = TurnPosition(session_id, turn_id, at)
        return self._submit(partial(turns.record_call_finished, position=position, message=message))

    def record_steer(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        inbox_id: InboxId,
        message: UserMessage,
        at: float,
    ) -> Future[None]:
        position = TurnPosition(session_id, turn_id, at)
        return self._submit(
            partial(turns.record_steer, position=position, inbox_id=inbox_id, message=message)
        )

    def resume_turn(
        self, turn_id: TurnId, *, session_id: SessionId, note: NoteMessage, at: float
    ) -> Future[None]:
        position = TurnPosition(session_id, turn_id, at)
        return self._submit(partial(turns.resume_turn, position=position, note=note))

    def leave_turn(self, left: LeftTurn, *, at: float) -> Future[None]:
        return self._submit(partial(turns.leave_turn, left=left, at=at))

    def continue_turn(self, turn_id: TurnId, *, session_id: SessionId, at: float) -> Future[None]:
        return self._submit(
            partial(turns.continue_turn, position=TurnPosition(session_id, turn_id, at))
        )

    def save_prompt(self, session_id: SessionId, *, prompt: str, fingerprint: str) -> Future[None]:
        keep = partial(
            session_state.save_prompt, session_id=session_id, prompt=prompt, shape=fingerprint
        )
        return self._submit(keep)

    def record_note(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: NoteMessage,
        usage: Usage,
        at: float,
    ) -> Future[None]:
        position = TurnPosition(session_id, turn_id, at)
        return self._submit(
            partial(turns.record_note, position=position, message=message, usage=usage)
        )

    def record_compaction(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: CompactionMessage,
        usage: Usage,
        at: float,
    ) -> Future[None]:
        position = TurnPosition(session_id, turn_id, at)
        return self._submit(
            partial(turns.record_compaction, position=position, message=message, usage=usage)
        )

    def add_auxiliary_usage(
        self, session_id: SessionId, *, task: AuxiliaryTask, usage: Usage
    ) -> Future[None]:
        return self._submit(
            partial(transcript.add_auxiliary_usage, session_id=session_id, errand=task, usage=usage)
        )

    def end_turn(self, end: EndTurn) -> Future[None]:
        return self._submit(partial(turns.end_turn, end=end))

    def end_turn_and_suspend(self, end: EndTurn) -> Future[None]:
        return self._submit(partial(turns.end_turn_and_suspend, end=end))

    def ask_approvals(self, ask: ApprovalRequest) -> Future[None]:
        return self._submit(partial(approvals.request_approvals, ask=ask))

    def decide_approvals(self, decision: ApprovalDecision) -> Future[None]:
        return self._submit(partial(approvals.decide_approvals, decision=decision))

    def refuse_message(self, refused: RefusedMessage) -> Future[Accepted]:
        return self._submit(partial(pairing.refuse_message, away=refused))

    def change_pairing(self, change: PairingChange) -> Future[None]:
        return self._submit(partial(pairing.change_pairing, change=change))

    def apply_command(self, effect: CommandEffect) -> Future[CommandOutcome]:
        return self._submit(partial(commands.apply_command, effect=effect))

    def open_session(
        self, session_id: SessionId, *, route: SessionKey, at: float
    ) -> Future[SessionId]:
        return self._submit(
            partial(session_history.find_or_open_session, session_id=session_id, route=route, at=at)
        )

    def open_new_session(
        self,
        session_id: SessionId,
        *,
        route: SessionKey,
        principal: PrincipalId | None,
        reset: SessionReset | None,
        at: float,
    ) -> Future[SessionId]:
        return self._submit(
            partial(
                session_state.open_new_session,
                session_id=session_id,
                route=route,
                principal=principal,
                opening=reset,
                at=at,
            )
        )

    def mark_resume_pending(self, route: SessionKey, *, reason: str, at: float) -> Future[bool]:
        return self._submit(
            partial(session_state.mark_resume_pending, route=route, reason=reason, at=at)
        )

    def clear_resume_pending(self, route: SessionKey) -> Future[bool]:
        return self._submit(partial(session_state.clear_resume_pending, route=route))

    def suspend_one(self, session_id: SessionId) -> Future[bool]:
        return self._submit(partial(session_state.suspend_session, session_id=session_id))

    def suspend_route(self, route: SessionKey) -> Future[SessionId | None]:
        return self._submit(partial(session_state.suspend_route, route=route))

    def rename_session(self, session_id: SessionId, title: str) -> Future[None]:
        return self._submit(
            partial(session_history.rename_session, session_id=session_id, title=title)
        )

    def replace_session_title(
        self, session_id: SessionId, title: str, *, expected: str
    ) -> Future[bool]:
        return self._submit(
            partial(
                session_history.replace_session_title,
                session_id=session_id,
                title=title,
                instead_of=expected,
            )
        )

    def end_session(self, session_id: SessionId, *, at: float) -> Future[None]:
        return self._submit(partial(session_history.end_session, session_id=session_id, at=at))

    def expire_session(self, session_id: SessionId, *, active_at: float, at: float) -> Future[bool]:
        return self._submit(
            partial(
                session_history.expire_session, session_id=session_id, active_at=active_at, at=at
            )
        )

    def prune_inbox(self, *, before: float) -> Future[int]:
        return self._submit(partial(session_history.prune_inbox, before=before))

    def prune_outbox(self, *, before: float) -> Future[int]:
        return self._submit(partial(session_history.prune_outbox, before=before))

    def import_session(self, imported: ImportedSession) -> Future[None]:
        return self._submit(partial(session_history.import_session, imported=imported))

    def delete_session(
        self, session_id: SessionId, *, inbox_ids: Sequence[InboxId]
    ) -> Future[None]:
        return self._submit(
            partial(
                session_history.delete_session, session_id=session_id, inbox_ids=tuple(inbox_ids)
            )
        )

    def add_deliveries(self, deliveries: Sequence[NewDelivery], *, at: float) -> Future[None]:
        return self._submit(partial(outbox.add_deliveries, deliveries=tuple(deliveries), at=at))

    def add_proactive_message(self, message: ProactiveDelivery) -> Future[bool]:
        return self._submit(partial(outbox.add_proactive_message, proactive=message))

    def begin_stream(self, new: NewDelivery, *, at: float) -> Future[None]:
        return self._submit(partial(outbox.begin_stream, new=new, at=at))

    def begin_part(self, delivery_id: DeliveryId, number: int, *, at: float) -> Future[None]:
        attempt = partial(outbox.begin_part, delivery_id=delivery_id, number=number, at=at)
        return self._submit(attempt)

    def settle_part(
        self, delivery_id: DeliveryId, part: DeliveryPart, *, at: float, error: str = ""
    ) -> Future[None]:
        settle = partial(outbox.settle_part, delivery_id=delivery_id, part=part, error=error, at=at)
        return self._submit(settle)

    def begin_attempt(self, delivery_id: DeliveryId, *, at: float) -> Future[None]:
        return self._submit(partial(outbox.begin_attempt, delivery_id=delivery_id, at=at))

    def requeue_delivery(
        self, delivery_id: DeliveryId, *, by: str = GATEWAY_ACTOR, at: float
    ) -> Future[DeliveryRow | None]:
        return self._submit(partial(outbox.requeue_delivery, delivery_id=delivery_id, by=by, at=at))

    def settle_delivery(
        self,
        delivery_id: DeliveryId,
        state: DeliveryState,
        *,
        at: float,
        platform_message_id: str | None = None,
        error: str = "",
    ) -> Future[None]:
        return self._submit(
            partial(
                outbox.settle_delivery,
                delivery_id=delivery_id,
                state=state,
                at=at,
                platform_message_id=platform_message_id,
                error=error,
            )
        )

    def save_runner(self, runner: RunnerRow) -> Future[None]:
        return self._submit(partial(gateway_state.save_runner, runner=runner))

    def end_runner(self, session_id: SessionId) -> Future[None]:
        return self._submit(partial(gateway_state.end_runner, session_id=session_id))

    def save_process(self, process: ProcessRow) -> Future[None]:
        return self._submit(partial(gateway_state.save_process, process=process))

    def record_stop(self, row: StopRow) -> Future[None]:
        return self._submit(partial(gateway_stops.record_stop, row=row))

    def record_ready(
        self, deliveries: Sequence[NewDelivery], *, at: float, resumed: int = 0
    ) -> Future[None]:
        pending = tuple(deliveries)
        return self._submit(
            partial(gateway_stops.record_ready, deliveries=pending, at=at, resumed=resumed)
        )

    def prune_stops(self, *, keep: int) -> Future[None]:
        return self._submit(partial(gateway_stops.prune_stops, keep=keep))

    def add_job(self, new: NewJob, *, limit: int) -> Future[Job | None]:
        return self._submit(partial(jobs.add_job, new=new, most=limit))

    def change_job(self, change: JobChange) -> Future[bool]:
        return self._submit(partial(jobs.change_job, change=change))

    def plan_runs(self, plan: RunPlan) -> Future[bool]:
        return self._submit(partial(jobs.plan_runs, plan=plan))

    def skip_runs(self, job_id: JobId, *, why: str, run_id: str | None = None) -> Future[int]:
        return self._submit(partial(jobs.skip_runs, job_id=job_id, why=why, run_id=run_id))

    def prune_runs(self, *, before: float) -> Future[int]:
        return self._submit(partial(jobs.prune_runs, before=before))

    def audited(self, entry: AuditEntry) -> "SqliteStoreWriter":
        return SqliteStoreWriter(AuditedWrites(self._submit, entry))

    def record_audit(self, entry: AuditEntry) -> Future[None]:
        return self._submit(partial(audit_log.record, act=entry))

    def prune_audit(self, *, before: float, at: float) -> Future[int]:
        return self._submit(partial(audit_log.prune, before=before, at=at))

    def set_meta(self, key: str, value: str) -> Future[None]:
        return self._submit(partial(gateway_state.set_meta, key=key, value=value))

    def save_configuration(self, new: NewConfigVersion) -> Future[int]:
        return self._submit(partial(gateway_state.save_configuration, new=new))

    def add_minute_stats(self, stats: MinuteStats, *, since: int) -> Future[None]:
        return self._submit(partial(gateway_state.add_minute_stats, minute=stats, since=since))

    def edit_notes(self, edit: NoteEdit) -> Future[NoteEditResult]:
        return self._submit(partial(memory.edit_notes, edit=edit))

    def enable_memory(self, session_id: SessionId, owner: OwnerId) -> Future[None]:
        return self._submit(partial(memory.enable_memory, session_id=session_id, owner=owner))

    def claim_memory_turn(self, turn_id: TurnId, *, provider: str) -> Future[bool]:
        return self._submit(partial(memory.claim_memory_turn, turn_id=turn_id, provider=provider))

    def claim_memory_end(self, session_id: SessionId) -> Future[OwnerId | None]:
        return self._submit(partial(memory.claim_memory_end, session_id=session_id))
