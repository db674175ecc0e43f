"""Errors of `/api/v1`: what is wrong and what to do, as `ErrorResponse`."""

import msgspec
from aiohttp import web


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Every error: what is wrong, and what to do."""

    message: str
    code: str
    param: str | None = None


class ErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    error: ErrorBody


class EndpointError(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(
        self, status: int, message: str, *, code: str, param: str | None = None, **values: object
    ) -> None:
        super().__init__(message, **values)
        self.status = status
        self.headers: dict[str, str] = {}
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"
        elif status == 503:
            self.headers["Retry-After"] = "1"
        self.error = ErrorResponse(error=ErrorBody(message=message, code=code, param=param))

    def response(self) -> web.Response:
        return web.Response(
            status=self.status,
            body=msgspec.json.encode(self.error),
            content_type="application/json",
            headers=self.headers,
        )


def bad_request(message: str, *, param: str | None = None) -> EndpointError:
    return EndpointError(400, message, code="invalid_value", param=param)


def not_found(message: str) -> EndpointError:
    return EndpointError(404, message, code="not_found")


def conflict(message: str, *, code: str) -> EndpointError:
    return EndpointError(409, message, code=code)
