"""Invariants of routes: a route keeps its session until a command or a reset changes it.

Each invariant yields a sentence for every violation.
"""

from collections.abc import Iterator, Sequence

from tests.state_machine.home_contents import HomeContents, Invariant, ran_in_another_turn

from holdfast.core.commands import parse_command
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow


def routes_keep_their_sessions(contents: HomeContents) -> Iterator[str]:
    """G4: a route keeps its session until a command leaves it, or until a reset replaces it and
    says so."""
    if contents.home.disk.refused:
        return  # a /new that could not be stored is carried out late
    last: dict[str, SessionId] = {}
    for row in contents.inbox.values():
        command = parse_command(row.inbound.text) if row.inbound.commands else None
        if command is not None:
            yield from _after_session_command(contents, row, command[0], last)
        elif row.session_id and row.turn_id and not ran_in_another_turn(row):
            yield from _after_message(contents, row, row.session_id, last)


def _after_session_command(
    contents: HomeContents, row: InboxRow, name: str, last: dict[str, SessionId]
) -> Iterator[str]:
    if name not in ("new", "resume", "fork"):
        return
    before = last.pop(row.route, None)
    last.pop(f"left {row.route}", None)
    if name == "new":
        left = contents.sessions[before] if before is not None else None
        went_back = any(each.inbound.text.startswith("/resume") for each in contents.inbox.values())
        open_still = left is not None and left.ended_at is None and not left.suspended
        if open_still and not went_back:
            yield f"/new did not end {before}"
        last[f"left {row.route}"] = before or SessionId("")


def _after_message(
    contents: HomeContents, row: InboxRow, session_id: SessionId, last: dict[str, SessionId]
) -> Iterator[str]:
    before = last.get(row.route)
    left = contents.sessions.get(before) if before is not None else None
    fresh = contents.sessions[session_id].was_auto_reset or (left is not None and left.ended_at)
    if session_id == last.get(f"left {row.route}"):
        yield f"row {row.id} ran in {session_id}, which /new had left"
    if before not in (None, session_id) and not fresh:
        yield f"row {row.id} of {row.route} ran in {session_id}, not in {before}: {left}"
    last[row.route] = session_id


AT_THE_END: Sequence[Invariant] = (routes_keep_their_sessions,)
