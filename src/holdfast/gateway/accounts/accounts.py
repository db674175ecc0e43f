"""All account supervisors: opened, paused, resumed, checked, reconfigured and closed."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Protocol

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
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import RecordAudit, SetMeta
from holdfast.core.ports.store_queries import GetMeta
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.accounts.connection import DeliveryQueue
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.accounts.supervisor import AccountSupervisor

_PAUSED_KEY = "paused_accounts"
_PROBE_TIMEOUT = 10.0  # seconds for an account to answer when it is checked
_CONTROL_PLATFORMS = frozenset({"api", "web"})  # one of these is needed to resume any account


class PausedAccounts:
    """Owns the list of paused accounts, a copy of the stored one. It is changed one commit at a
    time, so that a failed write changes nothing and is not part of a later one. An account that is
    removed from the configuration stays on the list, and is still paused when it is configured
    again."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._changing = asyncio.Lock()
        self._paused: dict[tuple[str, str], PausedAccount] = {}

    async def load(self) -> None:
        stored = await self._store.read(GetMeta(key=_PAUSED_KEY))
        rows = msgspec.json.decode(stored, type=list[PausedAccount]) if stored else []
        self._paused = {(row.platform, row.account): row for row in rows}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._paused

    async def add(self, key: tuple[str, str], *, by: str) -> None:
        """Add an account. Returns when that is stored."""
        async with self._changing:
            platform, account = key
            now = PausedAccount(platform=platform, account=account, at=self._clock.now())
            entry = self._audit_entry(AuditKind.ACCOUNT_PAUSED, key, by)
            await self._write({key: now, **self._paused}, entry)

    async def remove(self, key: tuple[str, str], *, by: str) -> None:
        """Remove an account. Returns when that is stored; audited even if the account was not
        paused."""
        async with self._changing:
            entry = self._audit_entry(AuditKind.ACCOUNT_RESUMED, key, by)
            if key not in self._paused:
                await self._store.write(RecordAudit(entry=entry))
                return
            rest = {other: row for other, row in self._paused.items() if other != key}
            await self._write(rest, entry)

    async def _write(
        self, accounts: dict[tuple[str, str], PausedAccount], entry: AuditEntry
    ) -> None:
        text = msgspec.json.encode(list(accounts.values())).decode()
        await self._store.write(SetMeta(key=_PAUSED_KEY, value=text), audit=entry)
        self._paused = accounts

    def _audit_entry(self, kind: AuditKind, key: tuple[str, str], by: str) -> AuditEntry:
        return AuditEntry(kind=kind, actor=by, at=self._clock.now(), subject=":".join(key))


class NotPausable(HoldfastError):
    """The account cannot be paused, because the gateway itself is controlled through it."""


class NewSupervisor(Protocol):
    """Makes the supervisor of an account, with what all of them share."""

    def __call__(self, platform: Platform, *, paused: bool) -> AccountSupervisor: ...


class Accounts:
    """Owns the supervisor of each account, from its first attempt to connect until it is closed."""

    def __init__(
        self,
        platforms: PlatformRegistry,
        paused: PausedAccounts,
        *,
        outbox: DeliveryQueue,
        tasks: asyncio.TaskGroup,
        new_supervisor: NewSupervisor,
    ) -> None:
        self._platforms = platforms
        self._paused = paused
        self._outbox = outbox
        self._new_supervisor = new_supervisor
        self._task_group = tasks
        self._supervisors: dict[tuple[str, str], AccountSupervisor] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._closed = False

    async def open(self) -> None:
        """Open all accounts. Returns when every internal account is connected. The others are not
        waited for: one that hangs would delay the rest."""
        await self._paused.load()
        # External ones first: one that answers at once is connected when this returns.
        platforms = sorted(self._platforms, key=_is_internal)
        for platform in platforms:
            self._start(platform)
        for supervisor in self._supervisors.values():
            if _is_internal(supervisor.platform):
                await supervisor.wait_until_known()

    async def close(self) -> None:
        """Close all accounts at once; one that hangs delays no other."""
        self._closed = True
        running = list(self._tasks.values())
        for supervisor in self._supervisors.values():
            supervisor.close()
        try:
            if running:
                await asyncio.wait(running)
        finally:
            for task in running:
                task.cancel()
            self._tasks.clear()

    def add_or_replace(self, platform: Platform) -> None:
        """Connect an account that was added or changed in the configuration, after closing its
        predecessor. No other account is affected, and no turn is interrupted."""
        supervisor = self._supervisors.get((platform.name, platform.account))
        if self._closed:
            return
        if supervisor is not None and supervisor.is_running:
            supervisor.replace_platform(platform)
            return
        # Deliveries to it wait until it is connected.
        self._outbox.account_disconnected(platform)
        self._platforms.register(platform)
        self._start(platform)

    def remove(self, name: str, account: str) -> None:
        """Close an account that was removed from the configuration or disabled. Deliveries to it
        wait."""
        if (supervisor := self._supervisors.get((name, account))) is not None:
            supervisor.close()

    def _start(self, platform: Platform) -> None:
        key = platform.name, platform.account
        supervisor = self._new_supervisor(platform, paused=key in self._paused)
        self._supervisors[key] = supervisor
        name = f"account {platform.name}:{platform.account}"
        self._tasks[key] = self._task_group.create_task(self._run(key, supervisor), name=name)

    async def _run(self, key: tuple[str, str], supervisor: AccountSupervisor) -> None:
        """Run a supervisor, and remove it when it has ended. While the gateway stops, it stays
        listed, so that its status can be read."""
        await supervisor.run()
        if not self._closed and self._supervisors.get(key) is supervisor:
            del self._supervisors[key], self._tasks[key]
            self._platforms.unregister(supervisor.platform)

    def statuses(self) -> tuple[AccountStatus, ...]:
        """The status of every external account."""
        return self._platforms.statuses()

    async def pause(self, name: str, account: str) -> AccountStatus:
        """Disconnect the account until it is resumed, even across a restart. No turn is
        interrupted, and deliveries to it wait. Returns when that is stored."""
        supervisor = self._supervisor(name, account)
        if name in _CONTROL_PLATFORMS:
            raise NotPausable(
                "{name} is served by the gateway itself and cannot be paused. To disable "
                "it, set platforms.{key}.enabled = false and restart.",
                name=supervisor.name,
                key=name,
            )
        await self._paused.add((name, account), by=OPERATOR)
        return await self._status_after(supervisor, supervisor.pause())

    async def resume(self, name: str, account: str) -> AccountStatus:
        """Connect the account now, even one that is blocked or waits for its next attempt."""
        supervisor = self._supervisor(name, account)
        await self._paused.remove((name, account), by=OPERATOR)
        return await self._status_after(supervisor, supervisor.resume())

    async def check(self, name: str, account: str) -> AccountStatus:
        """Make a round trip, or try to connect, and return the status. A paused account stays
        paused."""
        supervisor = self._supervisor(name, account)
        if supervisor.status.state is AccountState.CONNECTED:
            await self._probe(supervisor)
        else:
            await self._status_after(supervisor, supervisor.try_now())
        return self._platforms.status_of(supervisor.platform)

    async def _status_after(
        self, supervisor: AccountSupervisor, change: Coroutine[Any, Any, None]
    ) -> AccountStatus:
        """The status after the change, or after the timeout: a platform may be slow."""
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                await change
        except TimeoutError:
            pass
        return self._platforms.status_of(supervisor.platform)

    async def _probe(self, supervisor: AccountSupervisor) -> None:
        platform = supervisor.platform
        if not isinstance(platform, SupportsProbing):
            return
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                await platform.probe()
        except TimeoutError:
            await supervisor.reconnect(
                AccountDisconnected("no answer within {timeout:.0f} s", timeout=_PROBE_TIMEOUT)
            )
        except ConnectError as error:
            await supervisor.reconnect(error)
        except Throttled:
            # A rate limit is also an answer.
            self._platforms.mark_reachable(platform.name, platform.account)
        except SendError as error:
            await supervisor.reconnect(AccountDisconnected("{error}", error=error))
        else:
            self._platforms.mark_reachable(platform.name, platform.account)

    def _supervisor(self, name: str, account: str) -> AccountSupervisor:
        supervisor = self._supervisors.get((name, account))
        if supervisor is None or supervisor.platform.name == INTERNAL_PLATFORM:
            known = list(self._names())
            near = _nearest(name, account, known)
            hint = f" Did you mean {near}?" if near else ""
            raise NoSuchAccount(
                "No enabled account is named {name}:{account}; enabled accounts: {known}.{hint}",
                name=name,
                account=account,
                known=", ".join(known) or "none",
                hint=hint,
            )
        return supervisor

    def _names(self) -> Iterator[str]:
        return (
            each.name
            for each in self._supervisors.values()
            if each.platform.name != INTERNAL_PLATFORM
        )


def _is_internal(platform: Platform) -> bool:
    """Whether the platform is served by this process, without a network in between."""
    return platform.capabilities.fetchable or platform.name == INTERNAL_PLATFORM


def _nearest(name: str, account: str, known: Sequence[str]) -> str | None:
    """The closest known name. The platform counts first: all unnamed accounts have the same account
    name."""
    platform = closest_match(name, [each.partition(":")[0] for each in known])
    accounts = [each for each in known if each.partition(":")[0] == platform]
    return closest_match(f"{platform}:{account}", accounts) if accounts else None
