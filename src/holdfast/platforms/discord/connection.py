"""The websocket to Discord's gateway, by discord.py, which resumes it if Discord allows that.

Importing this imports discord.py, so it is imported only when a connection is opened. The library
parses each event into its own objects and passes those to tasks; this module uses the raw frames
instead, in the order in which they arrive.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import discord

from holdfast.core.errors import AccountDisconnected, ConnectError, ConnectRefused
from holdfast.core.secrets import Secret
from holdfast.platforms.discord.events import DiscordUser
from holdfast.platforms.discord.plugin import NEW_TOKEN_REMEDY, PORTAL_URL

_CLOSED_BAD_TOKEN, _CLOSED_BAD_INTENTS = 4004, 4014
# https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes
_FATAL_CLOSE_CODES = {
    4010: "Discord did not accept the requested shard",
    4011: "this bot is in more servers than one connection can serve, and needs shards",
    4012: "Discord no longer supports the gateway version of discord.py",
    4013: "Discord does not know the requested intents",
}
_CONNECTION_ERRORS = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError)

# The library warns at each start that voice is not available; it is not used here.
discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False


class DiscordConnection(discord.Client):
    """Owns one connection to the gateway; not reusable."""

    def __init__(self, *, content: bool) -> None:
        super().__init__(
            intents=_intents(content=content),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0,  # do not wait for the data of every server
            enable_debug_events=True,  # without this, raw frames are not passed on
        )
        self._on_frame: Callable[[str], None] = _ignore_frame
        self._on_disconnect: Callable[[], None] = _ignore

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
        # The boundary of the library: it parses every event before it emits the next one, and an
        # event that it cannot parse ends the connection with an arbitrary exception.
        except Exception as error:  # noqa: BLE001 - returned to the supervisor
            return to_connect_error(error)
        return AccountDisconnected("Discord closed the connection")


def _ignore_frame(frame: str) -> None:
    """The callback before there is a listener."""


def _ignore() -> None:
    """The callback before there is a listener."""


def base_url() -> str:
    """The API's address that the library uses, and therefore we, too."""
    return discord.http.Route.BASE


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
            remedy=f"enable it ({PORTAL_URL}, Bot, Message Content Intent), or set "
            "platforms.discord.message_content = false: then the bot receives only "
            "messages that mention it",
        )
    if code in _FATAL_CLOSE_CODES:
        return ConnectRefused(
            "{reason} (close code {code})", reason=_FATAL_CLOSE_CODES[code], code=code
        )
    return AccountDisconnected(
        "lost the connection to Discord: {error}", error=str(error) or type(error).__name__
    )
