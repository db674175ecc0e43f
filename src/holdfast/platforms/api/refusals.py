"""Refusals of the API: what is wrong, where, and what to do, in the shape OpenAI clients read."""

from typing import Any

import msgspec
from aiohttp import web


class Refusal(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(self, status: int, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param

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


def bad(message: str, *, param: str | None = None, code: str = "invalid_value") -> Refusal:
    return Refusal(400, message, code=code, param=param)


def reply(
    body: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body),
        status=status,
        content_type="application/json",
        headers=headers,
    )
