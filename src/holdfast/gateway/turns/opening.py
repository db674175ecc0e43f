"""What people and model are told when a session took the place of another by itself."""

from collections.abc import Mapping

from holdfast.core.config.settings import SessionSettings
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.message import NoteMessage
from holdfast.core.messages.source import is_shared
from holdfast.core.sessions.reset import ResetReason, SessionReset
from holdfast.core.turns.subagent import INTERNAL_PLATFORM

_RESET_TEXTS: Mapping[ResetReason, str] = {
    ResetReason.SUSPENDED: "The last conversation here was set aside, because it could not go on",
    ResetReason.IDLE: "Nothing was said here for a while",
    ResetReason.DAILY: "A new day has begun since something was last said here",
}


def new_session_notice(reset: SessionReset) -> str:
    return (
        f"{_RESET_TEXTS[reset.reason]}, so this is a fresh conversation. The last one is kept: "
        "/resume goes back to it, /sessions lists them all."
    )


def new_session_note(reset: SessionReset) -> NoteMessage:
    return NoteMessage(
        text=f"[System note: {_RESET_TEXTS[reset.reason]}, so this is a fresh conversation, and its "
        "user was told so. You see nothing of the last one; they can go back to it with /resume.]"
    )


def session_owner(row: InboxRow, settings: SessionSettings) -> PrincipalId | None:
    """Whose the session of this message is; None: several people's, or the house's own."""
    source = row.inbound.source
    shared = is_shared(source, settings.group_sessions_per_user, settings.thread_sessions_per_user)
    return None if shared or source.platform == INTERNAL_PLATFORM else row.principal
