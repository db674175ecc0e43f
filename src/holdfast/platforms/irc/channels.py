"""Channels: those we are to be in, and those we are in."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused
from holdfast.core.secret import Secret
from holdfast.platforms.irc.line import Line
from holdfast.platforms.irc.wire import Heard

log = logging.getLogger(__name__)

_ROOM = 400  # bytes of the names in one JOIN
# https://modern.ircdocs.horse/#join-message, and 477: only who is logged in.
_NOT_LET_IN = frozenset({"403", "405", "437", "471", "473", "474", "475", "476", "477", "489"})


class Channels:
    """Owns where we are on this connection, by what the server says of it."""

    def __init__(
        self,
        line: Line,
        wanted: Iterable[str],
        keys: Mapping[str, Secret],
        *,
        joined: Callable[[str], None],
    ) -> None:
        self._line = line
        self._wanted = {line.names.fold(each): each for each in wanted}
        self._keys = {line.names.fold(each): key for each, key in keys.items()}
        self._joined = joined  # told before anything is heard from there
        self._here: set[str] = set()
        self._refused: dict[str, str] = {}

    async def join(self) -> None:
        """Those of the wanted that we are not in. Returns when the server has said yes or no to
        each; one that does not let us in keeps us from no other."""
        missing = [name for key, name in self._wanted.items() if key not in self._here]
        if not missing:
            return
        locked = [name for name in missing if self._key(name)]
        for names in (*locked, *_lines_of([name for name in missing if name not in locked])):
            await self._line.say("JOIN", names, *self._key(names))
        await self._line.round_trip()

    async def enter(self, channel: str) -> None:
        """Be there, for something is to be said in it. Raises `Refused`."""
        key = self._line.names.fold(channel)
        if key in self._here:
            return
        try:
            await self._line.say("JOIN", channel, *self._key(channel))
            await self._line.round_trip()
        except OutcomeUnknown as error:  # nothing was said to anybody by this
            raise NotConnected(f"{channel} could not be joined: {error}") from error
        if key not in self._here:
            why = self._refused.get(key, "the server does not say why")
            raise Refused(f"{channel} does not let us in: {why}")

    def hear(self, heard: Heard) -> None:
        match heard.verb:
            case "JOIN" if self._line.is_me(heard.nick):
                self._enter(heard.param(0))
            case "PART" if self._line.is_me(heard.nick):
                self._leave(heard.param(0), heard.param(1) or "we were parted from it")
            case "KICK" if self._line.is_me(heard.param(1)):
                self._leave(heard.param(0), f"{heard.nick} has kicked us out: {heard.param(2)}")
            case verb if verb in _NOT_LET_IN:
                self._not_let_in(heard.param(1), heard.last)

    def _key(self, channel: str) -> tuple[str, ...]:
        key = self._keys.get(self._line.names.fold(channel))
        return () if key is None else (key.reveal(),)

    def _enter(self, channel: str) -> None:
        key = self._line.names.fold(channel)
        self._refused.pop(key, None)
        if key not in self._here:
            self._here.add(key)
            self._joined(key)

    def _leave(self, channel: str, why: str) -> None:
        self._here.discard(self._line.names.fold(channel))
        log.warning("Not in %s any more: %s", channel, why, extra={"action": "channel_left"})

    def _not_let_in(self, channel: str, why: str) -> None:
        key = self._line.names.fold(channel)
        if key in self._wanted and self._refused.get(key) != why:  # told once, tried again
            log.warning("%s does not let us in: %s", channel, why, extra={"action": "not_let_in"})
        self._refused[key] = why


def _lines_of(names: list[str]) -> Iterator[str]:
    line = ""
    for name in names:
        if line and len(f"{line},{name}".encode()) > _ROOM:
            yield line
            line = ""
        line = f"{line},{name}" if line else name
    if line:
        yield line
