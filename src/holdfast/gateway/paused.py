"""Paused accounts: which of them people have paused, kept over every restart."""

import msgspec

from holdfast.core.account import PausedAccount
from holdfast.core.ports import Clock, Store

_KEY = "paused_accounts"


class Paused:
    """Owns the list; a copy of what the store has. Also an account that is out of the
    configuration stays on it: it is paused still when it comes back."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._all: dict[tuple[str, str], PausedAccount] = {}

    async def load(self) -> None:
        kept = await self._store.meta(_KEY)
        rows = msgspec.json.decode(kept, type=list[PausedAccount]) if kept else []
        self._all = {(row.platform, row.account): row for row in rows}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._all

    async def add(self, key: tuple[str, str]) -> None:
        """Returns when it is kept."""
        if key not in self._all:
            platform, account = key
            at = self._clock.now()
            self._all[key] = PausedAccount(platform=platform, account=account, at=at)
        await self._keep()

    async def remove(self, key: tuple[str, str]) -> None:
        if self._all.pop(key, None) is not None:
            await self._keep()

    async def _keep(self) -> None:
        text = msgspec.json.encode(list(self._all.values())).decode()
        await self._store.set_meta(_KEY, text)
