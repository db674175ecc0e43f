"""The place in a list of sessions from which a next page goes on."""

from math import isfinite

from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import SessionRow
from holdfast.server.api.errors import bad_request


def make_cursor(row: SessionRow) -> str:
    """By when it was last active and its id: what moves to the top meanwhile moves no page."""
    return f"{row.active_at!r}~{row.id}"


def parse_cursor(text: str) -> tuple[float, SessionId]:
    active, mark, session_id = text.partition("~")
    try:
        at = float(active)
    except ValueError:
        at = float("nan")
    if not mark or not isfinite(at):
        raise bad_request("after must be the `next` of a page before.", param="after")
    return at, SessionId(session_id)
