"""The API client of a home's gateway, and sessions and jobs looked up by the names people type."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.cli.common.options import chosen_home
from holdfast.core.errors import HoldfastError
from holdfast.server.api.client import CALL_TIMEOUT, ApiClient
from holdfast.server.api.views.jobs import JobList
from holdfast.server.api.views.sessions import SessionList, SessionView
from holdfast.server.local.control_client import (
    GatewayDown,
    GatewayRefused,
    GatewayStoreUnavailable,
)
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths

T = TypeVar("T")


def api_client_for(home: Path, *, timeout: float = CALL_TIMEOUT) -> ApiClient:
    """A client of the gateway of a home. Raises `GatewayDown` if none runs."""
    holder = read_holder(home)
    if holder is None or holder.purpose != "gateway":
        raise GatewayDown(
            "No gateway is running for {home}. Start it with `holdfast run`.", home=home
        )
    from holdfast.config import load  # noqa: PLC0415 - only for a running gateway
    from holdfast.system.tokens import api_token  # noqa: PLC0415 - as above

    configured = load(home).secret("platforms.api.token")
    token = api_token(Paths(home), configured=configured)
    return ApiClient(Paths(home), token=token, timeout=timeout)


def query_api(
    home: Path,
    query: Callable[[ApiClient], T],
    *,
    purpose: str,
    timeout: float = CALL_TIMEOUT,
) -> T:
    """What the query finds in the running gateway; without one, in the store of the home, which is
    locked for `purpose` meanwhile."""
    try:
        return query(api_client_for(home, timeout=timeout))
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.offline import open_offline_api  # noqa: PLC0415 - all packages

        with open_offline_api(home, purpose=purpose) as api:
            return query(api)


SESSION_LOOKUP_LIMIT = 500  # names are searched among the newest sessions
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
    """The session with this id, name or beginning of an id. Raises with the closest name."""
    if (exact := get_session(api, given)) is not None:
        return exact
    return match_session(
        given, api.get("/sessions", SessionList, {"limit": SESSION_LOOKUP_LIMIT}).sessions
    )


def match_session(given: str, sessions: list[SessionView]) -> SessionView:
    """The session with this name, or whose id begins with it."""
    named = [session for session in sessions if session.chat == given]
    if named:
        return next((session for session in named if session.current), named[0])
    matches = [session for session in sessions if session.id.startswith(given)]
    if len(matches) == 1:
        return matches[0]
    raise _unknown_session(given, sessions, matches=len(matches))


def fetch_session_names() -> dict[str, str]:
    """Names and ids of the newest sessions, with titles; empty without a running gateway."""
    try:
        api = api_client_for(chosen_home(), timeout=_COMPLETION_TIMEOUT)
        sessions = api.get("/sessions", SessionList, {"limit": SESSION_LOOKUP_LIMIT}).sessions
    except HoldfastError:
        return {}
    ids = {session.id: session.title for session in sessions}
    return ids | {session.chat: session.title for session in sessions if session.current}


def _unknown_session(given: str, sessions: list[SessionView], *, matches: int) -> HoldfastError:
    if matches:
        return HoldfastError(
            "{n} session ids begin with {id}. Type more of the id.", n=matches, id=given
        )
    names = {session.chat for session in sessions}
    for near in difflib.get_close_matches(given, names, n=1):
        return HoldfastError(
            "There is no session {name}. Did you mean {near}? `holdfast sessions list` lists all "
            "sessions.",
            name=given,
            near=near,
        )
    return HoldfastError(
        "There is no session {name}. `holdfast sessions list` lists all sessions.", name=given
    )


_JOB_LIMIT = 500  # the oldest


def fetch_job_names() -> dict[str, str]:
    """The names of jobs by number; empty without a running gateway."""
    try:
        api = api_client_for(chosen_home(), timeout=_COMPLETION_TIMEOUT)
        jobs = api.get("/jobs", JobList, {"limit": _JOB_LIMIT}).jobs
    except HoldfastError:
        return {}
    return {str(job.id): job.name for job in jobs}
