"""The search with no gateway running: the store and its index under the home's lock."""

from pathlib import Path

import msgspec

from holdfast.cli.common.offline import ask_store
from holdfast.cli.common.stored import stored_session
from holdfast.cli.searching import Asked
from holdfast.core.ids import SessionId
from holdfast.core.ports.protocols import Store
from holdfast.core.sessions.search import FoundRecord, SearchQuery
from holdfast.server.api.views.search_views import Found, SearchView
from holdfast.server.api.views.session_views import session_view

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
