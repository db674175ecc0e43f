"""A session (one conversation), its title, and the effects of a chat command on it."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from holdfast.core.ids import InboxId, PrincipalId, SessionId, SessionKey
from holdfast.core.jobs.job import Job, JobChange, JobId, NewJob, RunPlan
from holdfast.core.messages.inbox import Accepted, Inbound, InboxEnd, InboxRow
from holdfast.core.messages.outbox import Address, NewDelivery, QuietChat
from holdfast.core.messages.source import Source, without_attached
from holdfast.core.messages.transcript import (
    CompactionMessage,
    Message,
    TranscriptRecord,
    UserMessage,
)
from holdfast.core.people.approval import ApprovalDecision
from holdfast.core.people.memory import NoteEdit, NoteEditResult
from holdfast.core.people.pairing import PairingChange
from holdfast.core.ports.command import (
    Command,
    Scope,
    account_scope,
    joint_scope,
    person_scope,
    sessions_scope,
)
from holdfast.core.sessions.reset import ResetReason, SessionReset
from holdfast.core.turns.external import Taint
from holdfast.core.turns.stop import HomeChannel
from holdfast.core.turns.turn import NO_USAGE, Usage

MAX_TITLE_LENGTH = 80


def initial_title(messages: Iterable[Message]) -> str:
    """The first line of the first user message, or the names of its files; used until a better
    title is known."""
    for message in messages:
        if isinstance(message, UserMessage) and (text := without_attached(message.text).strip()):
            return truncate_title(text[:400].splitlines()[0])
    return ""


def truncate_title(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_TITLE_LENGTH else f"{text[: MAX_TITLE_LENGTH - 1]}…"


# Effects whose reply text is computed inside the commit, from the result of the write. `reply` is
# called on the store's thread and perhaps more than once: it must be pure.


class NoteEditsWithReply(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a notebook, in order."""

    edits: tuple[NoteEdit, ...]
    reply: Callable[[Sequence[NoteEditResult]], str]


class NewJobWithReply(msgspec.Struct, frozen=True, kw_only=True):
    """A job to create; `reply` gets None where its owner already has `limit` jobs."""

    new: NewJob
    limit: int
    reply: Callable[[Job | None], str]


class SkipRunsWithReply(msgspec.Struct, frozen=True, kw_only=True):
    """Cancels a job's waiting runs; `reply` gets their number."""

    job_id: JobId
    principal: PrincipalId  # whose job it is
    why: str
    reply: Callable[[int], str]


class SessionOpening(msgspec.Struct, frozen=True, kw_only=True):
    """Opens a session for a chat that has none, or whose session cannot continue."""

    route: SessionKey
    principal: PrincipalId | None
    reset: SessionReset | None


class BackgroundStart(msgspec.Struct, frozen=True, kw_only=True):
    """A subagent in the background of a conversation. `open_parent`: the same commit opens
    its parent session, unless the chat has one by then, which becomes the parent."""

    inbound: Inbound
    route: SessionKey
    principal: PrincipalId
    open_parent: SessionOpening | None = None

    @property
    def sessions(self) -> tuple[SessionId | None, ...]:
        """Its own session, its parent, and the session that a new parent replaces."""
        subagent, opening = self.inbound.subagent, self.open_parent
        if subagent is None:
            return ()
        reset = opening.reset if opening is not None else None
        return subagent.session_id, subagent.parent, reset.previous if reset is not None else None


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    id: SessionId
    route: SessionKey  # the route it was opened by
    prompt: str  # frozen at the first turn; "" before
    prompt_fingerprint: str = ""  # of the configuration that the prompt was made from; "": unknown
    model_override: str | None
    interruptions: int  # processes that interrupted its turn since one last completed
    suspended: bool
    created_at: float
    active_at: float
    ended_at: float | None
    messages: int = 0
    title: str = ""
    current: bool = False  # its route points to it, and it can continue
    principal: PrincipalId | None = None  # its owner; None: shared, or not known yet
    resume_pending: bool = False  # its turn was interrupted and no turn has completed since
    resume_reason: str | None = None
    last_resume_marked_at: float | None = None
    auto_reset_reason: ResetReason | None = None
    previous: SessionId | None = None  # the session that it replaced
    taints: tuple[Taint, ...] = ()  # the sources of external content in it, oldest first

    @property
    def was_auto_reset(self) -> bool:
        """Whether it replaced another session automatically."""
        return self.auto_reset_reason is not None


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects sessions for a list. `user`: a substring of the owner's id; `include` and `exclude`:
    session ids; None: no condition. `after`: only those behind this position of the list, given
    as the last activity and the id of a session."""

    user: str = ""
    include: tuple[SessionId, ...] | None = None
    exclude: tuple[SessionId, ...] = ()
    suspended: bool | None = None
    ended: bool | None = None
    after: tuple[float, SessionId] | None = None


ALL_SESSIONS = SessionFilter()


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation from another program: its records get the seqs 1, 2, 3 …"""

    id: SessionId
    route: SessionKey
    title: str
    records: tuple[TranscriptRecord, ...]
    at: float


class UndoEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Removes the records from `from_seq` to the present end from the conversation; they stay
    stored."""

    session_id: SessionId
    from_seq: int


class ForkEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A new session with the history, prompt and model of another; the route continues there."""

    of: SessionId
    session_id: SessionId
    title: str
    principal: PrincipalId | None


class Resubmission(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a command submits; the command's own row is merged into it."""

    inbound: Inbound
    principal: PrincipalId


class CommandEffect(Command["CommandOutcome"], frozen=True, kw_only=True):
    """What a command writes in one commit: its effect, its answer and the end of its inbox row.

    `route` with `new_session` points the route at a fresh session and ends the old one;
    `supersede_before` ends the route's unstarted rows older than that id. `resume` points the
    route at an earlier session, which can then continue; `fork` at a copy. An effect with `reply`
    provides the text of the first delivery.
    """

    inbox_ends: tuple[InboxEnd, ...]
    source: Source | None = None  # of the command; its account has the messages without a session
    by: str = ""  # the actor, where no message asked for it
    deliveries: tuple[NewDelivery, ...] = ()
    session_id: SessionId | None = None  # the session it acts on
    route: SessionKey | None = None
    new_session: SessionId | None = None
    reset: SessionReset | None = None  # why the session that it opens is new
    supersede_before: InboxId | None = None
    keep: tuple[InboxId, ...] = ()  # of those, the ones already in progress
    model_override: str | None = None  # "" clears it
    title: str | None = None
    resume: SessionId | None = None
    fork: ForkEffect | None = None
    undo: UndoEffect | None = None
    resubmit: Resubmission | None = None
    compaction: CompactionMessage | None = None
    compaction_usage: Usage = NO_USAGE  # not part of any turn's usage
    busy_mode: str | None = None  # a `BusyMode` for this session; "" clears it
    decision: ApprovalDecision | None = None
    home: HomeChannel | None = None  # the new home channel of its account
    job: JobChange | None = None
    new_job: NewJobWithReply | None = None
    runs: RunPlan | None = None
    skip_runs: SkipRunsWithReply | None = None
    notes: NoteEditsWithReply | None = None
    background: BackgroundStart | None = None
    pairing: PairingChange | None = None
    unset_home: Address | None = None  # its account no longer has a home channel
    quiet: QuietChat | None = None
    at: float

    @property
    def scope(self) -> Scope:
        """The session that it acts on; in a chat without one, the one that it opens or resumes.
        Also those that it leads its chat from or to, copies, or starts for a subagent, and the
        owners of everything else that it changes.

        With `new_session` it also ends a session that its route points to only since the command
        was given, which no caller can name. The row of that route is part of the commit."""
        sessions = sessions_scope(
            self.session_id,
            self.new_session,
            self.resume,
            self.reset.previous if self.reset is not None else None,
            *((self.fork.session_id, self.fork.of) if self.fork is not None else ()),
            *(self.background.sessions if self.background is not None else ()),
        )
        deliveries = (each.scope for each in self.deliveries)
        return joint_scope(sessions, *deliveries, *self._other_owners())

    def _other_owners(self) -> Iterator[Scope]:
        """The accounts and persons whose rows it changes."""
        for source in self._sources_without_session():
            yield account_scope(source.platform, source.account)
        for change in (self.job, self.runs, self.decision, self.pairing):
            if change is not None:
                yield change.scope
        if self.notes is not None:
            yield from (edit.scope for edit in self.notes.edits)
        if self.new_job is not None:
            yield person_scope(self.new_job.new.principal)
        if self.skip_runs is not None:
            yield person_scope(self.skip_runs.principal)
        for place in (self.home.address if self.home else None, self.unset_home, self.quiet):
            if place is not None:
                yield account_scope(place.platform, place.account)

    def _sources_without_session(self) -> Iterator[Source]:
        """Of the messages that it ends or adds and that have no session afterwards."""
        if self.source is not None and (
            self.session_id is None or self.supersede_before is not None
        ):
            yield self.source
        if self.resubmit is not None:
            yield self.resubmit.inbound.source


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The results of `CommandEffect` besides the end of its own row."""

    deliveries: tuple[NewDelivery, ...]  # with their final texts
    superseded: tuple[InboxId, ...] = ()
    resubmitted: InboxRow | None = None  # the submitted message
    note_edits: tuple[NoteEditResult, ...] = ()
    background: Accepted | None = None


class RunnerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A runner's identity: its inner pid with that process's start time."""

    session_id: SessionId
    pid: int
    start_time: int  # clock ticks since boot, as the kernel counts them
    outer_pid: int
    sandboxed: bool
    started_at: float


class ProcessRow(msgspec.Struct, frozen=True, kw_only=True):
    """A background process of a session; `exit_code` None: running, or unknown. `cpu` and `memory`
    are measured when its runner is asked, and are not stored."""

    session_id: SessionId
    id: str
    command: str
    started_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    note: str = ""
    cpu: float | None = None  # CPU seconds, including its child processes
    memory: int | None = None  # bytes
