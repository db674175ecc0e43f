"""Quiet: the accounts and chats that hear nothing but answers."""

from holdfast.core.settings import Settings

_Account = tuple[str, str]


class Quiet:
    """Owns which ones those are. A chat says for itself what its account says for the others."""

    def __init__(self, settings: Settings) -> None:
        self._accounts: set[_Account] = set()
        self._chats: dict[tuple[str, str, str], bool] = {}
        for name, account, each in settings.every_account():
            if each.quiet:
                self._accounts.add((name, account))
            for chat, own in each.chats.items():
                if own.quiet is not None:
                    self._chats[name, account, chat] = own.quiet

    def in_chat(self, platform: str, account: str, chat_id: str) -> bool:
        own = self._chats.get((platform, account, chat_id)) if self._chats else None
        return (platform, account) in self._accounts if own is None else own
