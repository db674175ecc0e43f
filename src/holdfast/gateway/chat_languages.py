"""Chooses the language of the bot's texts: the sender's where the platform tells it, else
`gateway.language`."""

from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Source
from holdfast.core.text.translation import ENGLISH, Catalogue
from holdfast.gateway.live_settings import LiveSettings
from holdfast.system.languages import catalogue_for

_MAX_CHATS = 10_000  # the one with the oldest last message is dropped


class ChatLanguages:
    """Owns the language in which each chat last wrote, for texts that answer no message. It is lost
    with the process: such texts are in `gateway.language` until a message arrives."""

    def __init__(self, live_settings: LiveSettings) -> None:
        self._live_settings = live_settings
        self._last: dict[tuple[str, str, str], str] = {}

    def record(self, source: Source) -> None:
        """A message came from there."""
        if not source.language:
            return
        chat = (source.platform, source.account, source.chat_id)
        self._last.pop(chat, None)  # at the end: the first ones have the oldest messages
        self._last[chat] = source.language
        if len(self._last) > _MAX_CHATS:
            del self._last[next(iter(self._last))]

    def of_message(self, row: InboxRow) -> Catalogue:
        """For what answers a message; of a subagent's task, for the people it works for."""
        subagent = row.inbound.subagent
        return self.of_source(row.inbound.source if subagent is None else subagent.chat)

    def of_source(self, source: Source) -> Catalogue:
        return self._choose(source.language)

    def of_chat(self, address: Address, *, known: str = "") -> Catalogue:
        """For what is sent to a chat unasked. `known`: the language that is stored with the reason
        for sending it."""
        last = self._last.get((address.platform, address.account, address.chat_id), "")
        return self._choose(known, last)

    def _choose(self, *tags: str) -> Catalogue:
        tags = (*tags, self._live_settings.current.gateway.language)
        return catalogue_for(*tags) if any(tags) else ENGLISH
