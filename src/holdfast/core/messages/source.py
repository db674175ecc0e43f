"""The source of a message, its session key, and the quotes and attachments of a message."""

import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionKey

_MAX_PART_LENGTH = 256  # characters of a session key that one id may take
_PREFIX_LENGTH = 64  # readable characters of a longer id, in front of its hash
_MAX_NAME_LENGTH = 64
_RESERVED_CHARACTERS = frozenset(":[]<>")  # delimiters of notes, tags and speaker names
_MAX_QUOTE_LENGTH = 1000  # characters; the person who replies has seen the whole text

ATTACHED_PREFIX = "[Attached, "
"""Beginning of the line behind a message's text that names its attached files."""
_GENERATED_CHAT = re.compile(r"page-[0-9a-f]{16}|chat_[0-9a-f]+")  # by the page, and by its API
_ATTACHED_LINE = re.compile(
    r"^\[Attached, (?:in the workspace: (.*)|and not here: .*)\]$", re.MULTILINE
)


def chat_label(platform: str, chat: str) -> str:
    """A chat as people see it, behind the name of its platform if that is not clear. A chat of the
    page has no name of its own, unless a program opened it by one: its id is left out."""
    if platform == "web" and _GENERATED_CHAT.fullmatch(chat):
        return ""
    return chat


def without_attached(text: str) -> str:
    """A message as its author wrote it. If that is nothing, the names of the stored files."""
    if ATTACHED_PREFIX not in text:
        return text
    written = _ATTACHED_LINE.sub("", text).strip()
    paths = ", ".join(found for found in _ATTACHED_LINE.findall(text) if found)
    return written or ", ".join(path.rpartition("/")[2] for path in paths.split(", "))


def attached_names(text: str) -> list[str]:
    """The names of the stored files of a message."""
    if ATTACHED_PREFIX not in text:
        return []
    paths = ", ".join(found for found in _ATTACHED_LINE.findall(text) if found)
    return [path.rpartition("/")[2] for path in paths.split(", ") if path]


class ChatType(StrEnum):
    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"
    THREAD = "thread"


class Author(StrEnum):
    """The author of a message, as far as the platform knows; PERSON if it cannot tell."""

    PERSON = "person"
    BOT = "bot"  # a program: another bot, a hook, an automatic reply
    SELF = "ourselves"  # the account that received it
    OPERATOR = "operator"  # the operator of the gateway, in a chat of others; never from a platform


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a message comes from. `message_id` is for a source without its `Inbound`, which has
    the id otherwise."""

    platform: str
    account: str = "default"
    chat_id: str
    chat_type: ChatType = ChatType.DM
    thread_id: str | None = None
    user_id: str
    user_name: str | None = None
    language: str = ""  # that the platform says its user reads: "de", "pt-BR"; "": unknown
    message_id: str | None = None
    author: Author = Author.PERSON


def build_session_key(
    source: Source,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
) -> SessionKey:
    """The route of a source: printable ASCII of a bounded length.

    By default, a DM is one session per chat and thread, a group one session per person, and a
    thread is shared by its people. Each part is encoded so that no id can be mistaken for two
    parts, for another id or for the hash of a long one: only this function writes separators.
    """
    parts = [source.platform, source.account, source.chat_type, source.chat_id]
    parts.append(source.thread_id or "")
    if _is_per_person(source, group_sessions_per_user, thread_sessions_per_user):
        parts.append(source.user_id)
    return SessionKey(":".join(map(_encode_part, parts)))


def is_shared(
    source: Source,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
) -> bool:
    """Whether several people speak in the session of this source."""
    if source.chat_type is ChatType.DM:
        return False
    return not _is_per_person(source, group_sessions_per_user, thread_sessions_per_user)


def speaker_name(source: Source) -> str | None:
    """The name of a message's sender where several people write; None in a DM.

    One line of plain characters: the name is put in front of the text, and must not be able to
    imitate another speaker or turn the text behind it into a system note.
    """
    if source.author is Author.OPERATOR:
        return "operator of this gateway"
    if source.chat_type is ChatType.DM:
        return None
    return sanitise_name(source.user_name, source.user_id) or "unknown"


def sanitise_name(*names: str | None) -> str | None:
    """The first of these names that is not empty once reserved characters are removed."""
    for name in names:
        plain = "".join(
            c if c.isprintable() and c not in _RESERVED_CHARACTERS else " " for c in name or ""
        )
        if line := " ".join(plain.split())[:_MAX_NAME_LENGTH]:
            return line
    return None


def parse_route(route: SessionKey) -> tuple[str, str, ChatType, str]:
    """Platform, account, type and id of the chat that a route names.

    An id that was too long for its route cannot be restored: it comes back truncated.
    """
    platform, account, kind, chat = map(_decode_part, route.split(":")[:4])
    return platform, account, ChatType(kind), chat


def _is_per_person(source: Source, groups: bool, threads: bool) -> bool:
    if source.chat_type is ChatType.DM:
        return False
    threaded = source.chat_type is ChatType.THREAD or bool(source.thread_id)
    return threads if threaded else groups


@lru_cache(maxsize=1024)  # called for every message; most come from recently active chats
def _encode_part(part: str) -> str:
    if part.isascii() and part.isalnum() and len(part) <= _MAX_PART_LENGTH:
        return part
    raw = part.encode("utf-8", "surrogatepass")
    # A dot could lead out of a directory; a tilde is reserved as the mark of a hash.
    text = quote(raw, safe="").replace(".", "%2E").replace("~", "%7E")
    if len(text) <= _MAX_PART_LENGTH:
        return text
    from hashlib import sha256  # noqa: PLC0415 - rarely needed, and `holdfast status` loads this

    return f"{text[:_PREFIX_LENGTH]}~{sha256(raw).hexdigest()}"


def _decode_part(part: str) -> str:
    return unquote_to_bytes(part).decode("utf-8", "replace")


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message answers. `ours`: the account that received the message wrote it. A platform
    that does not know the quoted text leaves it empty; one that does not know its author leaves
    out the names."""

    text: str = ""
    user_id: str | None = None
    user_name: str | None = None
    message_id: str | None = None
    ours: bool = False


def format_quote(quote: Quote) -> str | None:
    """What the agent reads in front of the message; None: the quoted text is unknown.

    Each line is marked, so that quoted text cannot pass for the sender's own words or for a
    system note.
    """
    if not quote.text.strip():
        return None
    author = "you" if quote.ours else sanitise_name(quote.user_name, quote.user_id) or "unknown"
    text = quote.text
    if len(text) > _MAX_QUOTE_LENGTH:
        text = f"{text[:_MAX_QUOTE_LENGTH]}…"
    return "\n".join(f"> {line}".rstrip() for line in (f"{author} wrote:", *text.splitlines()))


class AttachmentUnavailable(HoldfastError):
    """The file cannot be fetched, now or later. The text is the reason, for the sender and the
    agent."""


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with a message and has not been fetched yet.

    `fetch` returns the whole file. It raises `AttachmentUnavailable` if that can never work, and
    any other error if the platform should deliver the message again later.
    """

    name: str  # as its sender calls it; not checked yet
    fetch: Callable[[], Awaitable[bytes]]
    size: int | None = None  # in bytes, where the platform tells it in advance
