"""Calls Slack's Web API through the vendor's client. Also: its errors as our exceptions, and the
OAuth scopes that an app needs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Set
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from holdfast.core.errors import (
    ConnectRefused,
    EditRefused,
    FileTooLarge,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.source import AttachmentUnavailable
from holdfast.core.secrets import Secret
from holdfast.core.text.translatable import Translatable
from holdfast.core.text.translation import N_
from holdfast.platforms.inbound import read_body

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

T = TypeVar("T")

APPS_PAGE = "https://api.slack.com/apps"

_CONNECT_TIMEOUT = 10.0  # seconds to establish a connection
_UPLOAD_TIMEOUT_FACTOR = 6.0  # times the timeout of other calls
_DEFAULT_RETRY_AFTER = 1.0  # seconds, if a rate limit comes without Retry-After
_SLACK_DOMAIN = ".slack.com"
_sdk_log = logging.getLogger(f"{__name__}.client")
# At DEBUG, the vendor's client logs whole requests, including what people write.
_sdk_log.setLevel(logging.INFO)

# Errors of every method (https://docs.slack.dev/reference/methods/auth.test#errors) that only a
# person can fix.
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
# https://docs.slack.dev/reference/methods/chat.update#errors
_EDIT_ERRORS = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})

# https://docs.slack.dev/reference/methods/files.getUploadURLExternal#errors; the last one is what
# the upload of a file in one step answers.
_TOO_LARGE_ERRORS = frozenset({"file_upload_size_restricted", "file_too_large"})


class SlackBadToken(NotConnected):
    """The token is invalid or was revoked. The message was not sent and stays queued."""


class UnreadableResponse(OutcomeUnknown):
    """The response is nested deeper than the vendor's client can parse. Retrying does not help."""


class MissingScope(SendRejected):
    """The app lacks the OAuth scope `needed`."""

    def __init__(self, message: str, *, needed: str, **values: object) -> None:
        super().__init__(message, **values)
        self.needed = needed


class BlocksRefused(SendRejected):
    """Slack rejected the blocks; it may still accept the plain text."""


class ReactionUnchanged(SendRejected):
    """The reaction is already in the requested state."""


def to_send_error(
    method: str, status: int, headers: Mapping[str, str], answer: Mapping[str, Any]
) -> SendError:
    """The exception for a failed call."""
    error = str(answer.get("error", ""))
    if status >= 500 or error in _UNKNOWN_OUTCOME_ERRORS or (status == 200 and not error):
        what = error or f"{status}"
        return OutcomeUnknown(
            "Slack answered {method} with {what}; the request may have been processed",
            method=method,
            what=what,
        )
    if status == 429 or error in ("ratelimited", "rate_limited"):
        wait = headers.get("Retry-After", "")
        seconds = float(wait) if wait.isascii() and wait.isdigit() else _DEFAULT_RETRY_AFTER
        return Throttled("Slack rate-limits {method}", method=method, retry_after=seconds)
    if error in _BAD_TOKEN_ERRORS:
        return SlackBadToken("Slack does not accept the token ({error})", error=error)
    return _to_rejection(method, error or f"{status}", answer)


def _to_rejection(method: str, error: str, answer: Mapping[str, Any]) -> SendRejected:
    if error == "missing_scope":
        needed = str(answer.get("needed", ""))
        return MissingScope(
            "{method} needs the scope {scope}, which the app lacks",
            method=method,
            scope=needed,
            needed=needed,
        )
    if error in _FORMAT_ERRORS:
        return BlocksRefused("Slack refused {method}: {error}", method=method, error=error)
    if error in _UNCHANGED_ERRORS:
        return ReactionUnchanged("Slack refused {method}: {error}", method=method, error=error)
    if error in _TOO_LARGE_ERRORS:
        return FileTooLarge("Slack accepts no file of this size ({error})", error=error)
    rejection = EditRefused if error in _EDIT_ERRORS else SendRejected
    return rejection("Slack refused {method}: {error}", method=method, error=error)


# https://docs.slack.dev/reference/scopes. The manifest in docs/slack.md requests all of these. An
# app that was created by hand, or installed before a scope was added, may have fewer.
REACTIONS_SCOPE = "reactions:write"
USERS_SCOPE = "users:read"
WRITE_SCOPE = "chat:write"  # an account cannot connect without it
# Delivery lookup needs all of them: without one, there is a kind of chat with no readable history.
HISTORY_SCOPES = frozenset({"channels:history", "groups:history", "im:history", "mpim:history"})

_EFFECT_OF_MISSING = {
    "app_mentions:read": N_("mentions of the app in channels are not received"),
    "channels:history": N_("messages in channels are not received, nor fetched after a gap"),
    WRITE_SCOPE: N_("no messages can be sent"),
    "commands": N_("there is no /holdfast"),
    "files:read": N_("files from users are not fetched"),
    "files:write": N_("files from the agent are not sent"),
    "groups:history": N_("messages in private channels are not received, nor fetched after a gap"),
    "im:history": N_("direct messages to the app are not received, nor fetched after a gap"),
    "mpim:history": N_("messages in group chats are not received, nor fetched after a gap"),
    REACTIONS_SCOPE: N_("queued messages get no reaction"),
    USERS_SCOPE: N_("the agent does not know the names and languages of users"),
}
SCOPES = frozenset(_EFFECT_OF_MISSING)


def missing_scope_warnings(granted: Set[str]) -> tuple[Translatable, ...]:
    """One sentence for each missing scope. Empty if Slack did not report the granted scopes (header
    `X-OAuth-Scopes`)."""
    missing = sorted(SCOPES - granted) if granted else []
    return tuple(
        Translatable(
            N_(
                "the scope {scope}: {effect}; add it under OAuth & Permissions at {page}, and "
                "install the app into the workspace again"
            ),
            {"scope": scope, "effect": Translatable(_EFFECT_OF_MISSING[scope]), "page": APPS_PAGE},
        )
        for scope in missing
    )


def missing_scope_error(scope: str) -> ConnectRefused:
    app_level = scope.startswith("connections:")
    return ConnectRefused(
        "the Slack app lacks the scope {scope}",
        scope=scope,
        where="Basic Information > App-Level Tokens" if app_level else "OAuth & Permissions",
        page=APPS_PAGE,
        remedy="Add it under {where} at {page}, and install the app into the workspace again.",
    )


class SlackClient:
    """Web API client of one app. Owns its HTTP connections while it is open, and sends the tokens
    only to Slack.

    `on_response` is called for each successful response, `on_bad_token` when Slack rejects the
    app's token.
    """

    def __init__(self, token: Secret, *, base_url: str, timeout: float = 20.0) -> None:
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._on_response: Callable[[], None] = _ignore_response
        self._on_bad_token: Callable[[SlackBadToken], None] = _ignore_bad_token
        self._http: aiohttp.ClientSession | None = None
        self._client: AsyncWebClient | None = None
        self.scopes: frozenset[str] = (
            frozenset()
        )  # granted, as of the last response that lists them

    @asynccontextmanager
    async def open(
        self, on_response: Callable[[], None], on_bad_token: Callable[[SlackBadToken], None]
    ) -> AsyncIterator[None]:
        make = await asyncio.to_thread(_import_sdk_client)  # too slow for the event loop
        self._on_response, self._on_bad_token = on_response, on_bad_token
        timeout = aiohttp.ClientTimeout(total=self._timeout, sock_connect=_CONNECT_TIMEOUT)
        async with aiohttp.ClientSession(timeout=timeout) as self._http:
            # No retries by the vendor's client: it would resend messages that may have arrived.
            self._client = make(
                token=self._token.reveal(),
                base_url=self._base_url,
                session=self._http,
                logger=_sdk_log,
                retry_handlers=[],
            )
            # It would read the proxy from the environment, which nothing else of an account does.
            self._client.proxy = None
            try:
                yield
            finally:
                self._http = self._client = None

    async def call_json(self, method: str, response_type: type[T], /, **arguments: Any) -> T:
        """Calls a method that takes JSON. Arguments that are None are omitted. Raises the
        `SendError` that states what is known of the outcome."""
        return await self._call(method, response_type, json=_without_none(arguments))

    async def call_form(self, method: str, response_type: type[T], /, **arguments: Any) -> T:
        """Like `call_json`, but form-encoded, which every method accepts. Values that are not
        strings are encoded as JSON."""
        given = _without_none(arguments)
        form = {name: _form_value(value) for name, value in given.items()}
        return await self._call(method, response_type, data=form)

    async def call_with_token(self, token: Secret, method: str, response_type: type[T], /) -> T:
        """Calls a method without arguments, with a token other than the app's."""
        return await self._call(
            method, response_type, params={"token": token.reveal()}, other_token=True
        )

    async def _call(
        self, method: str, response_type: type[T], *, other_token: bool = False, **content: Any
    ) -> T:
        client = self._connected_client
        status, headers, answer = await self._request(
            method, lambda: client.api_call(method, **content)
        )
        if status == 200 and answer.get("ok"):
            self._on_response()
            if not other_token and (scopes := headers.get("X-OAuth-Scopes")):
                self.scopes = frozenset(scope.strip() for scope in scopes.split(","))
            return _parse_response(method, answer, response_type)
        error = to_send_error(method, status, headers, answer)
        if isinstance(error, SlackBadToken) and not other_token:
            self._on_bad_token(error)
        raise error

    async def _request(
        self, method: str, call: Callable[[], Awaitable[Any]]
    ) -> tuple[int, Mapping[str, str], Mapping[str, Any]]:
        from slack_sdk.errors import SlackApiError  # noqa: PLC0415 - an extra

        try:
            response = await call()
        except SlackApiError as error:
            response = error.response
        except RecursionError as error:
            raise UnreadableResponse(
                "the response from Slack to {method} is nested too deeply", method=method
            ) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotConnected(
                "{base_url} cannot be reached: {error}", base_url=self._base_url, error=error
            ) from error
        except (TimeoutError, aiohttp.ClientError, AttributeError) as error:
            # The SDK raises AttributeError if the response is a string instead of an object.
            reason = str(error) or type(error).__name__
            raise OutcomeUnknown(
                "Slack did not respond to {method}: {reason}", method=method, reason=reason
            ) from error
        if isinstance(response, aiohttp.ClientResponse):  # its body is not JSON
            return response.status, response.headers, {}
        answer = response.data if isinstance(response.data, dict) else {}
        return response.status_code, response.headers, answer

    async def upload_bytes(self, url: str, data: bytes) -> None:
        """Uploads bytes to an address that Slack has given. The file is not visible yet, so a
        failed upload may be repeated: `NotConnected`, or `SendRejected` if it is permanent."""
        timeout = aiohttp.ClientTimeout(
            total=self._timeout * _UPLOAD_TIMEOUT_FACTOR, sock_connect=_CONNECT_TIMEOUT
        )
        try:
            async with self._session.post(url, data=data, timeout=timeout) as response:
                if response.status == 413:
                    raise FileTooLarge("Slack accepts no file of this size (413)")
                if 400 <= response.status < 500:
                    raise SendRejected(
                        "Slack rejected the upload of a file ({status})", status=response.status
                    )
                if response.status != 200:
                    raise NotConnected(
                        "Slack did not accept the upload of a file ({status})",
                        status=response.status,
                    )
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected(
                "could not upload a file to Slack: {reason}", reason=reason
            ) from error
        self._on_response()

    async def download(self, url: str, *, max_bytes: int) -> bytes:
        """Fetches a file that a user has sent. Raises as `Attachment.fetch` does."""
        if not self._is_slack_url(url):  # another host must not get our token
            raise AttachmentUnavailable("stored outside of Slack")
        headers = {"Authorization": f"Bearer {self._token.reveal()}"}
        timeout = aiohttp.ClientTimeout(sock_read=self._timeout, sock_connect=_CONNECT_TIMEOUT)
        try:
            async with self._session.get(
                url, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                return await self._read_file(response, max_bytes=max_bytes)
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise NotConnected(
                "could not download a file from Slack: {reason}", reason=reason
            ) from error

    async def _read_file(self, response: aiohttp.ClientResponse, *, max_bytes: int) -> bytes:
        if response.status >= 500 or response.status == 429:
            raise NotConnected(
                "could not download a file from Slack ({status})", status=response.status
            )
        if response.status != 200:
            raise AttachmentUnavailable(
                "Slack does not provide it ({status}); the app may lack the scope files:read",
                status=response.status,
            )
        return await read_body(response, max_bytes=max_bytes, on_chunk=self._on_response)

    def _is_slack_url(self, url: str) -> bool:
        asked, ours = urlsplit(url), urlsplit(self._base_url)
        if (asked.scheme, asked.netloc) == (ours.scheme, ours.netloc):
            return True
        return asked.scheme == "https" and (asked.hostname or "").endswith(_SLACK_DOMAIN)

    @property
    def http_session(self) -> aiohttp.ClientSession:
        """For the Socket Mode connection, which is not a Web API call."""
        return self._session

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise NotConnected("the app is not connected to Slack; nothing was sent")
        return self._http

    @property
    def _connected_client(self) -> "AsyncWebClient":
        if self._client is None:
            raise NotConnected("the app is not connected to Slack; nothing was sent")
        return self._client


def _import_sdk_client() -> "type[AsyncWebClient]":
    try:
        from slack_sdk.web.async_client import (  # noqa: PLC0415 - an extra, and slow to import
            AsyncWebClient,
        )
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            "the library slack-sdk is not installed ({error})",
            error=error,
            remedy="Run pip install 'holdfast[slack]', then restart the gateway.",
        ) from error
    return AsyncWebClient


def _ignore_response() -> None:
    """The callback before the client is opened."""


def _ignore_bad_token(error: SlackBadToken) -> None:
    """The callback before the client is opened."""


def _without_none(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _form_value(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _parse_response(method: str, answer: Mapping[str, Any], response_type: type[T]) -> T:
    try:
        return msgspec.convert(answer, type=response_type)
    except msgspec.ValidationError as error:
        raise OutcomeUnknown(
            "invalid response from Slack to {method}: {error}", method=method, error=error
        ) from error
