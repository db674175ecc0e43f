"""The writing half of the port: each method queues its write when it is called."""

from asyncio import Future
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.core.config.kept_configuration import NewConfiguration
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
from holdfast.core.messages.message import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState, NewDelivery, Part
from holdfast.core.messages.saying import Said
from holdfast.core.ops.minute import Minute
from holdfast.core.people.approval import Ask, Decision
from holdfast.core.people.audit import GATEWAY, Act
from holdfast.core.people.memory import Edit, Edited, OwnerId
from holdfast.core.people.pairing import PairingChange, TurnAway
from holdfast.core.sessions.reset import Opening
from holdfast.core.sessions.session import (
    CommandEffect,
    ImportedSession,
    ProcessRow,
    RunnerRow,
    Settled,
)
from holdfast.core.turns.auxiliary import Errand
from holdfast.core.turns.stop import Left, StopRow
from holdfast.core.turns.turn import BeginTurn, EndTurn, Usage
from holdfast.store.sqlite.acting import Acting, Submits
from holdfast.store.sqlite.writes import (
    approvals,
    audit,
    bench,
    children,
    commands,
    compactions,
    configurations,
    expiry,
    inbox,
    jobs,
    meta,
    minutes,
    notes,
    outbox,
    pairing,
    saying,
    sessions,
    standing,
    stopping,
    streams,
    turns,
    unsynced,
    whole_sessions,
)
from holdfast.store.sqlite.writes.transcript import Place

_NOTHING: Mapping[CallId, str] = {}


class SqliteJournal:
    """`core.ports.Journal` over a writer it is lent."""

    def __init__(self, writer: Submits) -> None:
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
        if inbound.child is not None:
            return self._submit(partial(children.accept, child=inbound.child, **details))
        if inbound.run is not None:
            return self._submit(partial(jobs.accept, run=inbound.run, **details))
        return self._submit(partial(inbox.accept, **details))

    def decide(
        self, inbox_id: InboxId, *, session_id: SessionId, decision: BusyMode
    ) -> Future[None]:
        return self._submit(
            partial(inbox.decide, inbox_id=inbox_id, session_id=session_id, decision=decision)
        )

    def begin_turn(self, begin: BeginTurn) -> Future[None]:
        return self._submit(partial(turns.begin, begin=begin))

    def record_reply(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: AssistantMessage,
        usage: Usage,
        at: float,
    ) -> Future[None]:
        place = Place(session_id, turn_id, at)
        return self._submit(partial(turns.reply, place=place, message=message, usage=usage))

    def record_started(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        call_ids: Sequence[CallId],
        allowed: Mapping[CallId, str] = _NOTHING,
        at: float,
    ) -> Future[None]:
        place = Place(session_id, turn_id, at)
        return self._submit(
            partial(turns.started, place=place, call_ids=tuple(call_ids), allowed=allowed)
        )

    def record_finished(
        self, turn_id: TurnId, *, session_id: SessionId, message: ToolMessage, at: float
    ) -> Future[None]:
        place = Place(session_id, turn_id, at)
        return self._submit(partial(turns.finished, place=place, message=message))

    def record_steer(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        inbox_id: InboxId,
        message: UserMessage,
        at: float,
    ) -> Future[None]:
        place = Place(session_id, turn_id, at)
        return self._submit(partial(turns.steer, place=place, inbox_id=inbox_id, message=message))

    def resume_turn(
        self, turn_id: TurnId, *, session_id: SessionId, note: NoteMessage, at: float
    ) -> Future[None]:
        place = Place(session_id, turn_id, at)
        return self._submit(partial(turns.resume, place=place, note=note))

    def leave_turn(self, left: Left, *, at: float) -> Future[None]:
        return self._submit(partial(turns.leave, left=left, at=at))

    def go_on_turn(self, turn_id: TurnId, *, session_id: SessionId, at: float) -> Future[None]:
        return self._submit(partial(turns.go_on, place=Place(session_id, turn_id, at)))

    def keep_prompt(self, session_id: SessionId, *, prompt: str, shape: str) -> Future[None]:
        keep = partial(sessions.keep_prompt, session_id=session_id, prompt=prompt, shape=shape)
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
        place = Place(session_id, turn_id, at)
        return self._submit(partial(turns.note, place=place, message=message, usage=usage))

    def record_compaction(
        self,
        turn_id: TurnId,
        *,
        session_id: SessionId,
        message: CompactionMessage,
        usage: Usage,
        at: float,
    ) -> Future[None]:
        place = Place(session_id, turn_id, at)
        return self._submit(partial(turns.compaction, place=place, message=message, usage=usage))

    def count_auxiliary(
        self, session_id: SessionId, *, errand: Errand, usage: Usage
    ) -> Future[None]:
        return self._submit(
            partial(compactions.count, session_id=session_id, errand=errand, usage=usage)
        )

    def end_turn(self, end: EndTurn) -> Future[None]:
        return self._submit(partial(turns.end, end=end))

    def suspend_session(self, end: EndTurn) -> Future[None]:
        return self._submit(partial(turns.suspend, end=end))

    def ask_approvals(self, ask: Ask) -> Future[None]:
        return self._submit(partial(approvals.ask, ask=ask))

    def decide_approvals(self, decision: Decision) -> Future[None]:
        return self._submit(partial(approvals.decide, decision=decision))

    def turn_away(self, away: TurnAway) -> Future[Accepted]:
        return self._submit(partial(pairing.turn_away, away=away))

    def change_pairing(self, change: PairingChange) -> Future[None]:
        return self._submit(partial(pairing.change, change=change))

    def settle_command(self, effect: CommandEffect) -> Future[Settled]:
        return self._submit(partial(commands.settle, effect=effect))

    def open_session(
        self, session_id: SessionId, *, route: SessionKey, at: float
    ) -> Future[SessionId]:
        return self._submit(
            partial(whole_sessions.find_or_open, session_id=session_id, route=route, at=at)
        )

    def open_fresh(
        self,
        session_id: SessionId,
        *,
        route: SessionKey,
        principal: PrincipalId | None,
        opening: Opening | None,
        at: float,
    ) -> Future[SessionId]:
        return self._submit(
            partial(
                standing.open_fresh,
                session_id=session_id,
                route=route,
                principal=principal,
                opening=opening,
                at=at,
            )
        )

    def mark_resume_pending(self, route: SessionKey, *, reason: str, at: float) -> Future[bool]:
        return self._submit(partial(standing.mark, route=route, reason=reason, at=at))

    def clear_resume_pending(self, route: SessionKey) -> Future[bool]:
        return self._submit(partial(standing.clear, route=route))

    def suspend_one(self, session_id: SessionId) -> Future[bool]:
        return self._submit(partial(standing.suspend_one, session_id=session_id))

    def suspend_route(self, route: SessionKey) -> Future[SessionId | None]:
        return self._submit(partial(standing.suspend, route=route))

    def rename_session(self, session_id: SessionId, title: str) -> Future[None]:
        return self._submit(partial(whole_sessions.rename, session_id=session_id, title=title))

    def retitle_session(
        self, session_id: SessionId, title: str, *, instead_of: str
    ) -> Future[bool]:
        return self._submit(
            partial(
                whole_sessions.retitle, session_id=session_id, title=title, instead_of=instead_of
            )
        )

    def end_session(self, session_id: SessionId, *, at: float) -> Future[None]:
        return self._submit(partial(whole_sessions.end, session_id=session_id, at=at))

    def expire_session(self, session_id: SessionId, *, active_at: float, at: float) -> Future[bool]:
        return self._submit(
            partial(expiry.expire, session_id=session_id, active_at=active_at, at=at)
        )

    def prune_inbox(self, *, before: float) -> Future[int]:
        return self._submit(partial(expiry.prune_inbox, before=before))

    def prune_outbox(self, *, before: float) -> Future[int]:
        return self._submit(partial(expiry.prune_outbox, before=before))

    def import_session(self, imported: ImportedSession) -> Future[None]:
        return self._submit(partial(whole_sessions.take_in, imported=imported))

    def delete_session(
        self, session_id: SessionId, *, inbox_ids: Sequence[InboxId]
    ) -> Future[None]:
        return self._submit(
            partial(whole_sessions.delete, session_id=session_id, inbox_ids=tuple(inbox_ids))
        )

    def add_deliveries(self, deliveries: Sequence[NewDelivery], *, at: float) -> Future[None]:
        return self._submit(partial(outbox.add, deliveries=tuple(deliveries), at=at))

    def say(self, said: Said) -> Future[bool]:
        return self._submit(partial(saying.say, said=said))

    def begin_stream(self, new: NewDelivery, *, at: float) -> Future[None]:
        return self._submit(partial(streams.begin, new=new, at=at))

    def begin_part(self, delivery_id: DeliveryId, number: int, *, at: float) -> Future[None]:
        attempt = partial(streams.attempt, delivery_id=delivery_id, number=number, at=at)
        return self._submit(attempt)

    def settle_part(
        self, delivery_id: DeliveryId, part: Part, *, at: float, error: str = ""
    ) -> Future[None]:
        settle = partial(streams.settle, delivery_id=delivery_id, part=part, error=error, at=at)
        return self._submit(settle)

    def begin_attempt(self, delivery_id: DeliveryId, *, at: float) -> Future[None]:
        return self._submit(partial(outbox.begin_attempt, delivery_id=delivery_id, at=at))

    def owe_again(
        self, delivery_id: DeliveryId, *, by: str = GATEWAY, at: float
    ) -> Future[DeliveryRow | None]:
        return self._submit(partial(outbox.owe_again, delivery_id=delivery_id, by=by, at=at))

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
                outbox.settle,
                delivery_id=delivery_id,
                state=state,
                at=at,
                platform_message_id=platform_message_id,
                error=error,
            )
        )

    def save_runner(self, runner: RunnerRow) -> Future[None]:
        return self._submit(partial(bench.save_runner, runner=runner))

    def end_runner(self, session_id: SessionId) -> Future[None]:
        return self._submit(partial(bench.end_runner, session_id=session_id))

    def save_process(self, process: ProcessRow) -> Future[None]:
        return self._submit(partial(bench.save_process, process=process))

    def record_stop(self, row: StopRow) -> Future[None]:
        return self._submit(partial(stopping.record, row=row))

    def record_back(
        self, deliveries: Sequence[NewDelivery], *, at: float, resumed: int = 0
    ) -> Future[None]:
        owed = tuple(deliveries)
        return self._submit(partial(stopping.back, deliveries=owed, at=at, resumed=resumed))

    def prune_stops(self, *, keep: int) -> Future[None]:
        return self._submit(partial(stopping.prune, keep=keep))

    def add_job(self, new: NewJob, *, most: int) -> Future[Job | None]:
        return self._submit(partial(jobs.add, new=new, most=most))

    def change_job(self, change: JobChange) -> Future[bool]:
        return self._submit(partial(jobs.change, change=change))

    def plan_runs(self, plan: RunPlan) -> Future[bool]:
        return self._submit(partial(jobs.plan, plan=plan))

    def skip_runs(self, job_id: JobId, *, why: str, run_id: str | None = None) -> Future[int]:
        return self._submit(partial(jobs.skip, job_id=job_id, why=why, run_id=run_id))

    def prune_runs(self, *, before: float) -> Future[int]:
        return self._submit(partial(jobs.prune, before=before))

    def acting(self, act: Act) -> "SqliteJournal":
        return SqliteJournal(Acting(self._submit, act))

    def record_act(self, act: Act) -> Future[None]:
        return self._submit(partial(audit.record, act=act))

    def prune_audit(self, *, before: float, at: float) -> Future[int]:
        return self._submit(partial(audit.prune, before=before, at=at))

    def set_meta(self, key: str, value: str) -> Future[None]:
        return self._submit(partial(meta.put, key=key, value=value))

    def keep_configuration(self, new: NewConfiguration) -> Future[int]:
        return self._submit(partial(configurations.keep, new=new))

    def keep_minute(self, minute: Minute, *, since: int) -> Future[None]:
        return self._submit(partial(minutes.keep, minute=minute, since=since))

    def edit_notes(self, edit: Edit) -> Future[Edited]:
        return self._submit(partial(notes.edit, edit=edit))

    def enrol_memory(self, session_id: SessionId, owner: OwnerId) -> Future[None]:
        return self._submit(partial(notes.enrol, session_id=session_id, owner=owner))

    def claim_memory_turn(self, turn_id: TurnId, *, provider: str) -> Future[bool]:
        return self._submit(partial(unsynced.claim, turn_id=turn_id, provider=provider))

    def claim_memory_end(self, session_id: SessionId) -> Future[OwnerId | None]:
        return self._submit(partial(notes.claim_end, session_id=session_id))
