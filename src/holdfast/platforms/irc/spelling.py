"""Spelling: by which id a channel is known here, however it is written on the wire or by people."""

import logging
from collections.abc import Iterable

from holdfast.platforms.irc.names import IrcNames

log = logging.getLogger(__name__)


class ChannelIds:
    """Owns the names of the channels that the configuration speaks of, as one server compares them
    (https://modern.ircdocs.horse/#casemapping-parameter): where `[` and `{` are one sign, only the
    server says so. Every other channel is known by its name in small letters, as that server has
    them."""

    def __init__(self, names: IrcNames, chats: Iterable[str]) -> None:
        self._names = names
        self._configured: dict[str, str] = {}
        for chat in filter(names.is_channel, chats):
            known = self._configured.setdefault(names.fold(chat), chat)
            if known != chat:
                log.warning(
                    "For this server %s and %s are one channel: what is set for the second holds "
                    "nowhere.",
                    known,
                    chat,
                    extra={"action": "chat_configured_twice"},
                )

    def normalise(self, name: str) -> str:
        """What is no channel is a person, whose name is not ours to change."""
        if not self._names.is_channel(name):
            return name
        folded = self._names.fold(name)
        return self._configured.get(folded, folded)
