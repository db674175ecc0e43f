"""The database as the doctor sees it: through the running gateway, else under the home's lock."""

import msgspec

from holdfast.cli.common.gateway import api_of
from holdfast.cli.common.offline import ask_store
from holdfast.cli.doctor.finding import Patient
from holdfast.core.errors import StoreError
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.overall_views import StoreView
from holdfast.server.api.views.search_views import SearchView
from holdfast.store.sqlite.at_rest import look_through
from holdfast.system.lock import HomeLock

_PURPOSE = "holdfast doctor"
_TAKES = 600.0  # seconds at the most: every page of the file is read
_NOTHING = SearchView(messages=0, behind=0, bytes=0)


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the file, page by page, and with the index beside it. `behind`: it is of
    an older schema, and was not opened as a store, which would bring it up to the present one."""

    problems: list[str]
    search: SearchView
    search_problem: str = ""
    behind: bool = False


def look_into(patient: Patient) -> Stored:
    if patient.running:
        view = api_of(patient.home, timeout=_TAKES).get("/store", StoreView)
        return Stored(**msgspec.structs.asdict(view))
    with HomeLock(patient.home, purpose=_PURPOSE):
        found = look_through(patient.paths.db)
    if found.problems or found.behind:
        return Stored(problems=found.problems, search=_NOTHING, behind=found.behind)
    return ask_store(patient.home, _search, purpose=_PURPOSE) or Stored(
        problems=[], search=_NOTHING
    )


async def _search(store: Store) -> Stored:
    try:
        state = await store.search_state()
    except StoreError as error:
        return Stored(problems=[], search=_NOTHING, search_problem=str(error))
    return Stored(problems=[], search=SearchView(**msgspec.structs.asdict(state)))


def rebuild(patient: Patient) -> str:
    if patient.running:
        view = api_of(patient.home, timeout=_TAKES).post("/search/rebuild", {}, SearchView)
        return _made(view.messages)

    async def anew(store: Store) -> int:
        return (await store.rebuild_search()).messages

    return _made(ask_store(patient.home, anew, purpose=_PURPOSE) or 0)


def _made(messages: int) -> str:
    return f"The search index was made anew: {messages} messages."
