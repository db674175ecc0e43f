"""The database as the doctor sees it: through the running gateway, else under the home's lock."""

import msgspec

from holdfast.cli.checks.finding import Patient
from holdfast.cli.gateway import api_of
from holdfast.cli.offline import ask_store
from holdfast.control.v1.views import SearchView, StoreView
from holdfast.core.errors import StoreError
from holdfast.core.ports import Store

_PURPOSE = "holdfast doctor"
_TAKES = 600.0  # seconds at the most: every page of the file is read
_NOTHING = SearchView(messages=0, behind=0, bytes=0)


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the file, page by page, and with the index beside it."""

    problems: list[str]
    search: SearchView
    search_problem: str = ""


def look_into(patient: Patient) -> Stored:
    if patient.running:
        view = api_of(patient.home, timeout=_TAKES).get("/store", StoreView)
        return Stored(**msgspec.structs.asdict(view))
    found = ask_store(patient.home, _look, purpose=_PURPOSE)
    return found or Stored(problems=[], search=_NOTHING)


async def _look(store: Store) -> Stored:
    problems = await store.check()
    try:
        state = await store.search_state()
    except StoreError as error:
        return Stored(problems=problems, search=_NOTHING, search_problem=str(error))
    return Stored(problems=problems, search=SearchView(**msgspec.structs.asdict(state)))


def rebuild(patient: Patient) -> str:
    if patient.running:
        view = api_of(patient.home, timeout=_TAKES).post("/search/rebuild", {}, SearchView)
        return _made(view.messages)

    async def anew(store: Store) -> int:
        return (await store.rebuild_search()).messages

    return _made(ask_store(patient.home, anew, purpose=_PURPOSE) or 0)


def _made(messages: int) -> str:
    return f"The search index was made anew: {messages} messages."
