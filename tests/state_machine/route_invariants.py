"""The laws of routes: each leads to one session, until somebody or something leads it elsewhere.

Each law yields a sentence for every breach of it.
"""

from collections.abc import Iterator, Sequence

from tests.state_machine.home_contents import Books, Law, ran_elsewhere

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.gateway.commands.command import parse_command


def routes_are_where_they_should_be(books: Books) -> Iterator[str]:
    """G4: a route keeps its session until a command leaves it, or until another took its place
    and says so."""
    if books.home.weather.refused:
        return  # a /new that could not be kept is carried out late
    last: dict[str, SessionId] = {}
    for row in books.inbox.values():
        command = parse_command(row.inbound.text) if row.inbound.commands else None
        if command is not None:
            yield from _led_elsewhere(books, row, command[0], last)
        elif row.session_id and row.turn_id and not ran_elsewhere(row):
            yield from _went_on(books, row, row.session_id, last)


def _led_elsewhere(
    books: Books, row: InboxRow, name: str, last: dict[str, SessionId]
) -> Iterator[str]:
    if name not in ("new", "resume", "fork"):
        return
    before = last.pop(row.route, None)
    last.pop(f"left {row.route}", None)
    if name == "new":
        left = books.sessions[before] if before is not None else None
        went_back = any(each.inbound.text.startswith("/resume") for each in books.inbox.values())
        open_still = left is not None and left.ended_at is None and not left.suspended
        if open_still and not went_back:
            yield f"/new did not end {before}"
        last[f"left {row.route}"] = before or SessionId("")


def _went_on(
    books: Books, row: InboxRow, session_id: SessionId, last: dict[str, SessionId]
) -> Iterator[str]:
    before = last.get(row.route)
    left = books.sessions.get(before) if before is not None else None
    fresh = books.sessions[session_id].was_auto_reset or (left is not None and left.ended_at)
    if session_id == last.get(f"left {row.route}"):
        yield f"row {row.id} ran in {session_id}, which /new had left"
    if before not in (None, session_id) and not fresh:
        yield f"row {row.id} of {row.route} ran in {session_id}, not in {before}: {left}"
    last[row.route] = session_id


AFTER_ALL: Sequence[Law] = (routes_are_where_they_should_be,)
