"""What logs in to the mail servers: a password, or an OAuth access token that is renewed in time.

https://www.rfc-editor.org/rfc/rfc6749. With a refresh token (section 6), or without one in the name of the program itself
(section 4.4), as Microsoft has it for mailboxes that nobody logs in to.
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


# MERGED holdfast.platforms.email.keys: Keys: what lets us in at the mail servers, a password or a token that is asked for in time.
class MailCredential(msgspec.Struct, frozen=True, kw_only=True):
    secret: Secret
    is_token: bool = False  # it is said by XOAUTH2, and not as a password
    issued_at: float = 0.0  # by a clock that only goes forward


class CredentialProvider(Protocol):
    async def current(self) -> MailCredential:
        """The one that holds now. Raises `ConnectRefused` where there will be none before somebody
        has mended something, and `AccountDisconnected` where there is none for the moment."""
        ...

    def report_refused(self, credential: MailCredential) -> bool:
        """A server does not take it. Whether another try would be in vain."""
        ...


class PasswordCredentials:
    """Holds one that somebody has set, and that only somebody can change."""

    def __init__(self, secret: Secret) -> None:
        self._credential = MailCredential(secret=secret)

    async def current(self) -> MailCredential:
        return self._credential

    def report_refused(self, credential: MailCredential) -> bool:
        return True


# MERGED holdfast.platforms.email.oauth: OAuth: access tokens for a mailbox, asked for at the provider's token address.
#
# https://www.rfc-editor.org/rfc/rfc6749. With a refresh token (section 6), or without one in the name
# of the program itself (section 4.4), as Microsoft has it for mailboxes that nobody logs in to.
_REQUEST_TIMEOUT = 30.0  # seconds for an answer
_MAX_RESPONSE_BYTES = 256 * 1024  # bytes
_DEFAULT_LIFETIME = 3600.0  # seconds, where the answer has none
_RENEW_AHEAD = 300.0  # seconds before its end at which a token is not worth beginning with,
_RENEW_AHEAD_FRACTION = 0.2  # or that part of its life
_MIN_REFUSAL_AGE = 60.0  # seconds: a token that is refused at that age was never good
_LOSS_CONSEQUENCE = "the refresh token that the configuration names is used again."
# Section 5.2, and what Microsoft says where a person has to log in again:
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


class TokenResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Section 5.1. There are providers that write the number as a text."""

    access_token: str
    expires_in: float | str = _DEFAULT_LIFETIME
    refresh_token: str = ""


class TokenError(msgspec.Struct, frozen=True, kw_only=True):
    error: str
    error_description: str = ""


class RotatedRefreshToken(msgspec.Struct, frozen=True, kw_only=True):
    """The refresh token that a provider has given in the place of another: its life is longer."""

    instead_of: str  # a digest of the one that the configuration names
    refresh_token: str


class OAuthCredentials:
    """Owns the access token, in memory alone, and the refresh token that has followed the one of
    the configuration, in a file that nobody else can read. `file` None: that is not kept."""

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
        async with self._lock:  # who waits here gets the one that was asked for meanwhile
            if self._credential is None or self._clock.monotonic() >= self._renew_at:
                await self._renew()
            assert self._credential is not None, "there is one, or it was raised why not"
            return self._credential

    def report_refused(self, credential: MailCredential) -> bool:
        """One that has been good may have been withdrawn: another is asked for."""
        if self._credential == credential:
            self._credential = None
        return self._clock.monotonic() - credential.issued_at < _MIN_REFUSAL_AGE

    async def _renew(self) -> None:
        refresh = await self._refresh_token()
        granted = await self._request_token(refresh)
        now, life = self._clock.monotonic(), _parse_lifetime(granted.expires_in)
        self._credential = MailCredential(
            secret=Secret(granted.access_token), is_token=True, issued_at=now
        )
        self._renew_at = now + life - min(_RENEW_AHEAD, life * _RENEW_AHEAD_FRACTION)
        if refresh and granted.refresh_token not in ("", refresh):
            await self._save_rotated(granted.refresh_token)

    async def _refresh_token(self) -> str:
        named = self._secrets.get("refresh_token")
        if named is None:
            return ""
        if self._file is None:
            return named.reveal()
        kept = await asyncio.to_thread(
            state_file.load, self._file, RotatedRefreshToken, consequence=_LOSS_CONSEQUENCE
        )
        theirs = kept is not None and kept.instead_of == _digest(named)
        return kept.refresh_token if kept is not None and theirs else named.reveal()

    async def _save_rotated(self, refresh_token: str) -> None:
        """The old one stays good for a while, so that one which cannot be kept does no harm: the
        next token brings another."""
        if self._file is None:
            return
        followed = RotatedRefreshToken(
            instead_of=_digest(self._secrets["refresh_token"]), refresh_token=refresh_token
        )
        try:
            await state_file.save(self._file, followed)
        except TransientStoreError as error:
            log.warning("%s", error, extra={"action": "checkpoint_not_saved"})

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
                    allow_redirects=False,  # whoever is there would be told our secrets
                ) as response,
            ):
                body = await _read_at_most(response.content, _MAX_RESPONSE_BYTES)
        except (aiohttp.ClientError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise AccountDisconnected(f"{self._host} gives no token: {why}") from error
        return self._parse_response(response.status, body)

    def _form(self, refresh: str) -> dict[str, str]:
        settings = self._settings
        said = {
            "grant_type": "refresh_token" if refresh else "client_credentials",
            "client_id": settings.client_id,
            "refresh_token": refresh,
            "scope": settings.scope,
        }
        if (secret := self._secrets.get("client_secret")) is not None:
            said["client_secret"] = secret.reveal()
        return {name: value for name, value in said.items() if value}

    def _parse_response(self, status: int, body: bytes) -> TokenResponse:
        try:
            if status == 200:
                return msgspec.json.decode(body, type=TokenResponse)
            denied = msgspec.json.decode(body, type=TokenError)
        except msgspec.MsgspecError as error:
            told = f"{self._host} answered {status}, and no token that makes sense"
            if status in (400, 401, 403, 404, 405):
                self._refuse(told)
            raise AccountDisconnected(told) from error
        told = f"{self._host} gives no token: {_describe_error(denied)}"
        if denied.error in _PERMANENT_ERRORS and status < 500:
            self._refuse(told)
        raise AccountDisconnected(told)

    def _refuse(self, message: str) -> NoReturn:
        raise ConnectRefused(
            message,
            remedy=f"check token_url, client_id, client_secret and scope in {self._table}; where a "
            "refresh token has run out or was withdrawn, log in at the provider once more and put "
            "the new one where refresh_token points to",
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
