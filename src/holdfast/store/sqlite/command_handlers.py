"""Which function of `writes/` carries out which command, and the store's half that writes."""

from asyncio import Future
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from apsw import Cursor

from holdfast.core.config.versions import NewConfigVersion
from holdfast.core.ids import SessionId, TurnId
from holdfast.core.jobs.job import JobChange, RunPlan
from holdfast.core.messages.inbox import Accepted
from holdfast.core.messages.outbox import ProactiveDelivery
from holdfast.core.people.approval import ApprovalDecision, ApprovalRequest
from holdfast.core.people.audit import AuditEntry
from holdfast.core.people.memory import NoteEdit
from holdfast.core.people.pairing import PairingChange, RefusedMessage
from holdfast.core.ports import store_commands as c
from holdfast.core.ports.command import Command
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.turn import BeginTurn, EndTurn
from holdfast.store.events import CommandEvents
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

R = TypeVar("R")
C = TypeVar("C", bound=Command[Any])

Work = Callable[[Cursor], R]
Handler = Callable[[Cursor, Any], Any]


class WriteQueue(Protocol):
    """Queues a write; its future is resolved when the write is durable."""

    @property
    def events(self) -> CommandEvents: ...

    def submit(
        self, work: Work[R], command: Command[R] | None = None, *, deferred: bool = False
    ) -> Future[R]: ...


class SqliteStoreWriter:
    """Implements the `StoreWriter` port over a queue that it does not own."""

    def __init__(self, writer: WriteQueue) -> None:
        self._submit = writer.submit
        self.events = writer.events

    def write(
        self, command: Command[R], *, audit: AuditEntry | None = None, deferred: bool = False
    ) -> Future[R]:
        handler = COMMAND_HANDLERS[type(command)]
        if audit is not None:
            handler = partial(audit_log.run_audited, handler=handler, entry=audit)
        return self._submit(lambda cursor: handler(cursor, command), command, deferred=deferred)


class _TurnCommand(Protocol):
    @property
    def session_id(self) -> SessionId: ...
    @property
    def turn_id(self) -> TurnId: ...
    @property
    def at(self) -> float: ...


def _position(command: _TurnCommand) -> TurnPosition:
    return TurnPosition(command.session_id, command.turn_id, command.at)


def _accept(cursor: Cursor, command: c.AcceptMessage) -> Accepted:
    inbound = command.inbound
    row: dict[str, Any] = {
        "inbound": inbound,
        "route": command.route,
        "principal": command.principal,
        "at": command.at,
    }
    if inbound.subagent is not None:
        return inbox.accept_subagent_task(cursor, inbound.subagent, **row)
    if inbound.run is not None:
        return jobs.accept_run(cursor, run=inbound.run, **row)
    return inbox.accept_message(cursor, **row, spoken_into=command.spoken_into)


def _handle(
    kind: type[C], handler: Callable[[Cursor, C], Any]
) -> tuple[type[Command[Any]], Handler]:
    """A row of the table. Typed: the fields that a handler uses are those of its command."""
    return kind, handler


COMMAND_HANDLERS: Mapping[type[Command[Any]], Handler] = dict(
    (
        # The inbox.
        _handle(c.AcceptMessage, _accept),
        _handle(
            c.RecordBusyDecision,
            lambda cursor, x: inbox.record_busy_decision(
                cursor, inbox_id=x.inbox_id, session_id=x.session_id, decision=x.decision
            ),
        ),
        _handle(RefusedMessage, lambda cursor, x: pairing.refuse_message(cursor, away=x)),
        _handle(
            c.PruneInbox, lambda cursor, x: session_history.prune_inbox(cursor, before=x.before)
        ),
        # Turns.
        _handle(BeginTurn, turns.begin_turn),
        _handle(
            c.RecordReply,
            lambda cursor, x: turns.record_reply(
                cursor,
                position=_position(x),
                message=x.message,
                usage=x.usage,
                started=x.started,
                allowed=x.allowed,
            ),
        ),
        _handle(
            c.RecordCallsStarted,
            lambda cursor, x: turns.record_calls_started(
                cursor, position=_position(x), call_ids=tuple(x.call_ids), allowed=x.allowed
            ),
        ),
        _handle(
            c.RecordCallResult,
            lambda cursor, x: turns.record_call_finished(
                cursor, position=_position(x), message=x.message
            ),
        ),
        _handle(
            c.RecordSteer,
            lambda cursor, x: turns.record_steer(
                cursor, position=_position(x), inbox_id=x.inbox_id, message=x.message
            ),
        ),
        _handle(
            c.RecordNote,
            lambda cursor, x: turns.record_note(
                cursor, position=_position(x), message=x.message, usage=x.usage
            ),
        ),
        _handle(
            c.RecordCompaction,
            lambda cursor, x: turns.record_compaction(
                cursor, position=_position(x), message=x.message, usage=x.usage
            ),
        ),
        _handle(
            c.ResumeTurn,
            lambda cursor, x: turns.resume_turn(cursor, position=_position(x), note=x.note),
        ),
        _handle(
            c.ContinueTurn, lambda cursor, x: turns.continue_turn(cursor, position=_position(x))
        ),
        _handle(
            c.ParkTurn,
            lambda cursor, x: turns.park_turn(cursor, position=_position(x)),
        ),
        _handle(EndTurn, turns.end_turn),
        _handle(
            c.AddAuxiliaryUsage,
            lambda cursor, x: transcript.add_auxiliary_usage(
                cursor, session_id=x.session_id, errand=x.task, usage=x.usage
            ),
        ),
        _handle(
            c.CountModelUsage,
            lambda cursor, x: transcript.count_model_usage(cursor, x.session_id),
        ),
        # Approvals, people and what people order.
        _handle(ApprovalRequest, lambda cursor, x: approvals.request_approvals(cursor, ask=x)),
        _handle(ApprovalDecision, lambda cursor, x: approvals.decide_approvals(cursor, decision=x)),
        _handle(PairingChange, lambda cursor, x: pairing.change_pairing(cursor, change=x)),
        _handle(CommandEffect, lambda cursor, x: commands.apply_command(cursor, effect=x)),
        _handle(NoteEdit, lambda cursor, x: memory.edit_notes(cursor, edit=x)),
        _handle(
            c.EnableMemory,
            lambda cursor, x: memory.enable_memory(cursor, session_id=x.session_id, owner=x.owner),
        ),
        _handle(
            c.ClaimMemoryTurn,
            lambda cursor, x: memory.claim_memory_turn(
                cursor, x.session_id, turn_id=x.turn_id, provider=x.provider
            ),
        ),
        _handle(
            c.RequestMemoryEnd,
            lambda cursor, x: memory.request_memory_end(
                cursor, x.session_id, providers=x.providers
            ),
        ),
        _handle(
            c.RecordMemoryEnd,
            lambda cursor, x: memory.record_memory_end(
                cursor, x.session_id, provider=x.provider, end_id=x.end_id
            ),
        ),
        # Sessions.
        _handle(
            c.OpenSession,
            lambda cursor, x: session_history.find_or_open_session(
                cursor, session_id=x.session_id, route=x.route, at=x.at
            ),
        ),
        _handle(
            c.OpenNewSession,
            lambda cursor, x: session_state.open_new_session(
                cursor,
                session_id=x.session_id,
                route=x.route,
                principal=x.principal,
                opening=x.reset,
                at=x.at,
            ),
        ),
        _handle(
            c.SavePrompt,
            lambda cursor, x: session_state.save_prompt(
                cursor, session_id=x.session_id, prompt=x.prompt, shape=x.fingerprint
            ),
        ),
        _handle(c.MarkResumePending, turns.mark_resume_pending),
        _handle(
            c.ClearResumePending,
            lambda cursor, x: session_state.clear_resume_pending(
                cursor, x.session_id, route=x.route
            ),
        ),
        _handle(
            c.SuspendSession,
            lambda cursor, x: session_state.suspend_session(cursor, session_id=x.session_id),
        ),
        _handle(
            c.RenameSession,
            lambda cursor, x: session_history.rename_session(
                cursor, session_id=x.session_id, title=x.title
            ),
        ),
        _handle(
            c.ReplaceSessionTitle,
            lambda cursor, x: session_history.replace_session_title(
                cursor, session_id=x.session_id, title=x.title, instead_of=x.expected
            ),
        ),
        _handle(
            c.EndSession,
            lambda cursor, x: session_state.end_session(cursor, session_id=x.session_id, at=x.at),
        ),
        _handle(
            c.ExpireSession,
            lambda cursor, x: session_history.expire_session(
                cursor, session_id=x.session_id, active_at=x.active_at, at=x.at
            ),
        ),
        _handle(
            c.ImportSession,
            lambda cursor, x: session_history.import_session(cursor, imported=x.imported),
        ),
        _handle(
            c.DeleteSession,
            lambda cursor, x: session_history.delete_session(cursor, session_id=x.session_id),
        ),
        _handle(
            c.ForgetMessageChanges,
            lambda cursor, x: session_history.forget_changes(cursor, session_id=x.session_id),
        ),
        # The outbox.
        _handle(
            c.AddDeliveries,
            lambda cursor, x: outbox.add_deliveries(cursor, x.deliveries, at=x.at),
        ),
        _handle(
            ProactiveDelivery, lambda cursor, x: outbox.add_proactive_message(cursor, proactive=x)
        ),
        _handle(c.BeginStream, lambda cursor, x: outbox.begin_stream(cursor, new=x.new, at=x.at)),
        _handle(
            c.BeginPart,
            lambda cursor, x: outbox.begin_part(
                cursor, delivery_id=x.delivery_id, number=x.number, at=x.at
            ),
        ),
        _handle(
            c.SettlePart,
            lambda cursor, x: outbox.settle_part(
                cursor, delivery_id=x.delivery_id, part=x.part, error=x.error, at=x.at
            ),
        ),
        _handle(
            c.BeginAttempt,
            lambda cursor, x: outbox.begin_attempt(cursor, delivery_id=x.delivery_id, at=x.at),
        ),
        _handle(
            c.SettleDelivery,
            lambda cursor, x: outbox.settle_delivery(
                cursor,
                delivery_id=x.delivery_id,
                state=x.state,
                at=x.at,
                platform_message_id=x.platform_message_id,
                error=x.error,
                part=x.part,
            ),
        ),
        _handle(
            c.ReportFailedDelivery,
            lambda cursor, x: outbox.report_failed_delivery(cursor, end=x.end, report=x.report),
        ),
        _handle(
            c.RequeueDelivery,
            lambda cursor, x: outbox.requeue_delivery(
                cursor, delivery_id=x.delivery_id, by=x.by, at=x.at
            ),
        ),
        _handle(
            c.PruneOutbox, lambda cursor, x: session_history.prune_outbox(cursor, before=x.before)
        ),
        # Runners and processes.
        _handle(c.SaveRunner, lambda cursor, x: gateway_state.save_runner(cursor, x.runner)),
        _handle(c.EndRunner, lambda cursor, x: gateway_state.end_runner(cursor, x.session_id)),
        _handle(c.SaveProcess, lambda cursor, x: gateway_state.save_process(cursor, x.process)),
        # Jobs.
        _handle(c.AddJob, lambda cursor, x: jobs.add_job(cursor, new=x.new, most=x.limit)),
        _handle(JobChange, lambda cursor, x: jobs.change_job(cursor, change=x)),
        _handle(RunPlan, lambda cursor, x: jobs.plan_runs(cursor, plan=x)),
        _handle(
            c.SkipRuns,
            lambda cursor, x: jobs.skip_runs(cursor, job_id=x.job_id, why=x.why, run_id=x.run_id),
        ),
        _handle(c.PruneRuns, lambda cursor, x: jobs.prune_runs(cursor, before=x.before)),
        # The gateway itself.
        _handle(c.RecordStop, lambda cursor, x: gateway_stops.record_stop(cursor, row=x.row)),
        _handle(
            c.RecordReady,
            lambda cursor, x: gateway_stops.record_ready(
                cursor, deliveries=tuple(x.deliveries), at=x.at, resumed=x.resumed
            ),
        ),
        _handle(c.PruneStops, lambda cursor, x: gateway_stops.prune_stops(cursor, keep=x.keep)),
        _handle(
            c.SetMeta, lambda cursor, x: gateway_state.set_meta(cursor, key=x.key, value=x.value)
        ),
        _handle(
            NewConfigVersion, lambda cursor, x: gateway_state.save_configuration(cursor, new=x)
        ),
        _handle(
            c.AddMinuteStats,
            lambda cursor, x: gateway_state.add_minute_stats(cursor, minute=x.stats, since=x.since),
        ),
        _handle(c.RecordAudit, lambda cursor, x: audit_log.record(cursor, x.entry)),
        _handle(c.PruneAudit, lambda cursor, x: audit_log.prune(cursor, before=x.before, at=x.at)),
    )
)
