"""The HTTP side of the API: the bearer token, errors in the form that OpenAI clients read, and
server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, nullcontext
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from aiohttp import web

from holdfast.core.errors import StoreError
from holdfast.core.people.api_tokens import ApiClient
from holdfast.core.secrets import Secret

KEEPALIVE_INTERVAL = 15.0  # seconds; proxies close connections that are silent for longer
WRITE_TIMEOUT = 120.0  # seconds for which a client may read nothing of what is sent
REQUEST_ID_HEADER = "x-request-id"  # OpenAI's clients show it with an error
_STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would buffer the chunks
}


def has_token(request: web.Request, token: Secret) -> bool:
    given = bearer_token(request)
    return given is not None and token.matches(given)


def bearer_token(request: web.Request) -> str | None:
    """The token of the request, valid or not; None if it has none."""
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else None


class ClientTokens(Protocol):
    """The tokens that the owner created for clients."""

    def client_by_token(self, token: str) -> ApiClient | None:
        """The client with this token; None: it is not valid now."""
        ...

    def track_client(
        self, client: ApiClient, disconnect: Callable[[], None]
    ) -> AbstractContextManager[None]:
        """While a request is served: `disconnect` is called once the token is not valid any
        more."""
        ...


class NoClientTokens:
    """Where only the owner's token is valid."""

    def client_by_token(self, token: str) -> ApiClient | None:
        return None

    def track_client(
        self, client: ApiClient, disconnect: Callable[[], None]
    ) -> AbstractContextManager[None]:
        return nullcontext()


class RetryAdvice(StrEnum):
    """Whether the same request may be sent again.

    OpenAI's clients retry by themselves on 409 and on every 5xx, unless a header forbids it.
    """

    YES = "yes"  # nothing was accepted
    WITH_ID = "with_id"  # accepted: without the message's id it would be processed twice
    NO = "no"  # it would get the same answer, or be processed twice


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
        **values: object,
    ) -> None:
        super().__init__(message, **values)
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
        """`has_id`: whether the request gave its message an id."""
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
        503,
        f"the store cannot be read: {error}",
        code="store_unavailable",
        retry=RetryAdvice.WITH_ID,
    )


class UnexpectedError(OpenAiError):
    """A fault of the gateway itself. Its id is in the response and in the log line, which has the
    traceback. It is not known whether the message was accepted."""

    def __init__(self, error_id: str) -> None:
        super().__init__(
            500,
            f"the gateway had an internal error. Its log has the cause: `holdfast logs` and search "
            f"for {error_id}.",
            code="internal_error",
            retry=RetryAdvice.WITH_ID,
        )
        self.error_id = error_id

    def to_response(self, *, has_id: bool = False) -> web.Response:
        response = super().to_response(has_id=has_id)
        response.headers[REQUEST_ID_HEADER] = self.error_id
        return response


def json_response(
    body: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body),
        status=status,
        content_type="application/json",
        headers=headers,
    )


async def stream_events(
    request: web.Request,
    chunks: AsyncGenerator[bytes, None],
    *,
    headers: Mapping[str, str],
    keepalive_interval: float = KEEPALIVE_INTERVAL,
    write_timeout: float = WRITE_TIMEOUT,
) -> web.StreamResponse:
    """Writes the chunks as they arrive, with keep-alives while tools work. A client that
    disconnects ends the stream, never the turn."""
    response = web.StreamResponse(headers={**_STREAM_HEADERS, **headers})
    try:
        await response.prepare(request)
        async with _keep_alive(response, interval=keepalive_interval), aclosing(chunks):
            async for chunk in chunks:
                async with asyncio.timeout(write_timeout):
                    await response.write(chunk)
        async with asyncio.timeout(write_timeout):
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass  # the answer is in the store, and a request with the same message id returns it
    return response


@asynccontextmanager
async def _keep_alive(response: web.StreamResponse, *, interval: float) -> AsyncIterator[None]:
    async def write_keepalives() -> None:
        while True:
            await asyncio.sleep(interval)
            await response.write(b": still here\n\n")

    task = asyncio.create_task(write_keepalives())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # the connection is gone; the next write raises it
