"""OAuth: access tokens for a mailbox, asked for at the provider's token address.

https://www.rfc-editor.org/rfc/rfc6749. With a refresh token (section 6), or without one in the name
of the program itself (section 4.4), as Microsoft has it for mailboxes that nobody logs in to.
"""

import asyncio
import logging
import ssl
from hashlib import sha256
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import aiohttp
import msgspec

from holdfast.core.config.settings import table_of
from holdfast.core.errors import ConnectRefused, LineLost, StoreFailing
from holdfast.core.ports.door import Opening
from holdfast.core.ports.protocols import Clock
from holdfast.core.secret import Secret
from holdfast.platforms.email.keys import Key
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.platforms.email.reading import PLATFORM
from holdfast.system import state_file

log = logging.getLogger(__name__)

_PATIENCE = 30.0  # seconds for an answer
_LONGEST_ANSWER = 256 * 1024  # bytes
_USUAL_LIFE = 3600.0  # seconds, where the answer has none
_AHEAD = 300.0  # seconds before its end at which a token is not worth beginning with,
_AHEAD_OF_SHORT = 0.2  # or that part of its life
_YOUNG = 60.0  # seconds: a token that is refused at that age was never good
_LOST = "the refresh token that the configuration names is used again."
# Section 5.2, and what Microsoft says where a person has to log in again:
# https://learn.microsoft.com/en-us/entra/identity-platform/v2-oauth2-auth-code-flow
_FINAL = frozenset(
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


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """Section 5.1. There are providers that write the number as a text."""

    access_token: str
    expires_in: float | str = _USUAL_LIFE
    refresh_token: str = ""


class Denied(msgspec.Struct, frozen=True, kw_only=True):
    error: str
    error_description: str = ""


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """The refresh token that a provider has given in the place of another: its life is longer."""

    instead_of: str  # a digest of the one that the configuration names
    refresh_token: str


class Tokens:
    """Owns the access token, in memory alone, and the refresh token that has followed the one of
    the configuration, in a file that nobody else can read. `file` None: that is not kept."""

    def __init__(
        self,
        opening: Opening[EmailSettings],
        context: ssl.SSLContext | None,
        *,
        file: Path | None,
    ) -> None:
        self._settings = opening.settings
        self._secrets = opening.secrets
        self._table = table_of(PLATFORM, opening.account)
        self._clock: Clock = opening.clock
        self._context = context
        self._file = file
        self._asking = asyncio.Lock()
        self._key: Key | None = None
        self._until = 0.0

    async def key(self) -> Key:
        async with self._asking:  # who waits here gets the one that was asked for meanwhile
            if self._key is None or self._clock.monotonic() >= self._until:
                await self._renew()
            assert self._key is not None, "there is one, or it was raised why not"
            return self._key

    def refused(self, key: Key) -> bool:
        """One that has been good may have been withdrawn: another is asked for."""
        if self._key == key:
            self._key = None
        return self._clock.monotonic() - key.made_at < _YOUNG

    async def _renew(self) -> None:
        refresh = await self._refresh_token()
        granted = await self._asked_for(refresh)
        now, life = self._clock.monotonic(), _seconds(granted.expires_in)
        self._key = Key(secret=Secret(granted.access_token), is_token=True, made_at=now)
        self._until = now + life - min(_AHEAD, life * _AHEAD_OF_SHORT)
        if refresh and granted.refresh_token not in ("", refresh):
            await self._follow(granted.refresh_token)

    async def _refresh_token(self) -> str:
        named = self._secrets.get("refresh_token")
        if named is None:
            return ""
        if self._file is None:
            return named.reveal()
        kept = await asyncio.to_thread(state_file.read, self._file, Followed, lost=_LOST)
        theirs = kept is not None and kept.instead_of == _digest(named)
        return kept.refresh_token if kept is not None and theirs else named.reveal()

    async def _follow(self, refresh_token: str) -> None:
        """The old one stays good for a while, so that one which cannot be kept does no harm: the
        next token brings another."""
        if self._file is None:
            return
        followed = Followed(
            instead_of=_digest(self._secrets["refresh_token"]), refresh_token=refresh_token
        )
        try:
            await state_file.keep(self._file, followed)
        except StoreFailing as error:
            log.warning("%s", error, extra={"action": "record_unwritten"})

    async def _asked_for(self, refresh: str) -> Granted:
        url = self._settings.token_url
        timeout = aiohttp.ClientTimeout(total=_PATIENCE)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as http,
                http.post(
                    url,
                    data=self._form(refresh),
                    ssl=self._context or True,
                    allow_redirects=False,  # whoever is there would be told our secrets
                ) as response,
            ):
                body = await _first(response.content, _LONGEST_ANSWER)
        except (aiohttp.ClientError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise LineLost(f"{self._host} gives no token: {why}") from error
        return self._read(response.status, body)

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

    def _read(self, status: int, body: bytes) -> Granted:
        try:
            if status == 200:
                return msgspec.json.decode(body, type=Granted)
            denied = msgspec.json.decode(body, type=Denied)
        except msgspec.MsgspecError as error:
            told = f"{self._host} answered {status}, and no token that makes sense"
            if status in (400, 401, 403, 404, 405):
                self._refuse(told)
            raise LineLost(told) from error
        told = f"{self._host} gives no token: {_told(denied)}"
        if denied.error in _FINAL and status < 500:
            self._refuse(told)
        raise LineLost(told)

    def _refuse(self, told: str) -> NoReturn:
        raise ConnectRefused(
            told,
            remedy=f"check token_url, client_id, client_secret and scope in {self._table}; where a "
            "refresh token has run out or was withdrawn, log in at the provider once more and put "
            "the new one where refresh_token points to",
        )

    @property
    def _host(self) -> str:
        return urlsplit(self._settings.token_url).netloc


async def _first(content: aiohttp.StreamReader, most: int) -> bytes:
    try:
        return await content.readexactly(most)
    except asyncio.IncompleteReadError as whole:
        return whole.partial


def _seconds(said: float | str) -> float:
    try:
        return max(float(said), 0.0)
    except ValueError:
        return _USUAL_LIFE


def _told(denied: Denied) -> str:
    first = denied.error_description.strip().partition("\n")[0].strip()[:300]
    return f"{denied.error} ({first})" if first else denied.error


def _digest(secret: Secret) -> str:
    return sha256(secret.reveal().encode()).hexdigest()
