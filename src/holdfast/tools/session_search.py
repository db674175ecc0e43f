"""The tool `session_search`: searches this conversation and others of the same person."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import GetSession
from holdfast.core.sessions.search import SearchMatch, SearchQuery, search_scope
from holdfast.core.turns.external import source_label
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.tools.arguments import decode, make_schema

_DAY = 86400.0
_MAX_RESULTS = 12


class SessionSearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    session: str = ""
    days: Annotated[int, msgspec.Meta(ge=0)] = 0


class SessionSearchTool:
    """Finds only messages that the user could have read: see `SearchScope`."""

    schema = make_schema(
        "session_search",
        'Search past conversations with this person; all words must match, "quote" a phrase.',
        SessionSearchArguments,
    )
    toolset = "sessions"
    replay = ReplayClass.SAFE
    danger = Danger.NONE

    def __init__(self, reads: StoreReader, *, clock: Clock) -> None:
        self._reads = reads
        self._clock = clock

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        asked = decode(SessionSearchArguments, arguments)
        here = await self._reads.read(GetSession(session_id=context.session_id))
        if here is None:
            raise ToolFailed(
                "this conversation is empty and belongs to no person, so there is nothing to search"
            )
        found = await self._reads.read(
            SearchQuery(
                words=asked.words,
                limit=_MAX_RESULTS,
                session_id=SessionId(asked.session) if asked.session else None,
                since=self._clock.now() - asked.days * _DAY if asked.days else 0.0,
                scope=search_scope(here.route, context.principal),
            )
        )
        if not found:
            return ToolOutput(text="Nothing was found. Try fewer words, or the beginning of one.")
        text = "\n".join(_result_line(each, here.id) for each in found)
        return ToolOutput(text=text, sources=await self._sources(found, here.id))

    async def _sources(self, found: Sequence[SearchMatch], here: SessionId) -> tuple[str, ...]:
        """The other conversations in the result that contain external content."""
        labels: list[str] = []
        for session_id in dict.fromkeys(each.session.id for each in found):
            session = (
                None
                if session_id == here
                else await self._reads.read(GetSession(session_id=session_id))
            )
            if session is not None and session.taints:
                labels.append(source_label("conversation", session_id))
        return tuple(labels)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return await self.run(context, arguments)


def _result_line(found: SearchMatch, here: SessionId) -> str:
    day = datetime.fromtimestamp(found.created_at, UTC).strftime("%Y-%m-%d %H:%M")
    where = "here" if found.session.id == here else f"{found.session.id} {found.session.title!r}"
    return f"[{day} · {where} · {found.role}] {found.snippet}"
