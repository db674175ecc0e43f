"""Scopes: what an app must have been granted in its workspace, and what is missing without it.

https://docs.slack.dev/reference/scopes. The manifest in docs/slack.md asks for all of them; an app
that was made by hand, or installed before one was added, may have fewer.
"""

from collections.abc import Set

from holdfast.core.errors import ConnectRefused

APPS_PAGE = "https://api.slack.com/apps"
REACTIONS_SCOPE = "reactions:write"
WRITE_SCOPE = "chat:write"  # without it there is no door
HISTORY_SCOPES = frozenset({"channels:history", "groups:history", "im:history", "mpim:history"})

_NO_BACKLOG = "nor looked up after a gap"
_EFFECT_OF_MISSING = {
    "app_mentions:read": "who names the app in a channel is not heard",
    "channels:history": f"what is said in channels is not heard, {_NO_BACKLOG}",
    WRITE_SCOPE: "nothing can be said",
    "commands": "there is no /holdfast",
    "files:read": "files of people are not fetched",
    "files:write": "files of the agent are not sent",
    "groups:history": f"what is said in private channels is not heard, {_NO_BACKLOG}",
    "im:history": f"what is said to the app alone is not heard, {_NO_BACKLOG}",
    "mpim:history": f"what is said in groups of people is not heard, {_NO_BACKLOG}",
    REACTIONS_SCOPE: "a message that waits bears no sign of it",
    "users:read": "the agent does not know who speaks by their name",
}
SCOPES = frozenset(_EFFECT_OF_MISSING)


def missing_scope_warnings(granted: Set[str]) -> tuple[str, ...]:
    """What the app has not been granted, in sentences. None, where Slack does not say what was
    (`X-OAuth-Scopes`)."""
    missing = sorted(SCOPES - granted) if granted else []
    return tuple(
        f"the scope {scope}: {_EFFECT_OF_MISSING[scope]}; add it under OAuth & Permissions at {APPS_PAGE}, and "
        "install the app into the workspace again"
        for scope in missing
    )


def missing_scope_error(scope: str) -> ConnectRefused:
    where = "Basic Information > App-Level Tokens" if scope.startswith("connections:") else ""
    return ConnectRefused(
        f"the Slack app lacks the scope {scope}",
        remedy=f"add it under {where or 'OAuth & Permissions'} at {APPS_PAGE}, and install the app "
        "into the workspace again",
    )
