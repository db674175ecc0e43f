"""Errors of the fake Web API, in the vendor's own wording."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from tests.platforms.connection_faults import ConnectionFault


class SlackError(Exception):
    """https://docs.slack.dev/apis/web-api/#responses: "for failure results, the error property
    will contain a short machine-readable error code"; the status is 200 all the same."""

    def __init__(
        self,
        error: str,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.headers = dict(headers or {})
        self.body = {"ok": False, "error": error, **more}


def flood(seconds: int) -> SlackError:
    """https://docs.slack.dev/apis/web-api/rate-limits#responding: "a HTTP 429 Too Many Requests
    error, and a Retry-After HTTP header containing the number of seconds"."""
    return SlackError("ratelimited", status=429, headers={"Retry-After": str(seconds)})


class WebApiFaults:
    """Owns what is to go wrong, by method, each once and in order."""

    def __init__(self) -> None:
        self._coming: dict[str, deque[SlackError | ConnectionFault]] = {}

    def add(self, method: str, *what: SlackError | ConnectionFault) -> None:
        self._coming.setdefault(method, deque()).extend(what)

    def next(self, method: str) -> SlackError | ConnectionFault | None:
        coming = self._coming.get(method)
        return coming.popleft() if coming else None
