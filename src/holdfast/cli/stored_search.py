"""The search with no gateway running: the store and its index under the home's lock."""

from pathlib import Path

import msgspec

from holdfast.cli.offline import ask_store
from holdfast.cli.searching import Asked
from holdfast.cli.stored import stored_session
from holdfast.control.v1.search_views import Found, SearchView
from holdfast.control.v1.session_views import session_view
from holdfast.core.ids import SessionId
from holdfast.core.ports import Store
from holdfast.core.search import FoundRecord, SearchQuery

PURPOSE = "holdfast search"


def stored_found(home: Path, asked: Asked, *, since: float) -> list[Found]:
    named = stored_session(home, asked.session).session.id if asked.session else None
    query = SearchQuery(
        words=asked.words,
        limit=asked.limit,
        session_id=SessionId(named) if named else None,
        platform=asked.platform,
        since=since,
    )

    async def ask(store: Store) -> list[Found]:
        return [_view(each) for each in await store.search(query)]

    return ask_store(home, ask, purpose=PURPOSE) or []


def rebuilt(home: Path) -> SearchView:
    async def ask(store: Store) -> SearchView:
        return SearchView(**msgspec.structs.asdict(await store.rebuild_search()))

    nothing = SearchView(messages=0, behind=0, bytes=0)
    return ask_store(home, ask, purpose=PURPOSE) or nothing


def _view(found: FoundRecord) -> Found:
    return Found(
        session=session_view(found.session),
        seq=found.seq,
        role=found.role,
        at=found.created_at,
        snippet=found.snippet,
        marked=list(found.pieces),
    )
