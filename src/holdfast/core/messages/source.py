"""Where a message comes from, the session key of that place, and what a message quotes or brings along."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote, unquote_to_bytes

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionKey

# MERGED holdfast.core.messages.source: Where a message comes from, and the session key that place has.
_MAX_PART_LENGTH = 256  # characters of a key that one id may take
_KEPT_PREFIX = 64  # those that are kept of a longer one, for people to read
_MAX_NAME_LENGTH = 64
_RESERVED_CHARACTERS = frozenset(
    ":[]<>"
)  # what notes, tags and the words of a speaker begin and end with


class ChatType(StrEnum):
    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"
    THREAD = "thread"


class Author(StrEnum):
    """What wrote a message, as far as the platform says; one that cannot tell says a person."""

    PERSON = "person"
    BOT = "bot"  # a program: another bot, a hook, an automatic reply
    SELF = "ourselves"  # the account that it was brought by
    OPERATOR = "operator"  # whoever runs the gateway, into a chat of others: no door says this


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`message_id` is for a source that goes without its `Inbound`, which has the message's."""

    platform: str
    account: str = "default"
    chat_id: str
    chat_type: ChatType = ChatType.DM
    thread_id: str | None = None
    user_id: str
    user_name: str | None = None
    message_id: str | None = None
    author: Author = Author.PERSON


def build_session_key(
    source: Source,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
) -> SessionKey:
    """The route of a source: printable ASCII of a bounded length.

    A DM is its chat and thread, a group one session per person, a thread is shared by its
    people. Each part is encoded so that no id, however odd, can pass for two parts, for another
    id or for the hash of a long one: what separates them comes from here alone.
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
    """Who a message is from, where more than one could be; None in a chat of two.

    One line of plain characters: a name stands in front of what was said, and must not be able
    to look like the words of another, nor make a note of ours of what follows it.
    """
    if source.author is Author.OPERATOR:
        return "operator of this gateway"
    if source.chat_type is ChatType.DM:
        return None
    return sanitise_name(source.user_name, source.user_id) or "somebody"


def sanitise_name(*names: str | None) -> str | None:
    """The first of these of which a plain line is left."""
    for name in names:
        plain = "".join(
            c if c.isprintable() and c not in _RESERVED_CHARACTERS else " " for c in name or ""
        )
        if line := " ".join(plain.split())[:_MAX_NAME_LENGTH]:
            return line
    return None


def parse_route(route: SessionKey) -> tuple[str, str, ChatType, str]:
    """Platform, account, kind and id of the chat that a route names.

    An id that was too long for its route is not to be had from it: it comes back cut.
    """
    platform, account, kind, chat = map(_decode_part, route.split(":")[:4])
    return platform, account, ChatType(kind), chat


def _is_per_person(source: Source, groups: bool, threads: bool) -> bool:
    if source.chat_type is ChatType.DM:
        return False
    threaded = source.chat_type is ChatType.THREAD or bool(source.thread_id)
    return threads if threaded else groups


@lru_cache(maxsize=1024)  # on the way of every message, and most are of chats that just spoke
def _encode_part(part: str) -> str:
    if part.isascii() and part.isalnum() and len(part) <= _MAX_PART_LENGTH:
        return part
    whole = part.encode("utf-8", "surrogatepass")
    # A dot could lead out of a folder, and a tilde is ours: it says that a hash follows.
    text = quote(whole, safe="").replace(".", "%2E").replace("~", "%7E")
    return (
        text
        if len(text) <= _MAX_PART_LENGTH
        else f"{text[:_KEPT_PREFIX]}~{sha256(whole).hexdigest()}"
    )


def _decode_part(part: str) -> str:
    return unquote_to_bytes(part).decode("utf-8", "replace")


# MERGED holdfast.core.messages.quote: A quote: what a message answers, as the platform shows it beside it.
_MAX_QUOTE_LENGTH = (
    1000  # characters; whoever answers a long text has it before their eyes, in outline
)


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`ours`: the account that brings the message wrote it. A platform that does not say what was
    answered leaves the text empty, and one that does not know whose it is leaves the names."""

    text: str = ""
    user_id: str | None = None
    user_name: str | None = None
    message_id: str | None = None
    ours: bool = False


def format_quote(quote: Quote) -> str | None:
    """What the agent reads in front of the answer; None: nothing is known of it.

    Each line is marked: nothing that is quoted can look like the words of whoever quotes it, nor
    like a note of ours.
    """
    if not quote.text.strip():
        return None
    author = "you" if quote.ours else sanitise_name(quote.user_name, quote.user_id) or "somebody"
    cut = (
        quote.text if len(quote.text) <= _MAX_QUOTE_LENGTH else f"{quote.text[:_MAX_QUOTE_LENGTH]}…"
    )
    return "\n".join(f"> {line}".rstrip() for line in (f"{author} wrote:", *cut.splitlines()))


# MERGED holdfast.core.messages.attachment: An attachment: a file that came with a message, and has not been fetched yet.
ATTACHED_PREFIX = "[Attached, "
"""What the line begins with that names, behind the words of a message, the files that came."""


class AttachmentUnavailable(HoldfastError):
    """The file is not to be had, now or later; the text says why, for the sender and the agent."""


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """`fetch` brings the whole file. It raises `AttachmentUnavailable` where that will never work, and
    anything else where the message had better be taken again later."""

    name: str  # as its sender calls it; nobody has looked at it yet
    fetch: Callable[[], Awaitable[bytes]]
    size: int | None = None  # in bytes, where the platform says it before
