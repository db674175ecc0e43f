"""Refusals: what an answer of the Web API that says no means for whoever asked."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendError, SendRejected, Throttled

_DEFAULT_RETRY_AFTER = 1.0  # seconds, where Slack asks to wait and does not say for how long
# Errors of every method (https://docs.slack.dev/reference/methods/auth.test#errors) that a person
# has to mend.
_BAD_TOKEN_ERRORS = frozenset(
    {
        "not_authed",
        "invalid_auth",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "not_allowed_token_type",
        "org_login_required",
        "team_access_not_granted",
        "app_management_invalid_token",
    }
)
# "It's possible some aspect of the operation succeeded before the error was raised."
_UNKNOWN_OUTCOME_ERRORS = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)
_FORMAT_ERRORS = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
_UNCHANGED_ERRORS = frozenset({"already_reacted", "no_reaction"})


class SlackBadToken(NotConnected):
    """The token is none, or not any more. The message is still ours to send."""


class UnreadableResponse(OutcomeUnknown):
    """An answer came, and it is nested deeper than the vendor's client can follow: asked again, it
    would be the same."""


class MissingScope(SendRejected):
    """The app was not given a permission; `needed` says which."""

    def __init__(self, message: str, *, needed: str) -> None:
        super().__init__(message)
        self.needed = needed


class BlocksRefused(SendRejected):
    """The blocks were not understood; the text beside them may be."""


class ReactionUnchanged(SendRejected):
    """It is as it was to become."""


def to_send_error(
    method: str, status: int, headers: Mapping[str, str], answer: Mapping[str, Any]
) -> SendError:
    error = str(answer.get("error", ""))
    if status >= 500 or error in _UNKNOWN_OUTCOME_ERRORS or (status == 200 and not error):
        what = error or f"{status}"
        return OutcomeUnknown(f"Slack answered {method} with {what}: it may have been done")
    if status == 429 or error in ("ratelimited", "rate_limited"):
        wait = headers.get("Retry-After", "")
        seconds = float(wait) if wait.isascii() and wait.isdigit() else _DEFAULT_RETRY_AFTER
        return Throttled(f"Slack asks to wait with {method}", retry_after=seconds)
    if error in _BAD_TOKEN_ERRORS:
        return SlackBadToken(f"Slack does not take the token ({error})")
    return _to_rejection(method, error or f"{status}", answer)


def _to_rejection(method: str, error: str, answer: Mapping[str, Any]) -> SendRejected:
    if error == "missing_scope":
        needed = str(answer.get("needed", ""))
        return MissingScope(
            f"{method} needs the scope {needed}, which the app lacks", needed=needed
        )
    if error in _FORMAT_ERRORS:
        return BlocksRefused(f"Slack refused {method}: {error}")
    if error in _UNCHANGED_ERRORS:
        return ReactionUnchanged(f"Slack refused {method}: {error}")
    return SendRejected(f"Slack refused {method}: {error}")
