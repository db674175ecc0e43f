"""Sessions as the store has them, in the words of the API: for when no gateway runs."""

from pathlib import Path

from holdfast.cli.common.names import SESSION_LOOKUP_LIMIT, match_session
from holdfast.cli.common.offline import query_store
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.session_views import (
    SessionDetail,
    SessionList,
    record_view,
    session_view,
    turn_view,
)

_SESSIONS_PURPOSE = "holdfast sessions"


def read_stored_sessions(home: Path, *, limit: int, offset: int, subagents: bool) -> SessionList:
    async def ask(store: Store) -> SessionList:
        rows = await store.sessions(limit=limit + 1, offset=offset, include_subagents=subagents)
        return SessionList(sessions=[*map(session_view, rows[:limit])], more=len(rows) > limit)

    return query_store(home, ask, purpose=_SESSIONS_PURPOSE) or SessionList(sessions=[], more=False)


def read_stored_session(home: Path, name: str) -> SessionDetail:
    """The session of that id or name; raises an error that says what to look at."""
    detail = query_store(
        home, lambda store: _read_session_detail(store, name), purpose=_SESSIONS_PURPOSE
    )
    if detail is None:
        raise HoldfastError(f"There is no session {name}; `holdfast sessions list` has all.")
    return detail


async def _read_session_detail(store: Store, name: str) -> SessionDetail:
    row = await store.session(SessionId(name))
    if row is None:
        views = [*map(session_view, await store.sessions(limit=SESSION_LOOKUP_LIMIT))]
        row = await store.session(SessionId(match_session(name, views).id))
    assert row is not None, "what is listed is there"
    records = await store.transcript(row.id)
    turns = dict.fromkeys(record.turn_id for record in records if record.turn_id is not None)
    return SessionDetail(
        session=session_view(row),
        turns=[turn_view(turn) for turn_id in turns if (turn := await store.turn(turn_id))],
        records=[record_view(record) for record in records],
        more=False,
        live=None,
    )
