"""Credentials for the mail servers: a password, or an OAuth access token that is renewed in time.

https://www.rfc-editor.org/rfc/rfc6749, with a refresh token (section 6) or with client credentials
(section 4.4), as Microsoft has it for mailboxes without an interactive login.
"""

import asyncio
import logging
import ssl
from hashlib import sha256
from pathlib import Path
from typing import NoReturn, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from holdfast.core.config.settings import account_table
from holdfast.core.errors import AccountDisconnected, ConnectRefused, TransientStoreError
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.platforms.email.events import PLATFORM
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.system import state_file

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT = 30.0  # seconds
_MAX_RESPONSE_BYTES = 256 * 1024
_DEFAULT_LIFETIME = 3600.0  # seconds, if the response has none
_RENEW_AHEAD = 300.0  # seconds before its end at which a token is renewed,
_RENEW_AHEAD_FRACTION = 0.2  # or this part of its lifetime, if that is less
_MIN_REFUSAL_AGE = 60.0  # seconds: a token refused before this age was never valid
_LOSS_CONSEQUENCE = "the refresh token in the configuration is used again."
# Section 5.2, and the errors of Microsoft that need a new login:
# https://learn.microsoft.com/en-us/entra/identity-platform/v2-oauth2-auth-code-flow
_PERMANENT_ERRORS = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "interaction_required",
        "consent_required",
        "access_denied",
    }
)


class MailCredential(msgspec.Struct, frozen=True, kw_only=True):
    secret: Secret
    is_token: bool = False  # sent by XOAUTH2, not as a password
    issued_at: float = 0.0  # monotonic time


class CredentialProvider(Protocol):
    async def current(self) -> MailCredential:
        """The valid credential. Raises `ConnectRefused` if a person has to fix something first, and
        `AccountDisconnected` if there is none for the moment."""
        ...

    def report_refused(self, credential: MailCredential) -> bool:
        """Called when a server refuses it. Returns whether the refusal is final."""
        ...


class PasswordCredentials:
    """A password from the configuration: a refusal is final until a person changes it."""

    def __init__(self, secret: Secret) -> None:
        self._credential = MailCredential(secret=secret)

    async def current(self) -> MailCredential:
        return self._credential

    def report_refused(self, credential: MailCredential) -> bool:
        return True


class TokenResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Section 5.1. Some providers write the number as a string."""

    access_token: str
    expires_in: float | str = _DEFAULT_LIFETIME
    refresh_token: str = ""


class TokenError(msgspec.Struct, frozen=True, kw_only=True):
    error: str
    error_description: str = ""


class RotatedRefreshToken(msgspec.Struct, frozen=True, kw_only=True):
    """A refresh token that the provider issued to replace the configured one."""

    instead_of: str  # a digest of the configured one
    refresh_token: str


class OAuthCredentials:
    """Owns the access token, in memory only, and the refresh token that replaced the configured
    one, in a file that only this user can read. With `file` None it is not saved."""

    def __init__(
        self,
        plugin_context: PluginContext[EmailSettings],
        tls_context: ssl.SSLContext | None,
        *,
        file: Path | None,
    ) -> None:
        self._settings = plugin_context.settings
        self._secrets = plugin_context.secrets
        self._table = account_table(PLATFORM, plugin_context.account)
        self._clock: Clock = plugin_context.clock
        self._tls_context = tls_context
        self._file = file
        self._lock = asyncio.Lock()
        self._credential: MailCredential | None = None
        self._renew_at = 0.0

    async def current(self) -> MailCredential:
        async with self._lock:  # concurrent callers share one renewal
            if self._credential is None or self._clock.monotonic() >= self._renew_at:
                await self._renew()
            assert self._credential is not None, "_renew sets it or raises"
            return self._credential

    def report_refused(self, credential: MailCredential) -> bool:
        """A token that was valid before may have been revoked: then another one is requested."""
        if self._credential == credential:
            self._credential = None
        return self._clock.monotonic() - credential.issued_at < _MIN_REFUSAL_AGE

    async def _renew(self) -> None:
        refresh = await self._refresh_token()
        response = await self._request_token(refresh)
        now, lifetime = self._clock.monotonic(), _parse_lifetime(response.expires_in)
        self._credential = MailCredential(
            secret=Secret(response.access_token), is_token=True, issued_at=now
        )
        self._renew_at = now + lifetime - min(_RENEW_AHEAD, lifetime * _RENEW_AHEAD_FRACTION)
        if refresh and response.refresh_token not in ("", refresh):
            await self._save_rotated(response.refresh_token)

    async def _refresh_token(self) -> str:
        configured = self._secrets.get("refresh_token")
        if configured is None:
            return ""
        if self._file is None:
            return configured.reveal()
        rotated = await asyncio.to_thread(
            state_file.load, self._file, RotatedRefreshToken, consequence=_LOSS_CONSEQUENCE
        )
        if rotated is not None and rotated.instead_of == _digest(configured):
            return rotated.refresh_token
        return configured.reveal()

    async def _save_rotated(self, refresh_token: str) -> None:
        """A failure is only logged: the old one stays valid for a while, and the next renewal
        brings another."""
        if self._file is None:
            return
        rotated = RotatedRefreshToken(
            instead_of=_digest(self._secrets["refresh_token"]), refresh_token=refresh_token
        )
        try:
            await state_file.save(self._file, rotated)
        except TransientStoreError as error:
            log.warning(
                "Could not save the new refresh token: %s; retrying with the next renewal",
                error,
                extra={"action": "checkpoint_not_saved"},
            )

    async def _request_token(self, refresh: str) -> TokenResponse:
        url = self._settings.token_url
        timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as http,
                http.post(
                    url,
                    data=self._form(refresh),
                    ssl=self._tls_context or True,
                    allow_redirects=False,  # the target would get our secrets
                ) as response,
            ):
                body = await _read_at_most(response.content, _MAX_RESPONSE_BYTES)
        except (aiohttp.ClientError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise AccountDisconnected(
                "{host} issues no token: {why}", host=self._host, why=why
            ) from error
        return self._parse_response(response.status, body)

    def _form(self, refresh: str) -> dict[str, str]:
        settings = self._settings
        form = {
            "grant_type": "refresh_token" if refresh else "client_credentials",
            "client_id": settings.client_id,
            "refresh_token": refresh,
            "scope": settings.scope,
        }
        if (secret := self._secrets.get("client_secret")) is not None:
            form["client_secret"] = secret.reveal()
        return {name: value for name, value in form.items() if value}

    def _parse_response(self, status: int, body: bytes) -> TokenResponse:
        try:
            if status == 200:
                return msgspec.json.decode(body, type=TokenResponse)
            denied = msgspec.json.decode(body, type=TokenError)
        except msgspec.MsgspecError as error:
            invalid = AccountDisconnected(
                "{host} answered {status} without a valid token", host=self._host, status=status
            )
            if status in (400, 401, 403, 404, 405):
                self._refuse(invalid)
            raise invalid from error
        no_token = AccountDisconnected(
            "{host} issues no token: {why}", host=self._host, why=_describe_error(denied)
        )
        if denied.error in _PERMANENT_ERRORS and status < 500:
            self._refuse(no_token)
        raise no_token

    def _refuse(self, cause: AccountDisconnected) -> NoReturn:
        raise ConnectRefused(
            "{error}",
            error=cause,
            table=self._table,
            remedy="Check token_url, client_id, client_secret and scope in {table}; if the "
            "refresh token has expired or was revoked, log in at the provider again and "
            "store the new token where refresh_token points to.",
        )

    @property
    def _host(self) -> str:
        return urlsplit(self._settings.token_url).netloc


async def _read_at_most(content: aiohttp.StreamReader, max_bytes: int) -> bytes:
    try:
        return await content.readexactly(max_bytes)
    except asyncio.IncompleteReadError as whole:
        return whole.partial


def _parse_lifetime(value: float | str) -> float:
    try:
        return max(float(value), 0.0)
    except ValueError:
        return _DEFAULT_LIFETIME


def _describe_error(denied: TokenError) -> str:
    first = denied.error_description.strip().partition("\n")[0].strip()[:300]
    return f"{denied.error} ({first})" if first else denied.error


def _digest(secret: Secret) -> str:
    return sha256(secret.reveal().encode()).hexdigest()
