"""Refusals of the API: what is wrong, where, and what to do, in the shape OpenAI clients read."""

from enum import StrEnum
from typing import Any

import msgspec
from aiohttp import web

from holdfast.core.errors import StoreError


class RetryAdvice(StrEnum):
    """Whether the same request may be sent again.

    OpenAI's clients do that by themselves on 409 and on every 5xx, unless they are told not to.
    """

    YES = "yes"  # nothing was accepted
    WITH_ID = "with_id"  # accepted: without the message's id it would be asked twice
    NO = "no"  # it would get the same answer, or be asked twice


class OpenAiError(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        retry: RetryAdvice = RetryAdvice.YES,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry = retry

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

    def to_response(self, *, has_id: bool = False) -> web.Response:
        """The refusal as it is sent; `has_id`: the request named its message."""
        headers = {}
        if self.retry is RetryAdvice.NO or (self.retry is RetryAdvice.WITH_ID and not has_id):
            headers["x-should-retry"] = "false"
        elif self.status == 503:
            headers["Retry-After"] = "1"
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return json_response(self.body(), status=self.status, headers=headers)


def bad_request(
    message: str, *, param: str | None = None, code: str = "invalid_value"
) -> OpenAiError:
    return OpenAiError(400, message, code=code, param=param)


def store_unavailable(error: StoreError) -> OpenAiError:
    return OpenAiError(
        503, f"the store cannot be read: {error}", code="store", retry=RetryAdvice.WITH_ID
    )


def json_response(
    body: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body),
        status=status,
        content_type="application/json",
        headers=headers,
    )
