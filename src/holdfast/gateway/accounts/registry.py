"""All platform accounts by name, with their status and the last proof that each is reachable."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from holdfast.core.errors import ConnectError
from holdfast.core.messages.outbox import Address
from holdfast.core.ops.account import ConnectionStatus
from holdfast.core.ops.status import AccountStatus
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.platform import Platform, SupportsChatIdNormalisation
from holdfast.core.ports.runtime import Clock
from holdfast.core.turns.subagent import INTERNAL_PLATFORM

_NO_CAPABILITIES = Capabilities()
_UNTRIED = ConnectionStatus()


def normalise_chat_id(platform: Platform, chat: str) -> str:
    """Normalise a chat id that a person has entered."""
    return (
        platform.normalise_chat_id(chat)
        if isinstance(platform, SupportsChatIdNormalisation)
        else chat
    )


class PlatformRegistry:
    """Owns the platform of each name and account, its status, and when it last proved to be
    reachable: by a round trip. A flag that was set once would be no proof."""

    def __init__(
        self,
        platforms: Iterable[Platform],
        *,
        clock: Clock,
        on_change: Callable[[], None] = lambda: None,  # an account has another status, or is gone
    ) -> None:
        self._platforms: dict[tuple[str, str], Platform] = {
            (p.name, p.account): p for p in platforms
        }
        self._clock = clock
        self._on_change = on_change
        self._reachable_at: dict[tuple[str, str], float] = {}
        self._alive_at: dict[tuple[str, str], float] = {}  # on the monotonic clock
        self._statuses: dict[tuple[str, str], ConnectionStatus] = {}
        self._on_lost: dict[tuple[str, str], Callable[[ConnectError], None]] = {}

    def __iter__(self) -> Iterator[Platform]:
        return iter(self._platforms.values())

    def register(self, platform: Platform) -> None:
        """Register a platform under its name and account, replacing an earlier one."""
        self.unregister(platform)
        self._platforms[platform.name, platform.account] = platform

    def unregister(self, platform: Platform) -> None:
        """Remove a platform. What it proved does not apply to a successor."""
        key = (platform.name, platform.account)
        for known in (self._platforms, self._reachable_at, self._alive_at, self._statuses):
            known.pop(key, None)
        self._on_change()

    def find(self, address: Address) -> Platform | None:
        """The platform of an address; None if the account was removed from the config after the
        message arrived."""
        return self._platforms.get((address.platform, address.account))

    def has(self, name: str, account: str) -> bool:
        return (name, account) in self._platforms

    def mark_reachable(self, name: str, account: str) -> None:
        """Record a completed round trip to the account's platform."""
        self._reachable_at[name, account] = self._clock.now()

    def mark_alive(self, name: str, account: str) -> None:
        """Record that the platform reports its connection as alive. A successful send proves less:
        incoming messages may use another connection, which may be dead."""
        self._alive_at[name, account] = self._clock.monotonic()
        self.mark_reachable(name, account)

    @contextmanager
    def connected(
        self, platform: Platform, on_lost: Callable[[ConnectError], None]
    ) -> Iterator[None]:
        """While the context is open, call `on_lost` if the platform reports that its connection is
        gone."""
        key = (platform.name, platform.account)
        self._on_lost[key] = on_lost
        try:
            yield
        finally:
            if self._on_lost.get(key) is on_lost:
                del self._on_lost[key]

    def report_lost(self, name: str, account: str, error: ConnectError) -> None:
        """Report that the platform's connection is gone."""
        if (on_lost := self._on_lost.get((name, account))) is not None:
            on_lost(error)

    def reachable_since(self, name: str, account: str, *, at: float) -> bool:
        """Whether a round trip has completed after that time."""
        proven = self._reachable_at.get((name, account))
        return proven is not None and proven > at

    def alive_at(self, platform: Platform) -> float | None:
        """When its connection last gave a sign of life, on the monotonic clock; None if never."""
        return self._alive_at.get((platform.name, platform.account))

    def set_status(self, platform: Platform, status: ConnectionStatus) -> None:
        self._statuses[platform.name, platform.account] = status
        self._on_change()

    def statuses(self) -> tuple[AccountStatus, ...]:
        """The status of every platform except the internal ones."""
        return tuple(self.status_of(p) for p in self if p.name != INTERNAL_PLATFORM)

    def status_of(self, platform: Platform) -> AccountStatus:
        key = platform.name, platform.account
        status = self._statuses.get(key, _UNTRIED)
        return AccountStatus(
            name=platform.name,
            account=platform.account,
            backlog=platform.capabilities.backlog,
            built_in=platform.capabilities.fetchable,
            heartbeat_interval=platform.capabilities.heartbeat_interval,
            last_ok_at=self._reachable_at.get(key),
            state=status.state,
            since=status.since,
            error=str(status.why),
            remedy=str(status.remedy),
            error_text=status.why or msgspec.UNSET,
            remedy_text=status.remedy or msgspec.UNSET,
            next_attempt_at=status.next_attempt_at,
            failures=status.failures,
            missing_grants=tuple(map(str, platform.capabilities.missing_grants)),
            grant_texts=platform.capabilities.missing_grants or msgspec.UNSET,
        )

    def capabilities(self, address: Address) -> Capabilities:
        return self.capabilities_of(address.platform, address.account)

    def capabilities_of(self, name: str, account: str) -> Capabilities:
        platform = self._platforms.get((name, account))
        return platform.capabilities if platform else _NO_CAPABILITIES
