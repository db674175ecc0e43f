"""Sessions as the store has them, in the words of the API: for when no gateway runs."""

from pathlib import Path

from holdfast.cli.names import LOOKED_AT, meant
from holdfast.cli.offline import ask_store
from holdfast.control.v1.session_views import (
    RecordView,
    SessionDetail,
    SessionList,
    SessionView,
    TurnView,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.core.ports import Store
from holdfast.core.session import SessionRow
from holdfast.core.source import place_of
from holdfast.core.turn import LaneState, TurnRow

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
        turns=[_turn(turn) for turn_id in turns if (turn := await store.turn(turn_id))],
        records=[
            RecordView(
                seq=record.seq,
                turn_id=record.turn_id,
                at=record.created_at,
                message=record.message,
            )
            for record in records
        ],
        more=False,
        live=None,
    )


def session_view(row: SessionRow) -> SessionView:
    platform, _, _, chat = place_of(row.route)
    return SessionView(
        id=row.id,
        title=row.title,
        platform=platform,
        chat=chat,
        state=LaneState.IDLE,
        current=row.current,
        suspended=row.suspended,
        model=row.model_override,
        messages=row.messages,
        created_at=row.created_at,
        active_at=row.active_at,
        ended_at=row.ended_at,
    )


def _turn(row: TurnRow) -> TurnView:
    return TurnView(
        id=row.id,
        state=row.state,
        started_at=row.started_at,
        ended_at=row.ended_at,
        usage=row.usage,
        reason=row.reason,
    )
