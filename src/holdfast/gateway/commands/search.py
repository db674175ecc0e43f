"""/search: where something was said, in the conversations that this chat may see."""

from collections.abc import Awaitable
from datetime import datetime

from holdfast.core.errors import StoreError
from holdfast.core.sessions.search import SearchMatch, SearchQuery, search_scope
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services

_MAX_RESULTS = 8


class SearchCommand:
    name = "search"

    def __init__(self, services: Services) -> None:
        self._services = services

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._run(request)

    async def _run(self, request: CommandRequest) -> None:
        await send_reply(self._services, request.row, await self._text(request))

    async def _text(self, request: CommandRequest) -> str:
        if not request.argument:
            return 'Say what to look for: /search WORDS. "Quotes" keep words together.'
        row = request.row
        visible = search_scope(row.route, row.principal)
        query = SearchQuery(words=request.argument, limit=_MAX_RESULTS, scope=visible)
        try:
            found = await self._services.store.search(query)
        except StoreError as error:
            # The search has a file of its own: its trouble is an answer, and no reason to wait
            # until the gateway is started again.
            return f"The search does not work just now: {error}"
        if not found:
            return "Nothing was found. All words must be there; the beginning of one is enough."
        return "\n".join(
            _result_line(each, here=each.session.id == request.session_id) for each in found
        )


def _result_line(found: SearchMatch, *, here: bool) -> str:
    day = datetime.fromtimestamp(found.created_at).strftime("%Y-%m-%d")
    where = "here" if here else f"{found.session.title or found.session.id} ({found.session.id})"
    return f"{day} · {where}: {found.snippet}"
