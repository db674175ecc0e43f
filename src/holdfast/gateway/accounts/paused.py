"""Paused accounts: which of them people have paused, kept over every restart."""

import asyncio

import msgspec

from holdfast.core.ops.account import PausedAccount
from holdfast.core.people.audit import Act, AuditKind
from holdfast.core.ports.journal import Journal
from holdfast.core.ports.protocols import Clock, Store

_KEY = "paused_accounts"


class Paused:
    """Owns the list; a copy of what the store has, changed by commits alone and one at a time: what
    the store did not take is not on it, and is written by nobody else's change. Also an account
    that is out of the configuration stays on it: it is paused still when it comes back."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._changing = asyncio.Lock()
        self._all: dict[tuple[str, str], PausedAccount] = {}

    async def load(self) -> None:
        kept = await self._store.meta(_KEY)
        rows = msgspec.json.decode(kept, type=list[PausedAccount]) if kept else []
        self._all = {(row.platform, row.account): row for row in rows}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._all

    async def add(self, key: tuple[str, str], *, by: str) -> None:
        """Returns when it is kept."""
        async with self._changing:
            platform, account = key
            now = PausedAccount(platform=platform, account=account, at=self._clock.now())
            store = self._store.acting(self._act(AuditKind.ACCOUNT_PAUSED, key, by))
            await self._keep({key: now, **self._all}, store)

    async def remove(self, key: tuple[str, str], *, by: str) -> None:
        """Returns when it is kept, that somebody wanted it also where it was not on the list."""
        async with self._changing:
            act = self._act(AuditKind.ACCOUNT_RESUMED, key, by)
            if key not in self._all:
                await self._store.record_act(act)
                return
            wanted = {other: row for other, row in self._all.items() if other != key}
            await self._keep(wanted, self._store.acting(act))

    async def _keep(self, wanted: dict[tuple[str, str], PausedAccount], store: Journal) -> None:
        text = msgspec.json.encode(list(wanted.values())).decode()
        await store.set_meta(_KEY, text)
        self._all = wanted

    def _act(self, kind: AuditKind, key: tuple[str, str], by: str) -> Act:
        return Act(kind=kind, actor=by, at=self._clock.now(), subject=":".join(key))
