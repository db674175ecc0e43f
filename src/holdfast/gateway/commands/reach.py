"""Which sessions somebody reaches from where they speak, and how those are shown to them."""

from collections.abc import Iterable

from holdfast.core.ids import PrincipalId, SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.source import ChatType
from holdfast.core.sessions.session import SessionRow
from holdfast.gateway.services import Services

MAX_SHOWN = 10
_READ_LIMIT = 200
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))


def dm_principal(row: InboxRow) -> PrincipalId | None:
    """In a chat of two, whose every session may be shown there. Where others read along, None:
    only what was said in that very place is."""
    return row.principal if row.inbound.source.chat_type is ChatType.DM else None


async def list_conversations(
    services: Services, row: InboxRow, *, current: SessionId | None, limit: int = _READ_LIMIT
) -> list[SessionRow]:
    """The last active first; those in which nothing was ever said are not worth a line."""
    found = await services.store.sessions_in_reach(
        route=row.route, principal=dm_principal(row), limit=limit
    )
    return [each for each in found if each.messages or each.id == current]


def session_lines(
    rows: Iterable[SessionRow], *, current: SessionId | None, now: float, first: int = 1
) -> list[str]:
    return [
        f"{number}. {session_title(row)} - {_message_count(row)}, {format_ago(now - row.active_at)}"
        + (" (you are here)" if row.id == current else "")
        for number, row in enumerate(rows, first)
    ]


def session_title(row: SessionRow) -> str:
    return row.title or "(no title)"


def _message_count(row: SessionRow) -> str:
    return f"{row.messages} message{'s' if row.messages != 1 else ''}"


def format_ago(seconds: float) -> str:
    for size, unit in _UNITS:
        count = int(seconds // size)
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
