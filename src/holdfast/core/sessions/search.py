"""Full-text search in transcripts: the query, the hits, and who may see which."""

import msgspec

from holdfast.core.ids import PrincipalId, SessionId, SessionKey
from holdfast.core.messages.source import ChatType, parse_route
from holdfast.core.ports.command import Query
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.subagent import INTERNAL_PLATFORM

MAX_QUERY_LENGTH = 200  # characters; longer queries are refused


class SearchScope(msgspec.Struct, frozen=True, kw_only=True):
    """The conversations to search: those of a route, and those of a person."""

    route: SessionKey
    principal: PrincipalId | None = None


class SearchQuery(Query["list[SearchMatch]"], frozen=True, kw_only=True):
    """Messages that contain all the words, best match first. `words` are as a person typed them;
    any text is valid. It covers everything that was durable at the request, unless the index is
    being rebuilt for long."""

    words: str
    limit: int = 20
    session_id: SessionId | None = None
    platform: str = ""
    since: float = 0.0
    scope: SearchScope | None = None  # None: everything, for operators


class SearchMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A message that matches. `pieces` are the text around the match: every second one matches."""

    session: SessionRow
    seq: int
    role: str
    pieces: tuple[str, ...]
    created_at: float

    @property
    def snippet(self) -> str:
        return "".join(self.pieces)


class SearchIndexStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of the index; `behind` counts the sessions that are not indexed yet."""

    messages: int
    behind: int
    bytes: int


def search_scope(route: SessionKey, principal: PrincipalId) -> SearchScope:
    """The conversations that may be searched from a conversation on this route.

    Everyone in the chat reads the results. So a direct chat searches all conversations of its
    person, and a group only its own. A subagent does not know in which chat its reply is sent, and
    searches only its own conversation.
    """
    platform, _, kind, _ = parse_route(route)
    private = kind is ChatType.DM and platform != INTERNAL_PLATFORM
    return SearchScope(route=route, principal=principal if private else None)
