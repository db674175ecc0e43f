"""Memory beyond one conversation: notes, their owners, and the port of memory providers."""

import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Literal, NewType, Protocol
from urllib.parse import quote

import msgspec

from holdfast.core.ids import PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.jobs.job import JobId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.source import ChatType, build_session_key, parse_route
from holdfast.core.messages.transcript import Message
from holdfast.core.people.api_tokens import (
    OWNER_PLATFORMS,
    is_client_principal,
    is_owner_principal,
)
from holdfast.core.ports.command import Command, Scope, person_scope

OwnerId = NewType("OwnerId", str)  # "person:…", "place:…" for a group, or "job:…"

_MAX_NAME_LENGTH, _PREFIX_LENGTH = 256, 160  # characters of a name, and those kept of a longer one
_JOINERS = "\u200c\u200d"  # Persian and many emoji need them
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_FENCE = re.compile(r"<(?=\s*/?\s*(?:notes|memory)\b)", re.IGNORECASE)


def memory_owner(route: SessionKey, principal: PrincipalId) -> OwnerId:
    """The owner of a session's memory: its person where only that person reads the answers, and
    the place elsewhere. In a group, that is the group, or what it is to one person of it if each
    has a session of their own: the others read the answers all the same."""
    platform = parse_route(route)[0]
    if is_place(route):
        return OwnerId(f"place:{_encode_bounded(route)}")
    if is_client_principal(principal):  # its notes are its own, also in a session of the owner
        return OwnerId(f"person:{_encode_bounded(principal)}")
    # Also in a run of their job.
    if platform in OWNER_PLATFORMS or is_owner_principal(principal):
        return OwnerId("person:owner")
    return OwnerId(f"person:{_encode_bounded(principal)}")


def is_place(route: SessionKey) -> bool:
    """Whether others than the person of the session read its answers."""
    platform, _, kind, _ = parse_route(route)
    return platform not in OWNER_PLATFORMS and kind is not ChatType.DM


def assigned_memory_owner(row: InboxRow) -> OwnerId | None:
    """The owner of memory that is in the message itself: the run of a job has the one that fits to
    its destination, and a subagent that of the conversation that it works for. None: there is none;
    it is that of the session."""
    subagent, run = row.inbound.subagent, row.inbound.run
    if subagent is not None:
        by_chat = memory_owner(build_session_key(subagent.chat), row.principal)
        return OwnerId(subagent.memory_owner) if subagent.memory_owner else by_chat
    return OwnerId(run.memory_owner) if run is not None and run.memory_owner else None


def row_memory_owner(row: InboxRow) -> OwnerId:
    """The owner of the memory of the turn that this message begins."""
    return assigned_memory_owner(row) or memory_owner(row.route, row.principal)


def job_memory_owner(job_id: JobId) -> OwnerId:
    """The owner of the memory of a job that answers in another chat than the one in which it was
    created: who reads there is not known."""
    return OwnerId(f"job:{job_id}")


def _encode_bounded(name: str) -> str:
    """Printable ASCII of at most 256 characters; no two names become the same one."""
    whole = name.encode("utf-8", "surrogatepass")
    text = quote(whole, safe=":@+").replace("~", "%7E")
    return (
        text
        if len(text) <= _MAX_NAME_LENGTH
        else f"{text[:_PREFIX_LENGTH]}~{sha256(whole).hexdigest()}"
    )


class NoteTopic(StrEnum):
    PERSON = "person"
    WORLD = "world"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note. `id` is a small rising number, and never reused for another note of the owner."""

    id: int
    topic: NoteTopic
    text: str
    changed_at: float


class Notebook(msgspec.Struct, frozen=True, kw_only=True):
    """All notes of an owner, oldest first. `off`: the owner has turned memory off."""

    owner: OwnerId
    notes: tuple[Note, ...] = ()
    off: bool = False

    @property
    def used(self) -> int:
        return sum(len(note.text) for note in self.notes)


class NoteEdit(Command["NoteEditResult"], frozen=True, kw_only=True):
    """A change to a notebook, in one commit. `max_chars`: the total length of its notes, of which
    each counts as 20 characters at least."""

    action: Literal["add", "replace", "remove", "clear", "off", "on"]
    owner: OwnerId
    note_id: int = 0
    topic: NoteTopic | None = None  # None: unchanged; of a new note: the person
    text: str = ""
    max_chars: int = 0
    by: str = ""  # the actor, if neither a message nor a tool call causes it
    at: float

    @property
    def scope(self) -> Scope:
        return person_scope(self.owner)


class NoteEditOutcome(StrEnum):
    DONE = "done"
    UNCHANGED = "same"  # nothing had to be written
    FULL = "full"
    MISSING = "missing"  # no note has that id
    OFF = "off"  # nothing is added while memory is off


class NoteEditResult(msgspec.Struct, frozen=True, kw_only=True):
    outcome: NoteEditOutcome
    notebook: Notebook  # after the edit
    note: Note | None = None  # the edited note


class MemorySubject(msgspec.Struct, frozen=True, kw_only=True):
    """The session and the owner that a hook is called for."""

    session_id: SessionId
    owner: OwnerId


class SessionEnd(MemorySubject, frozen=True, kw_only=True):
    """One end of a session, as a provider gets it. A repeated report has the same `end_id`; an end
    after more messages has another one."""

    end_id: str


class PendingMemorySync(msgspec.Struct, frozen=True, kw_only=True):
    """The owner, and the providers that have not been notified of an answered turn yet."""

    owner: OwnerId
    providers: tuple[str, ...]


class AnsweredTurn(msgspec.Struct, frozen=True, kw_only=True):
    """An answered turn, as providers get it."""

    turn_id: TurnId
    subject: MemorySubject
    user_text: str
    answer: str


class MemoryHook(StrEnum):
    """The hooks of a provider. Only those in its `wants` are called."""

    PROMPT_BLOCK = "prompt_block"
    PREFETCH = "prefetch"
    SYNC_TURN = "sync_turn"
    ON_SESSION_END = "on_session_end"
    ON_PRE_COMPACT = "on_pre_compact"


class MemoryProvider(Protocol):
    """A memory provider: one instance per gateway, for all sessions.

    Hooks are coroutines on the gateway's event loop and must not block it. Each has a time limit,
    after which it is cancelled; exceptions are logged. A provider that fails three times in a row
    is paused for a while. Its texts are data for the model, never instructions.
    """

    name: str
    wants: frozenset[MemoryHook]

    async def initialise(self) -> None:
        """Called before any hook; again after a pause, if it failed."""
        ...

    async def prompt_block(self, subject: MemorySubject) -> str:
        """A text for the session's frozen prompt; called once per session."""
        ...

    async def prefetch(self, subject: MemorySubject, query: str) -> str:
        """A text that may help with this message. The turn waits for it until the time limit."""
        ...

    async def sync_turn(self, subject: MemorySubject, user: str, assistant: str) -> None:
        """A turn was answered. Called in order within a session, never twice, and not for a turn
        that was interrupted, stopped or failed; a crash may skip the last."""
        ...

    async def on_session_end(self, subject: SessionEnd) -> None:
        """The session ended or was idle for long, or the gateway stops while the session has an
        agent. Called at least once: again, with the same `end_id`, by the next start if a call did
        not return; and with another one after more messages."""
        ...

    async def on_pre_compact(self, subject: MemorySubject, messages: Sequence[Message]) -> None:
        """Called before a summary replaces these messages."""
        ...

    async def shutdown(self) -> None:
        """The last call, once."""
        ...


class MemoryProviderContext(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a provider's factory."""

    directory: str  # for its data and settings; it may not exist yet


class MemoryProviderFactory(Protocol):
    """The object of an entry point of the group `holdfast.memory_providers`."""

    def __call__(self, context: MemoryProviderContext) -> MemoryProvider: ...


def strip_invisible(text: str) -> str:
    """The text without invisible characters: controls, direction marks, tags, surrogates."""
    return "".join(
        c
        for c in text
        if c in "\n\t" or c in _JOINERS or unicodedata.category(c) not in _INVISIBLE_CATEGORIES
    )


def to_single_line(text: str) -> str:
    return " ".join(strip_invisible(text).split())


def fence_text(tag: str, text: str) -> str:
    """The text between tags that it cannot close itself."""
    return f"<{tag}>\n{_FENCE.sub('&lt;', text)}\n</{tag}>"
