"""The websocket to Discord's gateway, by discord.py, which resumes it if Discord allows that.

Importing this imports discord.py, so it is imported only when a connection is opened. The library
parses each event into its own objects and passes those to tasks; this module uses the raw frames
instead, in the order in which they arrive.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import discord
import yarl

from holdfast.core.errors import AccountDisconnected, ConnectError, ConnectRefused, HoldfastError
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import N_
from holdfast.platforms.discord.events import DiscordUser
from holdfast.platforms.discord.plugin import API_URL, NEW_TOKEN_REMEDY, PORTAL_URL

log = logging.getLogger(__name__)

_CLOSED_BAD_TOKEN, _CLOSED_BAD_INTENTS = 4004, 4014
# https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes
_FATAL_CLOSE_CODES = {
    4010: N_("Discord did not accept the requested shard"),
    4011: N_("this bot is in more servers than one connection can serve, and needs shards"),
    4012: N_("Discord no longer supports the gateway version of discord.py"),
    4013: N_("Discord does not know the requested intents"),
}
_CONNECTION_ERRORS = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError)

# The library warns at each start that voice is not available; it is not used here.
discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False


class DiscordConnection(discord.Client):
    """Owns one connection to the gateway; not reusable."""

    def __init__(self, *, content: bool, base_url: str) -> None:
        self._base_url = base_url.rstrip("/")
        super().__init__(
            intents=_intents(content=content),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0,  # do not wait for the data of every server
            enable_debug_events=True,  # without this, raw frames are not passed on
        )
        parsers = self._connection.parsers
        for event, parse in parsers.items():
            parsers[event] = partial(_parse_or_log, event, parse)
        self._on_frame: Callable[[str], None] = _ignore_frame
        self._on_disconnect: Callable[[], None] = _ignore

    def _get_state(self, **options: Any) -> Any:
        """The library calls it once, before anything uses the client for HTTP."""
        self.http = self._http = DiscordHttp(self.loop, base_url=self._base_url)
        return super()._get_state(**options)

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        if event == "socket_raw_receive":
            self._on_frame(args[0])
        elif event == "disconnect":
            self._on_disconnect()

    @asynccontextmanager
    async def logged_in(self, token: Secret) -> AsyncIterator[tuple[DiscordUser, str]]:
        """Log in; yields our own user and the id of our application. Raises a `ConnectError`."""
        async with self:
            await self._log_in(token)
            assert self.user is not None, "a client that is logged in has a user"
            assert self.application_id is not None, "and an application"
            me = DiscordUser(id=str(self.user.id), username=self.user.name, bot=True)
            yield me, str(self.application_id)

    async def _log_in(self, token: Secret) -> None:
        try:
            await self.login(token.reveal())
            await self._http.find_gateway()
        except _CONNECTION_ERRORS as error:
            raise to_connect_error(error) from error

    async def run_until_closed(
        self, *, on_frame: Callable[[str], None], on_disconnect: Callable[[], None]
    ) -> ConnectError:
        """Run until the connection is permanently lost; returns the error. `on_frame` is called for
        each frame as it arrives, `on_disconnect` each time the connection is lost, even if it may
        be resumed."""
        self._on_frame, self._on_disconnect = on_frame, on_disconnect
        try:
            await self.connect(reconnect=False)
        # The boundary of the library: a frame that it cannot read ends the connection with an
        # arbitrary exception.
        except Exception as error:
            if not isinstance(error, _CONNECTION_ERRORS):
                log.error(
                    "discord.py ended the connection to Discord: %r",
                    error,
                    exc_info=error,
                    extra={"action": "connection_failed"},
                )
            return to_connect_error(error)
        return AccountDisconnected("Discord closed the connection")


class DiscordHttp(discord.http.HTTPClient):
    """The library's HTTP client, at the address of one account: the library has one address for the
    whole process. Owns the address of the gateway."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, base_url: str) -> None:
        super().__init__(loop)
        self._base_url = base_url
        self._gateway: yarl.URL | None = None  # None: the one that the library knows

    async def find_gateway(self) -> None:
        """Ask for the address of the gateway, unless this is Discord itself."""
        if self._base_url != API_URL:
            found = await self.request(discord.http.Route("GET", "/gateway/bot"))
            self._gateway = yarl.URL(found["url"])

    async def request(self, route: discord.http.Route, **options: Any) -> Any:
        route.url = self._base_url + route.url.removeprefix(route.BASE)
        return await super().request(route, **options)

    async def ws_connect(self, url: str, **options: Any) -> aiohttp.ClientWebSocketResponse:
        """A session is resumed at the address that came with it."""
        asked = yarl.URL(url)
        known = discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY
        if self._gateway is not None and asked.with_query(None) == known:
            url = str(self._gateway.with_query(asked.query))
        return await super().ws_connect(url, **options)


def _parse_or_log(event: str, parse: Callable[[Any], None], data: Any) -> None:
    """Let the library parse an event for its own state, which is not used here: only the raw frames
    are. An exception would end the connection, and the event would come again."""
    try:
        parse(data)
    except Exception as error:
        log.warning(
            "discord.py could not parse the event %s, which was handled without it: %r",
            event,
            error,
            exc_info=error,
            extra={"action": "event_not_parsed"},
        )


def _ignore_frame(frame: str) -> None:
    """The callback before there is a listener."""


def _ignore() -> None:
    """The callback before there is a listener."""


def _intents(*, content: bool) -> discord.Intents:
    intents = discord.Intents.none()
    intents.guilds = intents.guild_messages = intents.dm_messages = True
    intents.message_content = content
    return intents


def to_connect_error(error: Exception) -> ConnectError:
    """Convert the error of a lost connection to an error of the account."""
    code = error.code if isinstance(error, discord.ConnectionClosed) else None
    status = error.status if isinstance(error, discord.HTTPException) else None
    if isinstance(error, discord.LoginFailure) or code == _CLOSED_BAD_TOKEN or status == 401:
        return ConnectRefused(
            "Discord does not accept the token: it is wrong or was reset", remedy=NEW_TOKEN_REMEDY
        )
    if isinstance(error, discord.PrivilegedIntentsRequired) or code == _CLOSED_BAD_INTENTS:
        return ConnectRefused(
            "Discord does not let this bot read messages in servers: the message content "
            "intent is not enabled",
            portal=PORTAL_URL,
            remedy="Enable it ({portal}, Bot, Message Content Intent), or set "
            "platforms.discord.message_content = false: then the bot receives only "
            "messages that mention it.",
        )
    if code in _FATAL_CLOSE_CODES:
        return ConnectRefused(
            "{reason} (close code {code})",
            reason=HoldfastError(_FATAL_CLOSE_CODES[code]),
            code=code,
        )
    return AccountDisconnected(
        "lost the connection to Discord: {error}", error=str(error) or type(error).__name__
    )
