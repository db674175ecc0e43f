"""The views of the search: what was found, and how the index is."""

import msgspec

from holdfast.server.api.views.session_views import SessionView


class SearchHitView(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the words that were searched for stand.

    `marked` is the snippet in pieces: every second one is what was found.
    """

    session: SessionView
    seq: int
    role: str  # user, assistant or tool
    at: float
    snippet: str
    parts: list[str]


class SearchIndexView(msgspec.Struct, frozen=True, kw_only=True):
    """The search index: how many messages it has, and how many sessions it is behind with."""

    messages: int
    pending_sessions: int
    bytes: int
