"""Full-text search in transcripts: the query, the hits, and who may see which."""

import msgspec

from holdfast.core.ids import PrincipalId, SessionId, SessionKey
from holdfast.core.messages.source import ChatType, parse_route
from holdfast.core.ports.command import Query
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.subagent import INTERNAL_PLATFORM

MAX_QUERY_LENGTH = 200  # characters of a question; nobody types more, and programs need no more


class SearchScope(msgspec.Struct, frozen=True, kw_only=True):
    """Whose conversations are looked at: those of a route, and those that a person owns."""

    route: SessionKey
    principal: PrincipalId | None = None


class SearchQuery(Query["list[SearchMatch]"], frozen=True, kw_only=True):
    """Messages that contain all the words, best match first. `words` are as a person typed them;
    nothing in them is an error. It covers everything that was durable at the request, unless the
    index is being rebuilt and that takes long."""

    words: str
    limit: int = 20
    session_id: SessionId | None = None
    platform: str = ""
    since: float = 0.0
    scope: SearchScope | None = None  # None: everything, for whoever runs the gateway


class SearchMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A message that holds what was searched for.

    `pieces` are the part of its text around that: every second one is what was found.
    """

    session: SessionRow
    seq: int
    role: str
    pieces: tuple[str, ...]
    created_at: float

    @property
    def snippet(self) -> str:
        return "".join(self.pieces)


class SearchIndexStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far the index is; `behind` counts the sessions it has yet to look at."""

    messages: int
    behind: int
    bytes: int


def search_scope(route: SessionKey, principal: PrincipalId) -> SearchScope:
    """What may be found from a conversation on this route.

    What is found is read by all who read the chat it is told in. So a private chat finds all
    that is its person's, and a chat of several only its own past. A subagent does not know in
    which chat its reply is told, and finds only its own.
    """
    platform, _, kind, _ = parse_route(route)
    private = kind is ChatType.DM and platform != INTERNAL_PLATFORM
    return SearchScope(route=route, principal=principal if private else None)
