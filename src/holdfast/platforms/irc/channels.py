"""Channels of one connection: which to join, and which we are in."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected
from holdfast.core.secrets import Secret
from holdfast.platforms.irc.client import IrcClient
from holdfast.platforms.irc.events import IrcMessage

log = logging.getLogger(__name__)

_MAX_JOIN_BYTES = 400  # of the names in one JOIN
# https://modern.ircdocs.horse/#join-message, and 477: login required.
_JOIN_REFUSALS = frozenset({"403", "405", "437", "471", "473", "474", "475", "476", "477", "489"})


class ChannelMembership:
    """Owns which channels we are in on this connection, as reported by the server."""

    def __init__(
        self,
        client: IrcClient,
        configured: Iterable[str],
        keys: Mapping[str, Secret],
        *,
        on_joined: Callable[[str], None],
    ) -> None:
        self._client = client
        self._configured = {client.names.fold(each): each for each in configured}
        self._keys = {client.names.fold(each): key for each, key in keys.items()}
        self._on_joined = on_joined  # called before any message of the channel
        self._current: set[str] = set()
        self._refusals: dict[str, str] = {}

    async def join_missing(self) -> None:
        """Joins the configured channels that we are not in. Returns when the server has answered
        for each; a channel that refuses us does not affect the others."""
        missing = [name for key, name in self._configured.items() if key not in self._current]
        if not missing:
            return
        locked = [name for name in missing if self._key_argument(name)]
        for names in (*locked, *_join_arguments([name for name in missing if name not in locked])):
            await self._client.send("JOIN", names, *self._key_argument(names))
        await self._client.round_trip()

    async def ensure_joined(self, channel: str) -> None:
        """Joins the channel before a message is sent to it. Raises `SendRejected`."""
        key = self._client.names.fold(channel)
        if key in self._current:
            return
        try:
            await self._client.send("JOIN", channel, *self._key_argument(channel))
            await self._client.round_trip()
        except OutcomeUnknown as error:  # no message was sent
            raise NotConnected(
                "could not join {channel}: {error}", channel=channel, error=error
            ) from error
        if key not in self._current:
            why = self._refusals.get(key, "the server gave no reason")
            raise SendRejected("could not join {channel}: {why}", channel=channel, why=why)

    def handle_message(self, message: IrcMessage) -> None:
        match message.command:
            case "JOIN" if self._client.is_me(message.nick):
                self._handle_join(message.param(0))
            case "PART" if self._client.is_me(message.nick):
                self._handle_leave(message.param(0), message.param(1) or "the server removed us")
            case "KICK" if self._client.is_me(message.param(1)):
                self._handle_leave(
                    message.param(0), f"{message.nick} kicked us: {message.param(2)}"
                )
            case verb if verb in _JOIN_REFUSALS:
                self._handle_refusal(message.param(1), message.trailing)

    def _key_argument(self, channel: str) -> tuple[str, ...]:
        key = self._keys.get(self._client.names.fold(channel))
        return () if key is None else (key.reveal(),)

    def _handle_join(self, channel: str) -> None:
        key = self._client.names.fold(channel)
        self._refusals.pop(key, None)
        if key not in self._current:
            self._current.add(key)
            self._on_joined(key)

    def _handle_leave(self, channel: str, reason: str) -> None:
        self._current.discard(self._client.names.fold(channel))
        log.warning(
            "Removed from IRC channel %s: %s; its messages are not received; joining it "
            "again is retried",
            channel,
            reason,
            extra={"action": "channel_left"},
        )

    def _handle_refusal(self, channel: str, reason: str) -> None:
        key = self._client.names.fold(channel)
        if key in self._configured and self._refusals.get(key) != reason:  # logged once per reason
            log.warning(
                "Could not join IRC channel %s: %s; its messages are not received, and "
                "joining it is retried",
                channel,
                reason,
                extra={"action": "channel_join_refused"},
            )
        self._refusals[key] = reason


def _join_arguments(names: list[str]) -> Iterator[str]:
    line = ""
    for name in names:
        if line and len(f"{line},{name}".encode()) > _MAX_JOIN_BYTES:
            yield line
            line = ""
        line = f"{line},{name}" if line else name
    if line:
        yield line
