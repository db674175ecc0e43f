"""A session (one conversation), its title, and the effects of a chat command on it."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from holdfast.core.ids import InboxId, PrincipalId, SessionId, SessionKey
from holdfast.core.jobs.job import Job, JobChange, JobId, NewJob, RunPlan
from holdfast.core.messages.inbox import Accepted, Inbound, InboxEnd, InboxRow
from holdfast.core.messages.outbox import Address, NewDelivery, QuietChat
from holdfast.core.messages.transcript import (
    CompactionMessage,
    Message,
    TranscriptRecord,
    UserMessage,
)
from holdfast.core.people.approval import ApprovalDecision
from holdfast.core.people.memory import NoteEdit, NoteEditResult
from holdfast.core.people.pairing import PairingChange
from holdfast.core.sessions.reset import ResetReason, SessionReset
from holdfast.core.turns.stop import HomeChannel
from holdfast.core.turns.turn import NO_USAGE, Usage

MAX_TITLE_LENGTH = 80


def initial_title(messages: Iterable[Message]) -> str:
    """The first line of the first thing that was said."""
    for message in messages:
        if isinstance(message, UserMessage) and (said := message.text[:400].strip()):
            return truncate_title(said.splitlines()[0])
    return ""


def truncate_title(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_TITLE_LENGTH else f"{text[: MAX_TITLE_LENGTH - 1]}…"


# Called within the commit, on its thread and perhaps more than once: `told` has only its argument
# to go by, and does nothing but say.


class NoteEditsWithReply(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a notebook, one after the other."""

    edits: tuple[NoteEdit, ...]
    reply: Callable[[Sequence[NoteEditResult]], str]


class NewJobWithReply(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be; None: its person has `most` of them already."""

    new: NewJob
    limit: int
    reply: Callable[[Job | None], str]


class SkipRunsWithReply(msgspec.Struct, frozen=True, kw_only=True):
    """What waits of a job is never begun; told is how many that were."""

    job_id: JobId
    why: str
    reply: Callable[[int], str]


class SessionOpening(msgspec.Struct, frozen=True, kw_only=True):
    """A chat in which nothing was said yet, or whose session cannot go on, gets one."""

    route: SessionKey
    principal: PrincipalId | None
    reset: SessionReset | None


class BackgroundStart(msgspec.Struct, frozen=True, kw_only=True):
    """A child that works beside the conversation from now on; `opens`: its parent is opened by
    the same commit, unless another was quicker, which is its parent then."""

    inbound: Inbound
    route: SessionKey
    principal: PrincipalId
    open_parent: SessionOpening | None = None


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    id: SessionId
    route: SessionKey  # the route it was opened by
    prompt: str  # frozen at the first turn; "" before
    prompt_fingerprint: str = ""  # of the configuration it was made by; "": nobody knows
    model_override: str | None
    interruptions: int  # process lives that cut this session's turn since one last completed
    suspended: bool
    created_at: float
    active_at: float
    ended_at: float | None
    messages: int = 0
    title: str = ""
    current: bool = False  # its route points to it, and it can go on
    principal: PrincipalId | None = None  # whose it is; None: several people's, or nobody's yet
    resume_pending: bool = False  # its turn was cut; until one completes it is not left
    resume_reason: str | None = None
    last_resume_marked_at: float | None = None
    auto_reset_reason: ResetReason | None = None
    previous: SessionId | None = None  # the session whose place it took

    @property
    def was_auto_reset(self) -> bool:
        """It took another's place without anybody asking for it."""
        return self.auto_reset_reason is not None


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions are listed. `user`: those whose owner has it in their id; `only` and
    `without` name them; None: whatever they are. `beyond`: only those behind that place of the
    list, which is when one was last active, and its id."""

    user: str = ""
    include: tuple[SessionId, ...] | None = None
    exclude: tuple[SessionId, ...] = ()
    suspended: bool | None = None
    ended: bool | None = None
    after: tuple[float, SessionId] | None = None


ALL_SESSIONS = SessionFilter()


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that comes from elsewhere: its records get the seqs 1, 2, 3 …"""

    id: SessionId
    route: SessionKey
    title: str
    records: tuple[TranscriptRecord, ...]
    at: float


class UndoEffect(msgspec.Struct, frozen=True, kw_only=True):
    """From `from_seq` to its present end a transcript is taken back: kept, and no part of the
    conversation any more."""

    session_id: SessionId
    from_seq: int


class ForkEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A session with the history, the prompt and the model of another; the route goes on there."""

    of: SessionId
    session_id: SessionId
    title: str
    principal: PrincipalId | None


class Resubmission(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a command hands in; the command's own row is merged into it."""

    inbound: Inbound
    principal: PrincipalId


class CommandEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What a command does, one commit: its effect, its answer and the end of its inbox row.

    `route` with `new_session` points the route at a fresh session and ends the old one;
    `supersede_before` ends the route's unstarted rows older than that id. `resume` points the
    route at a session there was, which can then go on; `fork` at a copy. What is worded by its
    own outcome gives the first delivery its text.
    """

    inbox_ends: tuple[InboxEnd, ...]
    by: str = ""  # who wants it, where that is nobody's message
    deliveries: tuple[NewDelivery, ...] = ()
    session_id: SessionId | None = None  # the session it acts on
    route: SessionKey | None = None
    new_session: SessionId | None = None
    reset: SessionReset | None = None  # why a session that a choice opens is fresh
    supersede_before: InboxId | None = None
    keep: tuple[InboxId, ...] = ()  # of those, the ones that somebody is carrying out
    model_override: str | None = None  # "" clears it
    title: str | None = None
    resume: SessionId | None = None
    fork: ForkEffect | None = None
    undo: UndoEffect | None = None
    resubmit: Resubmission | None = None
    compaction: CompactionMessage | None = None
    compaction_usage: Usage = NO_USAGE  # counted beside the turns
    busy_mode: str | None = None  # a `BusyMode` for this session; "" clears it
    decision: ApprovalDecision | None = None
    home: HomeChannel | None = None  # of its account, from now on
    job: JobChange | None = None
    new_job: NewJobWithReply | None = None
    runs: RunPlan | None = None
    skip_runs: SkipRunsWithReply | None = None
    notes: NoteEditsWithReply | None = None
    background: BackgroundStart | None = None
    pairing: PairingChange | None = None
    unset_home: Address | None = None  # its account has none any more
    quiet: QuietChat | None = None
    at: float


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What `Store.settle_command` brought about besides the end of its own row."""

    deliveries: tuple[NewDelivery, ...]  # as they are worded
    superseded: tuple[InboxId, ...] = ()
    resubmitted: InboxRow | None = None  # what it handed in
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
    """A background process of a session; `exit_code` None: running, or nobody knows. `cpu` and
    `memory` are of the instant in which its runner was asked, and are not kept."""

    session_id: SessionId
    id: str
    command: str
    started_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    note: str = ""
    cpu: float | None = None  # seconds of a processor, with all that it started
    memory: int | None = None  # bytes
