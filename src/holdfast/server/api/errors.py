"""Errors of `/api/v1`: what is wrong and what to do, as `ErrorResponse`."""

import msgspec
from aiohttp import web

from holdfast.core.errors import HoldfastError


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Every error: what is wrong, and what to do."""

    message: str
    code: str
    param: str | None = None


class ErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    error: ErrorBody


class EndpointError(HoldfastError):
    """A request that gets an error instead of an answer. The message is for a person, in the
    language of the request; programs use `code` and `param`."""

    def __init__(
        self,
        status: int,
        message: str | HoldfastError,
        /,
        *,
        code: str,
        param: str | None = None,
        **values: object,
    ) -> None:
        if isinstance(message, HoldfastError):
            message, values = "{error}", {"error": message}
        super().__init__(message, **values)
        self.status = status
        self.code = code
        self.param = param
        self.headers: dict[str, str] = {}
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"
        elif status == 503:
            self.headers["Retry-After"] = "1"

    def response(self) -> web.Response:
        error = ErrorBody(message=self.for_person(), code=self.code, param=self.param)
        return web.Response(
            status=self.status,
            body=msgspec.json.encode(ErrorResponse(error=error)),
            content_type="application/json",
            headers=self.headers,
        )


def bad_request(
    message: str | HoldfastError, *, param: str | None = None, **values: object
) -> EndpointError:
    return EndpointError(400, message, code="invalid_value", param=param, **values)


def not_found(message: str | HoldfastError, **values: object) -> EndpointError:
    return EndpointError(404, message, code="not_found", param=None, **values)


def conflict(message: str | HoldfastError, *, code: str, **values: object) -> EndpointError:
    return EndpointError(409, message, code=code, param=None, **values)
