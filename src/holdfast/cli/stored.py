"""Sessions as the store has them, in the words of the control socket."""

from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.offline import ask_store
from holdfast.core.ids import SessionId
from holdfast.core.ports import Store

PURPOSE = "holdfast sessions"


def stored_sessions(home: Path, *, limit: int, offset: int) -> dict[str, Any]:
    async def ask(store: Store) -> list[Any]:
        rows = await store.sessions(limit=limit, offset=offset)
        return [msgspec.to_builtins(row) for row in rows]

    return {"sessions": ask_store(home, ask, purpose=PURPOSE) or []}


def stored_session(home: Path, session_id: str) -> dict[str, Any] | None:
    return ask_store(home, lambda store: _whole(store, SessionId(session_id)), purpose=PURPOSE)


async def _whole(store: Store, session_id: SessionId) -> dict[str, Any] | None:
    session = await store.session(session_id)
    if session is None:
        return None
    transcript = await store.transcript(session_id)
    turns = dict.fromkeys(record.turn_id for record in transcript if record.turn_id is not None)
    return {
        "session": msgspec.to_builtins(session),
        "transcript": [msgspec.to_builtins(record) for record in transcript],
        "turns": [msgspec.to_builtins(await store.turn(turn_id)) for turn_id in turns],
    }
