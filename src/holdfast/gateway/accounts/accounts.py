"""All account supervisors: opened, paused, resumed, checked, reconfigured and closed."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.config.errors import closest_match
from holdfast.core.errors import (
    AccountDisconnected,
    ConnectError,
    HoldfastError,
    SendError,
    Throttled,
)
from holdfast.core.ops.account import AccountState, NoSuchAccount, PausedAccount
from holdfast.core.ops.status import AccountStatus
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.platform import Platform, SupportsProbing
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import Store, StoreWriter
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.accounts.connection import AccountDependencies
from holdfast.gateway.accounts.supervisor import AccountSupervisor

# MERGED holdfast.gateway.accounts.paused: Paused accounts: which of them people have paused, kept over every restart.
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


# MERGED holdfast.gateway.accounts.accounts: Accounts: the lines of every platform account, opened, paused, looked at and closed.
_PROBE_TIMEOUT = 10.0  # seconds that an account is given to answer when it is checked
_CONTROL_PLATFORMS = frozenset({"api", "web"})  # by which one would have to ask for them again


class NotPausable(HoldfastError):
    """This account is one of those by which the gateway itself is run."""


class Accounts:
    """Owns the lines, from the first attempt to the last goodbye."""

    def __init__(self, deps: AccountDependencies, paused: PausedAccounts) -> None:
        self._deps = deps
        self._paused = paused
        self._supervisors: dict[tuple[str, str], AccountSupervisor] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._closed = False

    async def open(self) -> None:
        """Returns when every account of this very process is there. Of the others none is waited
        for: one that hangs would keep the rest from starting."""
        await self._paused.load()
        # Those outside first: one that answers at once is there when this returns.
        platforms = sorted(self._deps.platforms, key=_is_internal)
        for platform in platforms:
            self._start(platform)
        for line in self._supervisors.values():
            if _is_internal(line.platform):
                await line.wait_until_known()

    async def close(self) -> None:
        """Let all of them go at once; one that hangs keeps no other."""
        self._closed = True
        running = list(self._tasks.values())
        for line in self._supervisors.values():
            line.close()
        try:
            if running:
                await asyncio.wait(running)
        finally:
            for task in running:
                task.cancel()
            self._tasks.clear()

    def add_or_replace(self, platform: Platform) -> None:
        """An account was added, or is set up anew: it is connected by this, once what stood in its
        place has been let go of. No other is touched, and no turn is cut."""
        line = self._supervisors.get((platform.name, platform.account))
        if self._closed:
            return
        if line is not None and line.is_running:
            line.replace_platform(platform)
            return
        self._deps.on_disconnected(
            platform
        )  # what comes to be owed there waits until it is connected
        self._deps.platforms.register(platform)
        self._start(platform)

    def remove(self, name: str, account: str) -> None:
        """An account was taken out of the configuration, or switched off: it is let go of. What
        is owed there waits."""
        if (line := self._supervisors.get((name, account))) is not None:
            line.close()

    def _start(self, platform: Platform) -> None:
        key = platform.name, platform.account
        line = self._supervisors[key] = AccountSupervisor(
            platform, self._deps, paused=key in self._paused
        )
        name = f"line {platform.name}:{platform.account}"
        task = self._deps.tasks.create_task(line.run(), name=name)
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._on_supervisor_ended(key, line))

    def _on_supervisor_ended(self, key: tuple[str, str], supervisor: AccountSupervisor) -> None:
        """A stop ends all of them, and whoever looks at one until then is to see how it stands."""
        if not self._closed and self._supervisors.get(key) is supervisor:
            del self._supervisors[key], self._tasks[key]
            self._deps.platforms.unregister(supervisor.platform)
            self._deps.on_change()

    def connection_lost(self, name: str, account: str, error: ConnectError) -> None:
        line = self._supervisors.get((name, account))
        if line is not None:
            line.connection_lost(error)

    def statuses(self) -> tuple[AccountStatus, ...]:
        """How every account stands that leads outside."""
        return self._deps.platforms.statuses()

    async def pause(self, name: str, account: str) -> AccountStatus:
        """It is let go of and stays so, also over a restart; no turn is cut by that, and what is
        owed there waits. Returns when that is kept."""
        line = self._supervisor(name, account)
        if name in _CONTROL_PLATFORMS:
            raise NotPausable(
                f"{line.name} is served by the gateway itself; to do without it, set "
                f"platforms.{name}.enabled = false and restart."
            )
        await self._paused.add((name, account), by=OPERATOR)
        return await self._status_after(line, line.pause())

    async def resume(self, name: str, account: str) -> AccountStatus:
        """Also one that was refused, or that waits for its next try, is tried now."""
        line = self._supervisor(name, account)
        await self._paused.remove((name, account), by=OPERATOR)
        return await self._status_after(line, line.resume())

    async def check(self, name: str, account: str) -> AccountStatus:
        """Have a round trip now, or try to connect now, and say what came of it. A paused account
        is left in peace."""
        line = self._supervisor(name, account)
        if line.status.state is AccountState.CONNECTED:
            await self._probe(line)
        else:
            await self._status_after(line, line.try_now())
        return self._deps.platforms.status_of(line.platform)

    async def _status_after(
        self, supervisor: AccountSupervisor, change: Coroutine[Any, Any, None]
    ) -> AccountStatus:
        """How it stands after the change, or on the way to it: a door may take its time."""
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                await change
        except TimeoutError:
            pass
        return self._deps.platforms.status_of(supervisor.platform)

    async def _probe(self, supervisor: AccountSupervisor) -> None:
        platform = supervisor.platform
        if not isinstance(platform, SupportsProbing):
            return
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                await platform.probe()
        except TimeoutError:
            await supervisor.reconnect(
                AccountDisconnected(f"no answer within {_PROBE_TIMEOUT:.0f} s")
            )
        except ConnectError as error:
            await supervisor.reconnect(error)
        except Throttled:
            self._deps.platforms.mark_reachable(
                platform.name, platform.account
            )  # that was an answer, too
        except SendError as error:
            await supervisor.reconnect(AccountDisconnected(str(error)))
        else:
            self._deps.platforms.mark_reachable(platform.name, platform.account)

    def _supervisor(self, name: str, account: str) -> AccountSupervisor:
        line = self._supervisors.get((name, account))
        if line is None or line.platform.name == INTERNAL_PLATFORM:
            known = list(self._names())
            near = _nearest(name, account, known)
            meant = f" Did you mean {near}?" if near else ""
            raise NoSuchAccount(
                f"there is no account {name}:{account} that is switched on; there are: "
                f"{', '.join(known) or 'none'}.{meant}"
            )
        return line

    def _names(self) -> Iterator[str]:
        return (
            line.name
            for line in self._supervisors.values()
            if line.platform.name != INTERNAL_PLATFORM
        )


def _is_internal(platform: Platform) -> bool:
    """Whether nothing lies between it and this process."""
    return platform.capabilities.fetchable or platform.name == INTERNAL_PLATFORM


def _nearest(name: str, account: str, known: Sequence[str]) -> str | None:
    """First by the platform: every account that has no name is called alike."""
    platform = closest_match(name, [each.partition(":")[0] for each in known])
    of_it = [each for each in known if each.partition(":")[0] == platform]
    return closest_match(f"{platform}:{account}", of_it) if of_it else None
