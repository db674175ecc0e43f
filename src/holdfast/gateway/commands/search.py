"""/search: where something was said, in the conversations that this chat may see."""

from collections.abc import Awaitable
from datetime import datetime

from holdfast.core.errors import StoreError
from holdfast.core.sessions.search import FoundRecord, SearchQuery, visible_from
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House

_SHOWN = 8


class Search:
    name = "search"

    def __init__(self, house: House) -> None:
        self._house = house

    def begin(self, asked: Asked) -> Awaitable[None]:
        return self._finish(asked)

    async def _finish(self, asked: Asked) -> None:
        await answer(self._house, asked.row, await self._text(asked))

    async def _text(self, asked: Asked) -> str:
        if not asked.argument:
            return 'Say what to look for: /search WORDS. "Quotes" keep words together.'
        row = asked.row
        visible = visible_from(row.route, row.principal)
        query = SearchQuery(words=asked.argument, limit=_SHOWN, visible=visible)
        try:
            found = await self._house.store.search(query)
        except StoreError as error:
            # The search has a file of its own: its trouble is an answer, and no reason to wait
            # until the gateway is started again.
            return f"The search does not work just now: {error}"
        if not found:
            return "Nothing was found. All words must be there; the beginning of one is enough."
        return "\n".join(_line(each, here=each.session.id == asked.session_id) for each in found)


def _line(found: FoundRecord, *, here: bool) -> str:
    day = datetime.fromtimestamp(found.created_at).strftime("%Y-%m-%d")
    where = "here" if here else f"{found.session.title or found.session.id} ({found.session.id})"
    return f"{day} · {where}: {found.snippet}"
