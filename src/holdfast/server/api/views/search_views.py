"""The views of the search: what was found, and how the index is."""

import msgspec

from holdfast.server.api.views.session_views import SessionView


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the words that were searched for stand.

    `marked` is the snippet in pieces: every second one is what was found.
    """

    session: SessionView
    seq: int
    role: str  # user, assistant or tool
    at: float
    snippet: str
    marked: list[str]


class SearchView(msgspec.Struct, frozen=True, kw_only=True):
    """The search index: how many messages it has, and how many sessions it is behind with."""

    messages: int
    behind: int
    bytes: int
