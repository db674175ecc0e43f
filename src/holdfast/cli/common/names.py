"""Sessions by the names that people use: an id, the beginning of one, or a name of their own."""

import difflib

from holdfast.cli.common.home import chosen_home
from holdfast.core.errors import HoldfastError
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.session_views import SessionList, SessionView
from holdfast.server.local.client import GatewayRefused

SESSION_LOOKUP_LIMIT = 500  # the newest sessions, among which a name is looked for
_COMPLETION_TIMEOUT = 1.0


def get_session(api: ApiClient, given: str) -> SessionView | None:
    """The session with that id."""
    try:
        return api.read_session(given, limit=1).session
    except GatewayRefused as refused:
        if refused.status != 404:
            raise
        return None


def find_session(api: ApiClient, given: str) -> SessionView:
    """The one session that `given` means; raises an error that says what it may have meant."""
    if (exact := get_session(api, given)) is not None:
        return exact
    return match_session(
        given, api.get("/sessions", SessionList, {"limit": SESSION_LOOKUP_LIMIT}).sessions
    )


def match_session(given: str, sessions: list[SessionView]) -> SessionView:
    """The one of these that `given` is the name of, or the beginning of the id of."""
    named = [session for session in sessions if session.chat == given]
    if named:
        return next((session for session in named if session.current), named[0])
    begins = [session for session in sessions if session.id.startswith(given)]
    if len(begins) == 1:
        return begins[0]
    raise HoldfastError(_unknown_session_text(given, sessions, matches=len(begins)))


def fetch_session_names() -> dict[str, str]:
    """Every name and id of the newest sessions, with its title; none where no gateway runs."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - only when Tab is pressed

    try:
        api = api_client_for(chosen_home(), timeout=_COMPLETION_TIMEOUT)
        sessions = api.get("/sessions", SessionList, {"limit": SESSION_LOOKUP_LIMIT}).sessions
    except HoldfastError:
        return {}
    ids = {session.id: session.title for session in sessions}
    return ids | {session.chat: session.title for session in sessions if session.current}


def _unknown_session_text(given: str, sessions: list[SessionView], *, matches: int) -> str:
    if matches:
        return f"{given} is the beginning of {matches} sessions; write more of the one you mean."
    names = {session.chat for session in sessions}
    near = difflib.get_close_matches(given, names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"There is no session {given}.{hint} `holdfast sessions list` has them all."
