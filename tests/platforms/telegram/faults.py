"""Errors of the fake Bot API, in the vendor's own wording."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from tests.platforms.connection_faults import ConnectionFault


class BotApiError(Exception):
    """An answer with `ok: false`. https://core.telegram.org/bots/api#making-requests: "In case of
    an unsuccessful request, 'ok' equals false and the error is explained in the 'description'";
    the HTTP status is the error code (tdlib/telegram-bot-api, Query::set_error)."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.parameters = parameters

    @property
    def body(self) -> Mapping[str, Any]:
        more = {"parameters": self.parameters} if self.parameters else {}
        return {"ok": False, "error_code": self.code, "description": str(self), **more}


def bad(what: str) -> BotApiError:
    """tdlib/telegram-bot-api, Client::fail_query_with_error: the prefix, then the reason with its
    first letter small unless it is one of the server's own CONSTANTS."""
    return BotApiError(400, f"Bad Request: {what}")


def conflict(what: str) -> BotApiError:
    """tdlib/telegram-bot-api, Client::fail_query_conflict."""
    return BotApiError(409, f"Conflict: {what}")


def flood(seconds: int) -> BotApiError:
    """https://core.telegram.org/bots/api#responseparameters: `retry_after` is "in case of
    exceeding flood control, the number of seconds left to wait before the request can be
    repeated"; the words are those of Query::set_retry_after_error."""
    return BotApiError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


class BotApiFaults:
    """Owns what is to go wrong, by method, each once and in order."""

    def __init__(self) -> None:
        self._coming: dict[str, deque[BotApiError | ConnectionFault]] = {}

    def add(self, method: str, *what: BotApiError | ConnectionFault) -> None:
        self._coming.setdefault(method.lower(), deque()).extend(what)

    def next(self, method: str) -> BotApiError | ConnectionFault | None:
        coming = self._coming.get(method)
        return coming.popleft() if coming else None
