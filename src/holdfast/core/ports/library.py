"""The library: the reading half of the store, as the rooms see it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from holdfast.core.config.kept_configuration import ConfigVersion
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
from holdfast.core.messages.message import TranscriptRecord
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.core.messages.quiet import QuietChat
from holdfast.core.messages.source import Source
from holdfast.core.ops.minute import MinuteStats
from holdfast.core.ops.workload import Workload
from holdfast.core.people.approval import Approval, ApprovalRule
from holdfast.core.people.audit import AuditCheckResult, AuditFilter, AuditRow
from holdfast.core.people.memory import AnsweredTurn, Notebook, OwnerId
from holdfast.core.people.pairing import Pairings
from holdfast.core.sessions.reset import ExpiringSession, ExpiryRule
from holdfast.core.sessions.search import SearchIndexStatus, SearchMatch, SearchQuery
from holdfast.core.sessions.session import (
    ALL_SESSIONS,
    ProcessRow,
    RunnerRow,
    SessionFilter,
    SessionRow,
)
from holdfast.core.turns.auxiliary import AuxiliaryTask
from holdfast.core.turns.stop import HomeChannel, StopRow
from holdfast.core.turns.subagent import Subagent
from holdfast.core.turns.timeline import TurnDetails, TurnOutline, TurnQuery
from holdfast.core.turns.turn import OpenTurn, StepRow, TurnRow, Usage

if TYPE_CHECKING:  # nobody who only starts a gateway needs them
    from holdfast.core.turns.figures import SessionPreview, TranscriptStats


class StoreReader(Protocol):
    """The reading half of the store: on connections of its own, never behind the writer.

    A read sees every write that was durable when it was called.
    """

    async def session(self, session_id: SessionId) -> SessionRow | None: ...
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
        """The most recently active first; with `q`, those that have it in their title. Those of
        children are among them only where they are asked for."""
        ...

    async def route(self, key: SessionKey) -> SessionId | None: ...
    async def route_target(self, key: SessionKey) -> RouteTarget | None:
        """Where the route points, also where it cannot go on there."""
        ...

    async def sessions_in_reach(
        self, *, route: SessionKey, principal: PrincipalId | None, limit: int
    ) -> list[SessionRow]:
        """The sessions of a route, and of a person if one is named; the last active first."""
        ...

    async def session_in_reach(
        self, session_id: SessionId, *, route: SessionKey, principal: PrincipalId | None
    ) -> SessionRow | None:
        """A session by its id, if it is one of those."""
        ...

    async def last_turn(self, session_id: SessionId) -> TurnRow | None: ...
    async def session_usage(self, session_id: SessionId) -> Usage: ...
    async def usage_in_reach(self, *, route: SessionKey, principal: PrincipalId | None) -> Usage:
        """Of all the sessions that `reached` would list."""
        ...

    async def session_previews(
        self, session_ids: Sequence[SessionId]
    ) -> "list[SessionPreview]": ...
    async def session_usage_by_model(self, session_id: SessionId) -> Mapping[str, Usage]:
        """What its turns have used, by model, all of whose steps are read; "": what was used
        beside the agent's own requests."""
        ...

    async def transcript_stats(
        self, session_id: SessionId, *, first: int, last: int, priced: bool
    ) -> "TranscriptStats":
        """Of the records from `first` to `last`; without `priced`, nothing is read for `used`."""
        ...

    async def transcript(self, session_id: SessionId) -> list[TranscriptRecord]: ...
    async def context(self, session_id: SessionId) -> tuple[int, list[TranscriptRecord]]:
        """The transcript without what its last compaction covers, and how many records that is."""
        ...

    async def auxiliary_usage(self, session_id: SessionId) -> Mapping[AuxiliaryTask, Usage]:
        """What was used beside the session's turns."""
        ...

    async def records(
        self,
        session_id: SessionId,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
    ) -> list[TranscriptRecord]:
        """Part of a transcript, in order: the first after a seq, else the last (before one)."""
        ...

    async def search(self, query: SearchQuery) -> list[SearchMatch]:
        """Messages that hold all the words, the best first; it knows all that was durable when
        it was called, unless the index is being made anew and that takes long."""
        ...

    async def search_state(self) -> SearchIndexStatus: ...
    async def check(self) -> list[str]:
        """What is wrong with the store's file; empty: nothing. It reads all of it. If anything
        is, nothing is written any more."""
        ...

    async def expiring_sessions(
        self, *, expires_at: ExpiryRule, limit: int
    ) -> list[ExpiringSession]:
        """The sessions that go on and will be over, the soonest first. It looks at them all."""
        ...

    async def sessions_unused_since(self, *, before: float, limit: int) -> list[SessionId]:
        """Sessions that nobody has used since then, the longest unused first."""
        ...

    async def session_inbox_ids(self, session_id: SessionId) -> list[InboxId]:
        """Every message that was ever said to a session. It looks at the whole inbox."""
        ...

    async def last_source(self, session_id: SessionId) -> Source | None:
        """From where somebody was last answered in it; None: nobody knows any more."""
        ...

    async def turn(self, turn_id: TurnId) -> TurnRow | None: ...
    async def steps(self, turn_id: TurnId) -> list[StepRow]: ...
    async def turns(
        self, session_id: SessionId, *, limit: int, before: TurnId | None = None
    ) -> list[TurnOutline]:
        """The newest first; `before`: those that began before that one."""
        ...

    async def recent_turns(self, query: TurnQuery) -> list[TurnOutline]:
        """Of all sessions, children's too."""
        ...

    async def turn_details(self, turn_id: TurnId, *, after: int, limit: int) -> TurnDetails | None:
        """So many steps behind that seq, and what surrounds them."""
        ...

    async def turn_usage_by_model(self, turn_id: TurnId) -> Mapping[str, Usage]:
        """What its steps have used, by model; "": what was used beside those of the agent. A long
        one is read in several pieces, so that nobody waits long behind it."""
        ...

    async def open_turns(self) -> list[OpenTurn]: ...
    async def approval(self, approval_id: ApprovalId) -> Approval | None: ...
    async def approvals(
        self, *, limit: int, pending: bool = False, session_id: SessionId | None = None
    ) -> list[Approval]:
        """The newest first."""
        ...

    async def approval_rules(
        self, *, principal: PrincipalId | None = None, rule: str | None = None
    ) -> list[ApprovalRule]:
        """What was allowed for a person, and by which rule of the judge, oldest first."""
        ...

    async def queued_messages(self) -> list[InboxRow]:
        """Rows that no turn has taken yet, in the order of acceptance."""
        ...

    async def inbox(
        self, *, state: InboxState | None, offset: int, limit: int
    ) -> list[InboxSummary]:
        """The newest first; None: those that have not ended."""
        ...

    async def inbox_row(self, inbox_id: InboxId) -> InboxRow | None: ...
    async def deliveries_for_message(self, inbox_id: InboxId) -> list[DeliveryRow]:
        """What was owed to the sender of this message, oldest first."""
        ...

    async def delivery(self, delivery_id: DeliveryId) -> DeliveryRow | None: ...
    async def outbox(
        self,
        *,
        state: DeliveryState | None,
        before: int | None,
        limit: int,
        unsent: bool = False,
        platform: str = "",
    ) -> list[DeliveryRow]:
        """The newest first, without their parts; `before` is a `seq`, `unsent` leaves out what
        has arrived."""
        ...

    async def undelivered_rows(self) -> list[DeliveryRow]:
        """Pending, sending and unknown rows, in the order in which they were committed."""
        ...

    async def inbox_counts(self) -> Mapping[InboxState, int]: ...
    async def open_messages(self, *, before: float) -> Mapping[InboxId, float]:
        """Those that were accepted before then and have not ended, each with when that was."""
        ...

    async def outbox_counts(self) -> Mapping[DeliveryState, int]: ...
    async def workload(self) -> Workload: ...
    async def runners(self) -> list[RunnerRow]: ...
    async def processes(self, session_id: SessionId) -> list[ProcessRow]: ...
    async def subagent(self, session_id: SessionId) -> Subagent | None:
        """None: this session is a conversation, or there is none of that id."""
        ...

    async def subagents_below(self, session_id: SessionId) -> list[Subagent]:
        """The session's children and theirs, oldest first."""
        ...

    async def subagents_usage(self, session_id: SessionId) -> Usage:
        """What all of those have used in turns that ended."""
        ...

    async def running_subagents(self) -> list[tuple[InboxRow, bool]]:
        """Those whose work has not ended, and whether a turn or a conversation still wants it."""
        ...

    async def cursor(self, platform: str, account: str, name: str) -> str | None: ...
    async def busy_mode(self, session_id: SessionId) -> BusyMode | None:
        """What /busy chose for a session; None: nothing."""
        ...

    async def turns_superseded_between(
        self, session_id: SessionId, *, reason: str, since: float, until: float
    ) -> list[TurnId]:
        """The turns of a session that were superseded for this reason, in that time."""
        ...

    async def recently_active_sessions(self, *, since: float) -> list[SessionId]:
        """The sessions that can be gone on with, are not marked to be, and have no open turn."""
        ...

    async def open_stops(self) -> list[StopRow]:
        """The ends of processes that no successor has followed yet, the last first."""
        ...

    async def last_stops(self, *, limit: int, before: str | None = None) -> list[StopRow]:
        """The last first; `before`: those that were asked for before the one of that id."""
        ...

    async def home_channels(self) -> list[HomeChannel]:
        """The home channels that people have set; those of the configuration are not here."""
        ...

    async def quiet_chats(self) -> list[QuietChat]:
        """Those of which people have said whether they are quiet."""
        ...

    async def pairings(self) -> Pairings: ...
    async def job(self, job_id: JobId) -> Job | None: ...
    async def jobs(
        self, *, principal: PrincipalId | None = None, limit: int, offset: int = 0
    ) -> list[Job]:
        """A person's, or all; the oldest first."""
        ...

    async def due_jobs(self, *, by: float, limit: int) -> list[Job]: ...
    async def next_due_job(self) -> int | None:
        """When the next job is due."""
        ...

    async def waiting_runs(self, *, busy: Sequence[JobId], limit: int) -> list[WaitingRun]:
        """The oldest run that waits of each job that is not busy, the oldest of those first."""
        ...

    async def count_waiting_runs(self, job_id: JobId) -> int: ...
    async def running_runs(self) -> list[InboxRow]:
        """The messages of runs that have begun and not ended."""
        ...

    async def runs(self, job_id: JobId, *, limit: int) -> list[JobRun]:
        """The newest first."""
        ...

    async def job_run(self, run_id: str) -> JobRun | None: ...
    async def meta(self, key: str) -> str | None: ...
    async def audit(self, where: AuditFilter, *, limit: int) -> list[AuditRow]:
        """The newest first; with `after`, those that follow that one, in their order."""
        ...

    async def verify_audit(self) -> AuditCheckResult:
        """Whether the rows of the audit are as they were written. It reads all of them, in
        pieces, so that nobody waits long behind it."""
        ...

    async def configurations(self, *, before: int | None = None, limit: int) -> list[ConfigVersion]:
        """Those that were in force, the newest first, or those before a number."""
        ...

    async def configuration(self, number: int) -> ConfigVersion | None: ...
    async def minute_stats(self, *, since: int) -> list[MinuteStats]:
        """Those in which something happened, in order."""
        ...

    async def notebook(self, owner: OwnerId) -> Notebook:
        """An owner that nobody heard of has an empty one."""
        ...

    async def notebooks(self, *, limit: int, offset: int = 0) -> list[Notebook]:
        """Those that hold something or are off, by their owners' names."""
        ...

    async def memory_owners(self) -> dict[OwnerId, bool]:
        """Everyone who ever had a notebook, and whether it is off."""
        ...

    async def unsynced_turns(self, provider: str) -> list[AnsweredTurn]:
        """The turns that a memory provider is owed, in the order in which they were answered."""
        ...

    async def memory_owner(self, session_id: SessionId) -> OwnerId | None:
        """Whose memory an enrolled session has."""
        ...
