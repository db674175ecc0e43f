"""Sessions as the store has them, in the words of the API: for when no gateway runs."""

from pathlib import Path

from holdfast.cli.common.names import LOOKED_AT, meant
from holdfast.cli.common.offline import ask_store
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

PURPOSE = "holdfast sessions"


def stored_sessions(home: Path, *, limit: int, offset: int, children: bool) -> SessionList:
    async def ask(store: Store) -> SessionList:
        rows = await store.sessions(limit=limit + 1, offset=offset, children=children)
        return SessionList(sessions=[*map(session_view, rows[:limit])], more=len(rows) > limit)

    return ask_store(home, ask, purpose=PURPOSE) or SessionList(sessions=[], more=False)


def stored_session(home: Path, name: str) -> SessionDetail:
    """The session of that id or name; raises an error that says what to look at."""
    detail = ask_store(home, lambda store: _detail(store, name), purpose=PURPOSE)
    if detail is None:
        raise HoldfastError(f"There is no session {name}; `holdfast sessions list` has all.")
    return detail


async def _detail(store: Store, name: str) -> SessionDetail:
    row = await store.session(SessionId(name))
    if row is None:
        views = [*map(session_view, await store.sessions(limit=LOOKED_AT))]
        row = await store.session(SessionId(meant(name, views).id))
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
