"""Refusals of the API: what is wrong, where, and what to do, in the shape OpenAI clients read."""

from enum import StrEnum
from typing import Any

import msgspec
from aiohttp import web

from holdfast.core.errors import StoreError


class Again(StrEnum):
    """Whether the same request may be sent again.

    OpenAI's clients do that by themselves on 409 and on every 5xx, unless they are told not to.
    """

    YES = "yes"  # nothing was accepted
    WITH_ID = "with_id"  # accepted: without the message's id it would be asked twice
    NO = "no"  # it would get the same answer, or be asked twice


class Refusal(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        again: Again = Again.YES,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.again = again

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def reply(self, *, has_id: bool = False) -> web.Response:
        """The refusal as it is sent; `has_id`: the request named its message."""
        headers = {}
        if self.again is Again.NO or (self.again is Again.WITH_ID and not has_id):
            headers["x-should-retry"] = "false"
        elif self.status == 503:
            headers["Retry-After"] = "1"
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return reply(self.body(), status=self.status, headers=headers)


def bad(message: str, *, param: str | None = None, code: str = "invalid_value") -> Refusal:
    return Refusal(400, message, code=code, param=param)


def unreadable(error: StoreError) -> Refusal:
    return Refusal(503, f"the store cannot be read: {error}", code="store", again=Again.WITH_ID)


def reply(
    body: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body),
        status=status,
        content_type="application/json",
        headers=headers,
    )
