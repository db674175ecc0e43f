"""The reading half of the port: each method asks a reader, never the writer."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.config.kept_configuration import KeptConfiguration
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
from holdfast.core.messages.inbox import BusyMode, InboxGist, InboxRow, InboxState, Pointed
from holdfast.core.messages.message import Record
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.core.messages.quiet import QuietChat
from holdfast.core.messages.source import Source
from holdfast.core.ops.minute import Minute, joined_usage
from holdfast.core.ops.workload import Workload
from holdfast.core.people.approval import Approval, StandingRule
from holdfast.core.people.audit import AuditFilter, AuditRow, Link, Verified
from holdfast.core.people.memory import AnsweredTurn, Notebook, OwnerId
from holdfast.core.people.pairing import Pairings
from holdfast.core.sessions.reset import Deadline, Expiring
from holdfast.core.sessions.session import (
    ALL_SESSIONS,
    ProcessRow,
    RunnerRow,
    SessionFilter,
    SessionRow,
)
from holdfast.core.turns.auxiliary import Errand
from holdfast.core.turns.stop import HomeChannel, StopRow
from holdfast.core.turns.subagent import Child
from holdfast.core.turns.timeline import Course, TurnChoice, TurnOutline
from holdfast.core.turns.turn import OpenTurn, StepRow, TurnRow, Usage
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.reads import approvals as approval_reads
from holdfast.store.sqlite.reads import audit as audit_reads
from holdfast.store.sqlite.reads import (
    child_reads,
    expiry_reads,
    job_reads,
    reads,
    session_reads,
    workload_reads,
)
from holdfast.store.sqlite.reads import inbox as inbox_reads
from holdfast.store.sqlite.reads import outbox as outbox_reads
from holdfast.store.sqlite.reads import turns as timeline_reads
from holdfast.store.sqlite.writes import (
    audit,
    busy,
    configurations,
    minutes,
    notes,
    pairing,
    quiet,
    standing,
    stopping,
    unsynced,
)

if TYPE_CHECKING:  # read for who looks at a dashboard, and imported for them
    from holdfast.core.turns.figures import Figures, SessionGist

_PIECE = 1000  # steps that are read at once


class SqliteLibrary:
    """`core.ports.Library` over a reader it is lent."""

    def __init__(self, reader: Reader) -> None:
        self._read = reader.read

    async def session(self, session_id: SessionId) -> SessionRow | None:
        return await self._read(partial(reads.session, session_id=session_id))

    async def sessions(
        self,
        *,
        limit: int,
        offset: int = 0,
        q: str = "",
        platform: str = "",
        children: bool = False,
        among: SessionFilter = ALL_SESSIONS,
    ) -> list[SessionRow]:
        asked = partial(reads.sessions, limit=limit, offset=offset, q=q, platform=platform)
        return await self._read(partial(asked, children=children, among=among))

    async def route(self, key: SessionKey) -> SessionId | None:
        """Where a message of this route would go on; None: in a session yet to be opened."""
        return await self._read(partial(reads.route, key=key))

    async def pointed(self, key: SessionKey) -> Pointed | None:
        return await self._read(partial(standing.pointed, route=key))

    async def reached(
        self, *, route: SessionKey, principal: PrincipalId | None, limit: int
    ) -> list[SessionRow]:
        return await self._read(
            partial(session_reads.reached, route=route, principal=principal, limit=limit)
        )

    async def reaches(
        self, session_id: SessionId, *, route: SessionKey, principal: PrincipalId | None
    ) -> SessionRow | None:
        return await self._read(
            partial(session_reads.reaches, session_id=session_id, route=route, principal=principal)
        )

    async def last_turn(self, session_id: SessionId) -> TurnRow | None:
        return await self._read(partial(session_reads.last_turn, session_id=session_id))

    async def session_usage(self, session_id: SessionId) -> Usage:
        return await self._read(partial(session_reads.session_usage, session_id=session_id))

    async def reached_usage(self, *, route: SessionKey, principal: PrincipalId | None) -> Usage:
        return await self._read(
            partial(session_reads.reached_usage, route=route, principal=principal)
        )

    async def gists(self, session_ids: Sequence[SessionId]) -> "list[SessionGist]":
        from holdfast.store.sqlite.reads import session_stats  # noqa: PLC0415 - as above

        return await self._read(partial(session_stats.gists, session_ids=session_ids))

    async def session_used(self, session_id: SessionId) -> Mapping[str, Usage]:
        from holdfast.store.sqlite.reads import session_stats as figure_reads  # noqa: PLC0415 - as above

        return await self._read(partial(figure_reads.session_used, session_id=session_id))

    async def figures(
        self, session_id: SessionId, *, first: int, last: int, priced: bool
    ) -> "Figures":
        from holdfast.store.sqlite.reads import session_stats as figure_reads  # noqa: PLC0415 - as above

        asked = partial(figure_reads.figures, session_id=session_id, first=first, last=last)
        return await self._read(partial(asked, priced=priced))

    async def transcript(self, session_id: SessionId) -> list[Record]:
        return await self._read(partial(reads.messages, session_id=session_id))

    async def context(self, session_id: SessionId) -> tuple[int, list[Record]]:
        return await self._read(partial(reads.context, session_id=session_id))

    async def auxiliary_usage(self, session_id: SessionId) -> Mapping[Errand, Usage]:
        return await self._read(partial(reads.auxiliary_usage, session_id=session_id))

    async def records(
        self,
        session_id: SessionId,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
    ) -> list[Record]:
        return await self._read(
            partial(reads.records, session_id=session_id, limit=limit, after=after, before=before)
        )

    async def expiring(self, *, deadline: Deadline, limit: int) -> list[Expiring]:
        return await self._read(partial(expiry_reads.expiring, deadline=deadline, limit=limit))

    async def unused_since(self, *, before: float, limit: int) -> list[SessionId]:
        return await self._read(partial(expiry_reads.unused_since, before=before, limit=limit))

    async def last_source(self, session_id: SessionId) -> Source | None:
        return await self._read(partial(session_reads.last_source, session_id=session_id))

    async def turn(self, turn_id: TurnId) -> TurnRow | None:
        return await self._read(partial(reads.turn, turn_id=turn_id))

    async def steps(self, turn_id: TurnId) -> list[StepRow]:
        return await self._read(partial(reads.steps, turn_id=turn_id))

    async def turns(
        self, session_id: SessionId, *, limit: int, before: TurnId | None = None
    ) -> list[TurnOutline]:
        return await self._read(
            partial(timeline_reads.of_session, session_id=session_id, limit=limit, before=before)
        )

    async def recent_turns(self, choice: TurnChoice) -> list[TurnOutline]:
        return await self._read(partial(timeline_reads.recent, choice=choice))

    async def course(self, turn_id: TurnId, *, after: int, limit: int) -> Course | None:
        return await self._read(
            partial(timeline_reads.course, turn_id=turn_id, after=after, limit=limit)
        )

    async def turn_used(self, turn_id: TurnId) -> Mapping[str, Usage]:
        pieces: list[Mapping[str, Usage]] = []
        after = 0
        while True:
            piece, last = await self._read(
                partial(timeline_reads.used, turn_id=turn_id, after=after, limit=_PIECE)
            )
            pieces.append(piece)
            if last < after + _PIECE:
                return joined_usage(pieces)
            after = last

    async def open_turns(self) -> list[OpenTurn]:
        return await self._read(reads.open_turns)

    async def approval(self, approval_id: ApprovalId) -> Approval | None:
        return await self._read(partial(approval_reads.approval, approval_id=approval_id))

    async def approvals(
        self, *, limit: int, pending: bool = False, session_id: SessionId | None = None
    ) -> list[Approval]:
        return await self._read(
            partial(approval_reads.approvals, limit=limit, pending=pending, session_id=session_id)
        )

    async def standing_rules(
        self, *, principal: PrincipalId | None = None, rule: str | None = None
    ) -> list[StandingRule]:
        return await self._read(
            partial(approval_reads.standing_rules, principal=principal, rule=rule)
        )

    async def queued(self) -> list[InboxRow]:
        return await self._read(inbox_reads.queued)

    async def inbox(self, *, state: InboxState | None, offset: int, limit: int) -> list[InboxGist]:
        return await self._read(
            partial(inbox_reads.listed, state=state, offset=offset, limit=limit)
        )

    async def inbox_row(self, inbox_id: InboxId) -> InboxRow | None:
        return await self._read(partial(inbox_reads.row, inbox_id=inbox_id))

    async def answers(self, inbox_id: InboxId) -> list[DeliveryRow]:
        return await self._read(partial(outbox_reads.answers, inbox_id=inbox_id))

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
                outbox_reads.listed,
                states=states if state or unsent else [],
                platform=platform,
                before=before,
                limit=limit,
            )
        )

    async def undelivered(self) -> list[DeliveryRow]:
        return await self._read(outbox_reads.undelivered)

    async def ledger(self) -> Mapping[InboxState, int]:
        return await self._read(inbox_reads.ledger)

    async def open_messages(self, *, before: float) -> Mapping[InboxId, float]:
        return await self._read(partial(inbox_reads.open_messages, before=before))

    async def outbox_ledger(self) -> Mapping[DeliveryState, int]:
        return await self._read(outbox_reads.ledger)

    async def workload(self) -> Workload:
        return await self._read(workload_reads.workload)

    async def runners(self) -> list[RunnerRow]:
        return await self._read(reads.runners)

    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        return await self._read(partial(reads.processes, session_id=session_id))

    async def child(self, session_id: SessionId) -> Child | None:
        return await self._read(partial(child_reads.child, session_id=session_id))

    async def descendants(self, session_id: SessionId) -> list[Child]:
        return await self._read(partial(child_reads.descendants, session_id=session_id))

    async def descendants_usage(self, session_id: SessionId) -> Usage:
        return await self._read(partial(child_reads.descendants_usage, session_id=session_id))

    async def children_at_work(self) -> list[tuple[InboxRow, bool]]:
        return await self._read(child_reads.at_work)

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        return await self._read(
            partial(inbox_reads.cursor_at, platform=platform, account=account, name=name)
        )

    async def busy_mode(self, session_id: SessionId) -> BusyMode | None:
        return await self._read(partial(busy.mode_of, session_id=session_id))

    async def stopped_between(
        self, session_id: SessionId, *, reason: str, since: float, until: float
    ) -> list[TurnId]:
        return await self._read(
            partial(
                standing.stopped_between,
                session_id=session_id,
                reason=reason,
                since=since,
                until=until,
            )
        )

    async def recently_active(self, *, since: float) -> list[SessionId]:
        return await self._read(partial(standing.recently_active, since=since))

    async def open_stops(self) -> list[StopRow]:
        return await self._read(stopping.open_ones)

    async def last_stops(self, *, limit: int, before: str | None = None) -> list[StopRow]:
        return await self._read(partial(stopping.last, limit=limit, before=before))

    async def homes(self) -> list[HomeChannel]:
        return await self._read(stopping.homes)

    async def quiet_chats(self) -> list[QuietChat]:
        return await self._read(quiet.all_of_them)

    async def pairings(self) -> Pairings:
        return await self._read(pairing.all_of_it)

    async def job(self, job_id: JobId) -> Job | None:
        return await self._read(partial(job_reads.job, job_id=job_id))

    async def jobs(
        self, *, principal: PrincipalId | None = None, limit: int, offset: int = 0
    ) -> list[Job]:
        return await self._read(
            partial(job_reads.jobs, principal=principal, limit=limit, offset=offset)
        )

    async def due_jobs(self, *, by: float, limit: int) -> list[Job]:
        return await self._read(partial(job_reads.due, by=by, limit=limit))

    async def next_due_job(self) -> int | None:
        return await self._read(job_reads.next_due)

    async def waiting_runs(self, *, busy: Sequence[JobId], limit: int) -> list[WaitingRun]:
        return await self._read(partial(job_reads.waiting, busy=tuple(busy), limit=limit))

    async def runs_waiting(self, job_id: JobId) -> int:
        return await self._read(partial(job_reads.waiting_of, job_id=job_id))

    async def runs_at_work(self) -> list[InboxRow]:
        return await self._read(job_reads.at_work)

    async def runs(self, job_id: JobId, *, limit: int) -> list[JobRun]:
        return await self._read(partial(job_reads.runs, job_id=job_id, limit=limit))

    async def job_run(self, run_id: str) -> JobRun | None:
        return await self._read(partial(job_reads.run, run_id=run_id))

    async def audit(self, wanted: AuditFilter, *, limit: int) -> list[AuditRow]:
        return await self._read(partial(audit_reads.listed, wanted=wanted, limit=limit))

    async def verify_audit(self) -> Verified:
        first = last = await self._read(audit.pruned)
        rows = forgotten = 0
        broken: list[str] = []
        while (piece := await self._checked(last)).rows:
            last, rows, forgotten = piece.last, rows + piece.rows, forgotten + piece.forgotten
            broken += piece.broken
        broken += await self._read(audit_reads.untold)
        return Verified(
            rows=rows,
            first=first.seq + 1,
            last=last.seq,
            head=last.hash.hex(),
            forgotten=forgotten,
            broken=tuple(broken),
        )

    async def _checked(self, last: Link) -> audit_reads.Checked:
        return await self._read(partial(audit_reads.checked, behind=last, limit=_PIECE))

    async def meta(self, key: str) -> str | None:
        return await self._read(partial(reads.meta, key=key))

    async def configurations(
        self, *, before: int | None = None, limit: int
    ) -> list[KeptConfiguration]:
        return await self._read(partial(configurations.page, before=before, limit=limit))

    async def configuration(self, number: int) -> KeptConfiguration | None:
        return await self._read(partial(configurations.one, number=number))

    async def minutes(self, *, since: int) -> list[Minute]:
        return await self._read(partial(minutes.read, since=since))

    async def notebook(self, owner: OwnerId) -> Notebook:
        return await self._read(partial(notes.notebook, owner=owner))

    async def notebooks(self, *, limit: int, offset: int = 0) -> list[Notebook]:
        return await self._read(partial(notes.notebooks, limit=limit, offset=offset))

    async def memory_owners(self) -> dict[OwnerId, bool]:
        return await self._read(notes.owners)

    async def unsynced(self, provider: str) -> list[AnsweredTurn]:
        return await self._read(partial(unsynced.all_of, provider=provider))

    async def memory_owner(self, session_id: SessionId) -> OwnerId | None:
        return await self._read(partial(notes.owner, session_id=session_id))
