"""The search with no gateway running: the store and its index under the home's lock."""

from pathlib import Path

import msgspec

from holdfast.cli.common.offline import query_store
from holdfast.cli.common.stored import read_stored_session
from holdfast.cli.searching import SearchRequest
from holdfast.core.ids import SessionId
from holdfast.core.ports.protocols import Store
from holdfast.core.sessions.search import SearchMatch, SearchQuery
from holdfast.server.api.views.search_views import SearchHitView, SearchIndexView
from holdfast.server.api.views.session_views import session_view

_SEARCH_PURPOSE = "holdfast search"


def search_stored_messages(
    home: Path, request: SearchRequest, *, since: float
) -> list[SearchHitView]:
    named = read_stored_session(home, request.session).session.id if request.session else None
    query = SearchQuery(
        words=request.words,
        limit=request.limit,
        session_id=SessionId(named) if named else None,
        platform=request.platform,
        since=since,
    )

    async def ask(store: Store) -> list[SearchHitView]:
        return [_search_result_view(each) for each in await store.search(query)]

    return query_store(home, ask, purpose=_SEARCH_PURPOSE) or []


def rebuild_stored_index(home: Path) -> SearchIndexView:
    async def ask(store: Store) -> SearchIndexView:
        return SearchIndexView(**msgspec.structs.asdict(await store.rebuild_search_index()))

    nothing = SearchIndexView(messages=0, pending_sessions=0, bytes=0)
    return query_store(home, ask, purpose=_SEARCH_PURPOSE) or nothing


def _search_result_view(found: SearchMatch) -> SearchHitView:
    return SearchHitView(
        session=session_view(found.session),
        seq=found.seq,
        role=found.role,
        at=found.created_at,
        snippet=found.snippet,
        parts=list(found.pieces),
    )
