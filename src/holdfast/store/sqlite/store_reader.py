"""Implements the `StoreReader` port: each method runs one query of `reads/` on the reader
thread, never on the writer."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.config.versions import ConfigVersion
from holdfast.core.ids import (
    ApprovalId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.jobs.job import Job, JobId, JobRun, WaitingRun
from holdfast.core.messages.inbox import BusyMode, InboxRow, InboxState, InboxSummary, RouteTarget
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState, QuietChat
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import TranscriptRecord
from holdfast.core.ops.stats import MinuteStats, sum_usage
from holdfast.core.ops.status import Workload
from holdfast.core.people.approval import Approval, ApprovalRule
from holdfast.core.people.audit import AuditChainLink, AuditCheckResult, AuditFilter, AuditRow
from holdfast.core.people.memory import AnsweredTurn, Notebook, OwnerId
from holdfast.core.people.pairing import Pairings
from holdfast.core.sessions.reset import ExpiringSession, ExpiryRule
from holdfast.core.sessions.session import (
    ALL_SESSIONS,
    ProcessRow,
    RunnerRow,
    SessionFilter,
    SessionRow,
)
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.stop import HomeChannel, StopRow
from holdfast.core.turns.subagent import Subagent
from holdfast.core.turns.timeline import TurnDetails, TurnOutline, TurnQuery
from holdfast.core.turns.turn import OpenTurn, StepRow, TurnRow, Usage
from holdfast.store.sqlite.reader import ReaderThread
from holdfast.store.sqlite.reads import approvals as approval_reads
from holdfast.store.sqlite.reads import audit as audit_reads
from holdfast.store.sqlite.reads import inbox as inbox_reads
from holdfast.store.sqlite.reads import jobs as job_reads
from holdfast.store.sqlite.reads import outbox as outbox_reads
from holdfast.store.sqlite.reads import sessions as session_reads
from holdfast.store.sqlite.reads import turns as turn_reads
from holdfast.store.sqlite.writes import (
    audit_log,
    gateway_state,
    gateway_stops,
    memory,
    pairing,
    session_state,
)

if TYPE_CHECKING:  # imported at runtime only when a dashboard asks
    from holdfast.core.turns.timeline import SessionPreview, TranscriptStats

_CHUNK = 1000  # steps per read


class SqliteStoreReader:
    """Implements the `StoreReader` port over a reader thread that it does not own."""

    def __init__(self, reader: ReaderThread) -> None:
        self._read = reader.read

    async def session(self, session_id: SessionId) -> SessionRow | None:
        return await self._read(partial(session_reads.session, session_id=session_id))

    async def sessions(
        self,
        *,
        limit: int,
        offset: int = 0,
        q: str = "",
        platform: str = "",
        include_subagents: bool = False,
        where: SessionFilter = ALL_SESSIONS,
    ) -> list[SessionRow]:
        asked = partial(session_reads.sessions, limit=limit, offset=offset, q=q, platform=platform)
        return await self._read(partial(asked, include_subagents=include_subagents, among=where))

    async def route(self, key: SessionKey) -> SessionId | None:
        """Where a message of this route would go on; None: in a session yet to be opened."""
        return await self._read(partial(session_reads.route, key=key))

    async def route_target(self, key: SessionKey) -> RouteTarget | None:
        return await self._read(partial(session_state.route_target, route=key))

    async def visible_sessions(
        self, *, route: SessionKey, principal: PrincipalId | None, limit: int
    ) -> list[SessionRow]:
        return await self._read(
            partial(session_reads.visible_sessions, route=route, principal=principal, limit=limit)
        )

    async def visible_session(
        self, session_id: SessionId, *, route: SessionKey, principal: PrincipalId | None
    ) -> SessionRow | None:
        return await self._read(
            partial(
                session_reads.visible_session,
                session_id=session_id,
                route=route,
                principal=principal,
            )
        )

    async def last_turn(self, session_id: SessionId) -> TurnRow | None:
        return await self._read(partial(session_reads.last_turn, session_id=session_id))

    async def session_usage(self, session_id: SessionId) -> Usage:
        return await self._read(partial(session_reads.session_usage, session_id=session_id))

    async def visible_usage(self, *, route: SessionKey, principal: PrincipalId | None) -> Usage:
        return await self._read(
            partial(session_reads.visible_usage, route=route, principal=principal)
        )

    async def session_previews(self, session_ids: Sequence[SessionId]) -> "list[SessionPreview]":
        from holdfast.store.sqlite.reads import session_stats  # noqa: PLC0415 - as above

        return await self._read(partial(session_stats.session_summaries, session_ids=session_ids))

    async def session_usage_by_model(self, session_id: SessionId) -> Mapping[str, Usage]:
        from holdfast.store.sqlite.reads import session_stats  # noqa: PLC0415 - as above

        return await self._read(
            partial(session_stats.session_usage_by_model, session_id=session_id)
        )

    async def transcript_stats(
        self, session_id: SessionId, *, first: int, last: int, priced: bool
    ) -> "TranscriptStats":
        from holdfast.store.sqlite.reads import session_stats  # noqa: PLC0415 - as above

        asked = partial(
            session_stats.transcript_stats, session_id=session_id, first=first, last=last
        )
        return await self._read(partial(asked, priced=priced))

    async def transcript(self, session_id: SessionId) -> list[TranscriptRecord]:
        return await self._read(partial(session_reads.transcript_records, session_id=session_id))

    async def context(self, session_id: SessionId) -> tuple[int, list[TranscriptRecord]]:
        return await self._read(partial(session_reads.context, session_id=session_id))

    async def auxiliary_usage(self, session_id: SessionId) -> Mapping[AuxiliaryTask, Usage]:
        return await self._read(partial(session_reads.auxiliary_usage, session_id=session_id))

    async def records(
        self,
        session_id: SessionId,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
    ) -> list[TranscriptRecord]:
        return await self._read(
            partial(
                session_reads.records,
                session_id=session_id,
                limit=limit,
                after=after,
                before=before,
            )
        )

    async def expiring_sessions(
        self, *, expires_at: ExpiryRule, limit: int
    ) -> list[ExpiringSession]:
        return await self._read(
            partial(session_reads.expiring_sessions, deadline=expires_at, limit=limit)
        )

    async def sessions_unused_since(self, *, before: float, limit: int) -> list[SessionId]:
        return await self._read(
            partial(session_reads.sessions_unused_since, before=before, limit=limit)
        )

    async def last_source(self, session_id: SessionId) -> Source | None:
        return await self._read(partial(session_reads.last_source, session_id=session_id))

    async def turn(self, turn_id: TurnId) -> TurnRow | None:
        return await self._read(partial(session_reads.turn, turn_id=turn_id))

    async def steps(self, turn_id: TurnId) -> list[StepRow]:
        return await self._read(partial(session_reads.steps, turn_id=turn_id))

    async def turns(
        self, session_id: SessionId, *, limit: int, before: TurnId | None = None
    ) -> list[TurnOutline]:
        return await self._read(
            partial(turn_reads.turns_of_session, session_id=session_id, limit=limit, before=before)
        )

    async def recent_turns(self, query: TurnQuery) -> list[TurnOutline]:
        return await self._read(partial(turn_reads.recent_turns, choice=query))

    async def turn_details(self, turn_id: TurnId, *, after: int, limit: int) -> TurnDetails | None:
        return await self._read(
            partial(turn_reads.turn_timeline, turn_id=turn_id, after=after, limit=limit)
        )

    async def turn_usage_by_model(self, turn_id: TurnId) -> Mapping[str, Usage]:
        pieces: list[Mapping[str, Usage]] = []
        after = 0
        while True:
            piece, last = await self._read(
                partial(turn_reads.usage_by_model, turn_id=turn_id, after=after, limit=_CHUNK)
            )
            pieces.append(piece)
            if last < after + _CHUNK:
                return sum_usage(pieces)
            after = last

    async def open_turns(self) -> list[OpenTurn]:
        return await self._read(session_reads.open_turns)

    async def approval(self, approval_id: ApprovalId) -> Approval | None:
        return await self._read(partial(approval_reads.approval, approval_id=approval_id))

    async def approvals(
        self, *, limit: int, pending: bool = False, session_id: SessionId | None = None
    ) -> list[Approval]:
        return await self._read(
            partial(approval_reads.approvals, limit=limit, pending=pending, session_id=session_id)
        )

    async def approval_rules(
        self, *, principal: PrincipalId | None = None, rule: str | None = None
    ) -> list[ApprovalRule]:
        return await self._read(
            partial(approval_reads.approval_rules, principal=principal, rule=rule)
        )

    async def queued_messages(self) -> list[InboxRow]:
        return await self._read(inbox_reads.queued_messages)

    async def inbox(
        self, *, state: InboxState | None, offset: int, limit: int
    ) -> list[InboxSummary]:
        return await self._read(
            partial(inbox_reads.list_messages, state=state, offset=offset, limit=limit)
        )

    async def inbox_row(self, inbox_id: InboxId) -> InboxRow | None:
        return await self._read(partial(inbox_reads.inbox_row, inbox_id=inbox_id))

    async def deliveries_for_message(self, inbox_id: InboxId) -> list[DeliveryRow]:
        return await self._read(partial(outbox_reads.deliveries_for_message, inbox_id=inbox_id))

    async def delivery(self, delivery_id: DeliveryId) -> DeliveryRow | None:
        return await self._read(partial(outbox_reads.delivery, delivery_id=delivery_id))

    async def outbox(
        self,
        *,
        state: DeliveryState | None,
        before: int | None,
        limit: int,
        unsent: bool = False,
        platform: str = "",
    ) -> list[DeliveryRow]:
        states = [state] if state else [s for s in DeliveryState if s is not DeliveryState.SENT]
        return await self._read(
            partial(
                outbox_reads.list_deliveries,
                states=states if state or unsent else [],
                platform=platform,
                before=before,
                limit=limit,
            )
        )

    async def undelivered_rows(self) -> list[DeliveryRow]:
        return await self._read(outbox_reads.undelivered_rows)

    async def inbox_counts(self) -> Mapping[InboxState, int]:
        return await self._read(inbox_reads.inbox_counts)

    async def open_messages(self, *, before: float) -> Mapping[InboxId, float]:
        return await self._read(partial(inbox_reads.open_messages, before=before))

    async def outbox_counts(self) -> Mapping[DeliveryState, int]:
        return await self._read(outbox_reads.outbox_counts)

    async def workload(self) -> Workload:
        return await self._read(job_reads.workload)

    async def runners(self) -> list[RunnerRow]:
        return await self._read(session_reads.runners)

    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        return await self._read(partial(session_reads.processes, session_id=session_id))

    async def subagent(self, session_id: SessionId) -> Subagent | None:
        return await self._read(partial(session_reads.subagent, session_id=session_id))

    async def subagents_below(self, session_id: SessionId) -> list[Subagent]:
        return await self._read(partial(session_reads.subagents_below, session_id=session_id))

    async def subagents_usage(self, session_id: SessionId) -> Usage:
        return await self._read(partial(session_reads.subagents_usage, session_id=session_id))

    async def running_subagents(self) -> list[tuple[InboxRow, bool]]:
        return await self._read(session_reads.running_subagents)

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        return await self._read(
            partial(inbox_reads.stream_cursor, platform=platform, account=account, name=name)
        )

    async def busy_mode(self, session_id: SessionId) -> BusyMode | None:
        return await self._read(partial(session_state.busy_mode, session_id=session_id))

    async def turns_superseded_between(
        self, session_id: SessionId, *, reason: str, since: float, until: float
    ) -> list[TurnId]:
        return await self._read(
            partial(
                session_state.turns_superseded_between,
                session_id=session_id,
                reason=reason,
                since=since,
                until=until,
            )
        )

    async def recently_active_sessions(self, *, since: float) -> list[SessionId]:
        return await self._read(partial(session_state.recently_active_sessions, since=since))

    async def open_stops(self) -> list[StopRow]:
        return await self._read(gateway_stops.open_stops)

    async def last_stops(self, *, limit: int, before: str | None = None) -> list[StopRow]:
        return await self._read(partial(gateway_stops.last_stops, limit=limit, before=before))

    async def home_channels(self) -> list[HomeChannel]:
        return await self._read(gateway_stops.home_channels)

    async def quiet_chats(self) -> list[QuietChat]:
        return await self._read(gateway_state.quiet_chats)

    async def pairings(self) -> Pairings:
        return await self._read(pairing.read_pairings)

    async def job(self, job_id: JobId) -> Job | None:
        return await self._read(partial(job_reads.job, job_id=job_id))

    async def jobs(
        self, *, principal: PrincipalId | None = None, limit: int, offset: int = 0
    ) -> list[Job]:
        return await self._read(
            partial(job_reads.jobs, principal=principal, limit=limit, offset=offset)
        )

    async def due_jobs(self, *, by: float, limit: int) -> list[Job]:
        return await self._read(partial(job_reads.due_jobs, by=by, limit=limit))

    async def next_due_job(self) -> int | None:
        return await self._read(job_reads.next_due_job)

    async def waiting_runs(self, *, busy: Sequence[JobId], limit: int) -> list[WaitingRun]:
        return await self._read(partial(job_reads.waiting_runs, busy=tuple(busy), limit=limit))

    async def count_waiting_runs(self, job_id: JobId) -> int:
        return await self._read(partial(job_reads.count_waiting_runs, job_id=job_id))

    async def running_runs(self) -> list[InboxRow]:
        return await self._read(job_reads.running_runs)

    async def runs(self, job_id: JobId, *, limit: int) -> list[JobRun]:
        return await self._read(partial(job_reads.runs, job_id=job_id, limit=limit))

    async def job_run(self, run_id: str) -> JobRun | None:
        return await self._read(partial(job_reads.job_run, run_id=run_id))

    async def audit(self, where: AuditFilter, *, limit: int) -> list[AuditRow]:
        return await self._read(partial(audit_reads.list_rows, where=where, limit=limit))

    async def verify_audit(self) -> AuditCheckResult:
        first = last = await self._read(audit_log.pruned_link)
        rows = forgotten = 0
        broken: list[str] = []
        while (piece := await self._verify_chunk(last)).rows:
            last, rows, forgotten = piece.last, rows + piece.rows, forgotten + piece.forgotten
            broken += piece.broken
        broken += await self._read(audit_reads.unrecorded_pruning)
        return AuditCheckResult(
            rows=rows,
            first=first.seq + 1,
            last=last.seq,
            head=last.hash.hex(),
            forgotten=forgotten,
            broken=tuple(broken),
        )

    async def _verify_chunk(self, last: AuditChainLink) -> audit_reads.ChainCheck:
        return await self._read(partial(audit_reads.verify_chain, behind=last, limit=_CHUNK))

    async def meta(self, key: str) -> str | None:
        return await self._read(partial(session_reads.meta, key=key))

    async def configurations(self, *, before: int | None = None, limit: int) -> list[ConfigVersion]:
        return await self._read(
            partial(gateway_state.list_configurations, before=before, limit=limit)
        )

    async def configuration(self, number: int) -> ConfigVersion | None:
        return await self._read(partial(gateway_state.read_configuration, number=number))

    async def minute_stats(self, *, since: int) -> list[MinuteStats]:
        return await self._read(partial(gateway_state.read_minute_stats, since=since))

    async def notebook(self, owner: OwnerId) -> Notebook:
        return await self._read(partial(memory.notebook, owner=owner))

    async def notebooks(self, *, limit: int, offset: int = 0) -> list[Notebook]:
        return await self._read(partial(memory.notebooks, limit=limit, offset=offset))

    async def memory_owners(self) -> dict[OwnerId, bool]:
        return await self._read(memory.memory_owners)

    async def unsynced_turns(self, provider: str) -> list[AnsweredTurn]:
        return await self._read(partial(memory.unsynced_turns, provider=provider))

    async def memory_owner(self, session_id: SessionId) -> OwnerId | None:
        return await self._read(partial(memory.memory_owner, session_id=session_id))
