"""`session_search`: what was said before, in this conversation and in others of the same person."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.ports.library import Library
from holdfast.core.ports.protocols import Clock
from holdfast.core.sessions.search import FoundRecord, SearchQuery, visible_from
from holdfast.core.turns.tool import Arguments, Danger, Replay, ToolContext, ToolFailed, ToolOutput
from holdfast.tools.arguments import decode, make_schema

_DAY = 86400.0
_SHOWN = 12


class SearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    session: str = ""
    days: Annotated[int, msgspec.Meta(ge=0)] = 0


class SessionSearch:
    """Shows nobody what they could not have read: see `core.search.visible_from`."""

    schema = make_schema(
        "session_search",
        'Search past conversations with this person; all words must match, "quote" a phrase.',
        SearchArguments,
    )
    toolset = "sessions"
    replay = Replay.SAFE
    danger = Danger.NONE

    def __init__(self, library: Library, *, clock: Clock) -> None:
        self._library = library
        self._clock = clock

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        asked = decode(SearchArguments, arguments)
        here = await self._library.session(context.session_id)
        if here is None:
            raise ToolFailed("this conversation has nothing in it yet, and nobody to search for")
        found = await self._library.search(
            SearchQuery(
                words=asked.words,
                limit=_SHOWN,
                session_id=SessionId(asked.session) if asked.session else None,
                since=self._clock.now() - asked.days * _DAY if asked.days else 0.0,
                visible=visible_from(here.route, context.principal),
            )
        )
        if not found:
            return ToolOutput(text="Nothing was found. Try fewer words, or the beginning of one.")
        return ToolOutput(text="\n".join(_line(each, here.id) for each in found))

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return await self.run(context, arguments)


def _line(found: FoundRecord, here: SessionId) -> str:
    day = datetime.fromtimestamp(found.created_at, UTC).strftime("%Y-%m-%d %H:%M")
    where = "here" if found.session.id == here else f"{found.session.id} {found.session.title!r}"
    return f"[{day} · {where} · {found.role}] {found.snippet}"
