"""Quiet: the accounts and chats that get answers and nothing else."""

from holdfast.core.config.settings import Settings
from holdfast.core.messages.quiet import QuietChat
from holdfast.core.messages.source import Source
from holdfast.core.ports.library import Library

_Chat = tuple[str, str, str]


class Quiet:
    """Owns which ones those are: what /quiet said of a chat, else what is configured for it, else
    for its account. A copy of what the store has, so that no turn asks for it."""

    def __init__(self, settings: Settings) -> None:
        self._chosen: dict[_Chat, bool] = {}
        self.follow(settings)

    def follow(self, settings: Settings) -> None:
        """What is configured is this from now on."""
        self._accounts: set[tuple[str, str]] = set()
        self._configured: dict[_Chat, bool] = {}
        for name, account, each in settings.every_account():
            if each.quiet:
                self._accounts.add((name, account))
            for chat, own in each.chats.items():
                if own.quiet is not None:
                    self._configured[name, account, chat] = own.quiet

    async def load(self, library: Library) -> None:
        for chat in await library.quiet_chats():
            self.put(chat)

    def put(self, chat: QuietChat) -> None:
        """Somebody has said it, and the store has it."""
        place = (chat.platform, chat.account, chat.chat_id)
        if chat.quiet is None:
            self._chosen.pop(place, None)
        else:
            self._chosen[place] = chat.quiet

    def at(self, source: Source) -> bool:
        return self.in_chat(source.platform, source.account, source.chat_id)

    def in_chat(self, platform: str, account: str, chat_id: str) -> bool:
        place = (platform, account, chat_id)
        own = self._chosen.get(place, self._configured.get(place))
        return (platform, account) in self._accounts if own is None else own

    def is_chosen(self, source: Source) -> bool:
        """Whether it is so because somebody said it there."""
        return (source.platform, source.account, source.chat_id) in self._chosen
