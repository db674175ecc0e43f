"""Memory beyond one conversation: notes, whose they are, and the port of memory providers."""

import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Literal, NewType, Protocol
from urllib.parse import quote

import msgspec

from holdfast.core.ids import PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.source import ChatType, parse_route
from holdfast.core.messages.transcript import Message
from holdfast.core.ports.command import Command, Scope, person_scope

OwnerId = NewType("OwnerId", str)  # whose memory: "person:…" or, where people share, "place:…"

_OPERATOR_PLATFORMS = frozenset({"api", "web"})  # whoever has the gateway's own token is its owner
_MAX_NAME_LENGTH, _PREFIX_LENGTH = 256, 160  # characters of a name, and those kept of a longer one
_PARTS_WITH_USER = 6  # parts of a route that names a person
_JOINERS = "\u200c\u200d"  # Persian and many emoji need them
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_FENCE = re.compile(r"<(?=\s*/?\s*(?:notes|memory)\b)", re.IGNORECASE)


def memory_owner(route: SessionKey, principal: PrincipalId) -> OwnerId:
    """Whose memory a session has: that of the one person who owns it, or, where several people
    speak in it, that of the place, so that nobody's own notes are shown to the others."""
    platform, _, kind, _ = parse_route(route)
    # Also where the gateway acts for them: in a run of their job.
    if platform in _OPERATOR_PLATFORMS or principal.partition(":")[0] in _OPERATOR_PLATFORMS:
        return OwnerId("person:owner")
    if kind is ChatType.DM or len(route.split(":")) >= _PARTS_WITH_USER:
        return OwnerId(f"person:{_encode_bounded(principal)}")
    return OwnerId(f"place:{_encode_bounded(route)}")


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
    """`id` is short, rises, and is never given to another note of the same owner."""

    id: int
    topic: NoteTopic
    text: str
    changed_at: float


class Notebook(msgspec.Struct, frozen=True, kw_only=True):
    """All notes of an owner, oldest first. `off`: its owner wants nothing remembered."""

    owner: OwnerId
    notes: tuple[Note, ...] = ()
    off: bool = False

    @property
    def used(self) -> int:
        return sum(len(note.text) for note in self.notes)


class NoteEdit(Command["NoteEditResult"], frozen=True, kw_only=True):
    """A change to a notebook, one commit. `room`: characters that all its notes may have,
    of which a note takes up 20 at least."""

    action: Literal["add", "replace", "remove", "clear", "off", "on"]
    owner: OwnerId
    note_id: int = 0
    topic: NoteTopic | None = None  # None: as it was, or the person
    text: str = ""
    max_chars: int = 0
    by: str = ""  # who wants it, where that is nobody's message and no call of an agent
    at: float

    @property
    def scope(self) -> Scope:
        return person_scope(self.owner)


class NoteEditOutcome(StrEnum):
    DONE = "done"
    UNCHANGED = "same"  # it is so already; nothing was written
    FULL = "full"
    MISSING = "missing"  # no note has that id
    OFF = "off"  # nothing is added while memory is off


class NoteEditResult(msgspec.Struct, frozen=True, kw_only=True):
    outcome: NoteEditOutcome
    notebook: Notebook  # as it is now
    note: Note | None = None  # the one it was about


class MemorySubject(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a hook is about."""

    session_id: SessionId
    owner: OwnerId


class PendingMemorySync(msgspec.Struct, frozen=True, kw_only=True):
    """Whose memory is to hear that a turn was answered, and by whom it is kept."""

    owner: OwnerId
    providers: tuple[str, ...]


class AnsweredTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What memory is told of a turn."""

    turn_id: TurnId
    subject: MemorySubject
    user_text: str
    answer: str


class MemoryHook(StrEnum):
    """What a provider can be asked. It is asked only what it `wants`."""

    PROMPT_BLOCK = "prompt_block"
    PREFETCH = "prefetch"
    SYNC_TURN = "sync_turn"
    ON_SESSION_END = "on_session_end"
    ON_PRE_COMPACT = "on_pre_compact"


class MemoryProvider(Protocol):
    """Something that remembers: one instance a gateway, for all sessions.

    Hooks are coroutines on the gateway's loop and must not block it. Each has a time limit,
    after which it is cancelled; what is raised is logged. A provider that fails three times
    running is left alone for a while. Texts it gives are data to the model, never instructions.
    """

    name: str
    wants: frozenset[MemoryHook]

    async def initialise(self) -> None:
        """Before any hook; again after a pause, where it failed."""
        ...

    async def prompt_block(self, subject: MemorySubject) -> str:
        """What belongs into the session's frozen prompt; asked once per session."""
        ...

    async def prefetch(self, subject: MemorySubject, query: str) -> str:
        """What may help with this message. The turn waits for it, as long as the limit is."""
        ...

    async def sync_turn(self, subject: MemorySubject, user: str, assistant: str) -> None:
        """A turn was answered. In order within a session, never twice, never for a turn that
        was interrupted, stopped or failed; a crash may leave out the last."""
        ...

    async def on_session_end(self, subject: MemorySubject) -> None:
        """The session ended, or the gateway stops while it has an agent. Never twice for the
        same words: told again only after more was said."""
        ...

    async def on_pre_compact(self, subject: MemorySubject, messages: Sequence[Message]) -> None:
        """These messages are about to be replaced by a summary."""
        ...

    async def shutdown(self) -> None:
        """The last call, once."""
        ...


class MemoryProviderContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider is made with."""

    directory: str  # of its own, for what it keeps and how it is set up; it may not exist yet


class MemoryProviderFactory(Protocol):
    """What an entry point of the group `holdfast.memory_providers` names."""

    def __call__(self, context: MemoryProviderContext) -> MemoryProvider: ...


def strip_invisible(text: str) -> str:
    """The text without what nobody sees: controls, direction marks, tags, half characters."""
    return "".join(
        c
        for c in text
        if c in "\n\t" or c in _JOINERS or unicodedata.category(c) not in _INVISIBLE_CATEGORIES
    )


def to_single_line(text: str) -> str:
    return " ".join(strip_invisible(text).split())


def fence_text(tag: str, text: str) -> str:
    """The text between tags that nothing in it can close."""
    return f"<{tag}>\n{_FENCE.sub('&lt;', text)}\n</{tag}>"
