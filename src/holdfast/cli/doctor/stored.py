"""The database as the doctor sees it: through the running gateway, else under the home's lock."""

import msgspec

from holdfast.cli.common.gateway import api_client_for
from holdfast.cli.common.offline import query_store
from holdfast.cli.doctor.finding import ExaminedHome
from holdfast.core.errors import StoreError
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.overall_views import StoreView
from holdfast.server.api.views.search_views import SearchIndexView
from holdfast.store.sqlite.at_rest import check_closed_store
from holdfast.system.lock import HomeLock

_LOCK_PURPOSE = "holdfast doctor"
_INSPECTION_TIMEOUT = 600.0  # seconds at the most: every page of the file is read
_EMPTY_SEARCH = SearchIndexView(messages=0, pending_sessions=0, bytes=0)


class DatabaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the file, page by page, and with the index beside it. `behind`: it is of
    an older schema, and was not opened as a store, which would bring it up to the present one."""

    problems: list[str]
    search: SearchIndexView
    search_problem: str = ""
    behind: bool = False


def inspect_database(examined: ExaminedHome) -> DatabaseReport:
    if examined.running:
        view = api_client_for(examined.home, timeout=_INSPECTION_TIMEOUT).get("/store", StoreView)
        return DatabaseReport(**msgspec.structs.asdict(view))
    with HomeLock(examined.home, purpose=_LOCK_PURPOSE):
        found = check_closed_store(examined.paths.db)
    if found.problems or found.needs_migration:
        return DatabaseReport(
            problems=found.problems, search=_EMPTY_SEARCH, behind=found.needs_migration
        )
    return query_store(examined.home, _read_search_state, purpose=_LOCK_PURPOSE) or DatabaseReport(
        problems=[], search=_EMPTY_SEARCH
    )


async def _read_search_state(store: Store) -> DatabaseReport:
    try:
        state = await store.search_state()
    except StoreError as error:
        return DatabaseReport(problems=[], search=_EMPTY_SEARCH, search_problem=str(error))
    return DatabaseReport(problems=[], search=SearchIndexView(**msgspec.structs.asdict(state)))


def rebuild_search_index(examined: ExaminedHome) -> str:
    if examined.running:
        view = api_client_for(examined.home, timeout=_INSPECTION_TIMEOUT).post(
            "/search/rebuild", {}, SearchIndexView
        )
        return _rebuilt_text(view.messages)

    async def anew(store: Store) -> int:
        return (await store.rebuild_search_index()).messages

    return _rebuilt_text(query_store(examined.home, anew, purpose=_LOCK_PURPOSE) or 0)


def _rebuilt_text(messages: int) -> str:
    return f"The search index was made anew: {messages} messages."
