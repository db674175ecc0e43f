"""Accounts and chats that get replies only: no progress, notices or reactions."""

from holdfast.core.config.settings import Settings
from holdfast.core.messages.outbox import QuietChat
from holdfast.core.messages.source import Source
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import ListQuietChats

_ChatKey = tuple[str, str, str]


class QuietChats:
    """Owns which chats and accounts those are: the setting by /quiet in the chat, otherwise the
    configuration of the chat, otherwise that of its account. A copy of the stored settings, so that
    no turn reads the store for it."""

    def __init__(self, settings: Settings) -> None:
        self._set_by_command: dict[_ChatKey, bool] = {}
        self.apply_settings(settings)

    def apply_settings(self, settings: Settings) -> None:
        """Apply changed settings."""
        self._accounts: set[tuple[str, str]] = set()
        self._configured: dict[_ChatKey, bool] = {}
        for name, account, each in settings.all_accounts():
            if each.quiet:
                self._accounts.add((name, account))
            for chat, own in each.chats.items():
                if own.quiet is not None:
                    self._configured[name, account, chat] = own.quiet

    async def load(self, reads: StoreReader) -> None:
        for chat in await reads.read(ListQuietChats()):
            self.set_quiet(chat)

    def set_quiet(self, chat: QuietChat) -> None:
        """Record that /quiet was used in the chat, and that this is stored."""
        key = (chat.platform, chat.account, chat.chat_id)
        if chat.quiet is None:
            self._set_by_command.pop(key, None)
        else:
            self._set_by_command[key] = chat.quiet

    def is_quiet(self, source: Source) -> bool:
        return self.is_quiet_chat(source.platform, source.account, source.chat_id)

    def is_quiet_chat(self, platform: str, account: str, chat_id: str) -> bool:
        key = (platform, account, chat_id)
        own = self._set_by_command.get(key, self._configured.get(key))
        return (platform, account) in self._accounts if own is None else own

    def is_set_by_command(self, source: Source) -> bool:
        """Whether the setting comes from /quiet in the chat."""
        return (source.platform, source.account, source.chat_id) in self._set_by_command
