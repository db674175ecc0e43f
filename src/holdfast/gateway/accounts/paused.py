"""Paused accounts: which of them people have paused, kept over every restart."""

import asyncio

import msgspec

from holdfast.core.ops.account import PausedAccount
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.journal import StoreWriter
from holdfast.core.ports.protocols import Clock, Store

_KEY = "paused_accounts"


class PausedAccounts:
    """Owns the list; a copy of what the store has, changed by commits alone and one at a time: what
    the store did not take is not on it, and is written by nobody else's change. Also an account
    that is out of the configuration stays on it: it is paused still when it comes back."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._changing = asyncio.Lock()
        self._paused: dict[tuple[str, str], PausedAccount] = {}

    async def load(self) -> None:
        kept = await self._store.meta(_KEY)
        rows = msgspec.json.decode(kept, type=list[PausedAccount]) if kept else []
        self._paused = {(row.platform, row.account): row for row in rows}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._paused

    async def add(self, key: tuple[str, str], *, by: str) -> None:
        """Returns when it is kept."""
        async with self._changing:
            platform, account = key
            now = PausedAccount(platform=platform, account=account, at=self._clock.now())
            store = self._store.audited(self._audit_entry(AuditKind.ACCOUNT_PAUSED, key, by))
            await self._write({key: now, **self._paused}, store)

    async def remove(self, key: tuple[str, str], *, by: str) -> None:
        """Returns when it is kept, that somebody wanted it also where it was not on the list."""
        async with self._changing:
            act = self._audit_entry(AuditKind.ACCOUNT_RESUMED, key, by)
            if key not in self._paused:
                await self._store.record_audit(act)
                return
            wanted = {other: row for other, row in self._paused.items() if other != key}
            await self._write(wanted, self._store.audited(act))

    async def _write(
        self, accounts: dict[tuple[str, str], PausedAccount], writes: StoreWriter
    ) -> None:
        text = msgspec.json.encode(list(accounts.values())).decode()
        await writes.set_meta(_KEY, text)
        self._paused = accounts

    def _audit_entry(self, kind: AuditKind, key: tuple[str, str], by: str) -> AuditEntry:
        return AuditEntry(kind=kind, actor=by, at=self._clock.now(), subject=":".join(key))
