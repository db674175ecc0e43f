"""Where a message comes from, and the session key that place has."""

from enum import StrEnum
from urllib.parse import quote, unquote

import msgspec

from holdfast.core.ids import SessionKey


class ChatType(StrEnum):
    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"
    THREAD = "thread"


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    platform: str
    account: str = "default"
    chat_id: str
    chat_type: ChatType = ChatType.DM
    thread_id: str | None = None
    user_id: str
    user_name: str | None = None


def build_session_key(source: Source) -> SessionKey:
    """The route of a source. A DM is its chat and thread; a group is one session per person.

    Each part is percent-encoded, so that no id, however odd, can pass for two parts.
    """
    parts = [source.platform, source.account, source.chat_type, source.chat_id]
    parts.append(source.thread_id or "")
    if source.chat_type in (ChatType.GROUP, ChatType.CHANNEL):
        parts.append(source.user_id)
    return SessionKey(":".join(map(_encoded, parts)))


def place_of(route: SessionKey) -> tuple[str, str, ChatType, str]:
    """Platform, account, kind and id of the chat that a route names."""
    platform, account, kind, chat = map(unquote, route.split(":")[:4])
    return platform, account, ChatType(kind), chat


def _encoded(part: str) -> str:
    # Most ids are plain, and this is on the way of every message.
    return part if part.isascii() and part.isalnum() else quote(part, safe="")
