"""All platform accounts by name, with their status and the last proof that each is reachable."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

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
    """The id of the chat that somebody calls so."""
    return (
        platform.normalise_chat_id(chat)
        if isinstance(platform, SupportsChatIdNormalisation)
        else chat
    )


class PlatformRegistry:
    """Owns which platform answers to which name and account, how each stands, and when each last
    proved that it is there: by a round trip, which a flag that somebody set once is not."""

    def __init__(self, platforms: Iterable[Platform], *, clock: Clock) -> None:
        self._platforms = {(p.name, p.account): p for p in platforms}
        self._clock = clock
        self._reachable_at: dict[tuple[str, str], float] = {}
        self._alive_at: dict[tuple[str, str], float] = {}  # on the clock that nobody sets
        self._statuses: dict[tuple[str, str], ConnectionStatus] = {}
        self._on_lost: dict[tuple[str, str], Callable[[ConnectError], None]] = {}

    def __iter__(self) -> Iterator[Platform]:
        return iter(self._platforms.values())

    def register(self, platform: Platform) -> None:
        """This one answers to its name and account from now on, whoever did before."""
        self.unregister(platform)
        self._platforms[platform.name, platform.account] = platform

    def unregister(self, platform: Platform) -> None:
        """Nobody answers there any more. What was proven of one who did proves nothing."""
        key = (platform.name, platform.account)
        for known in (self._platforms, self._reachable_at, self._alive_at, self._statuses):
            known.pop(key, None)

    def find(self, address: Address) -> Platform | None:
        """None: the account was taken out of the config after the message came."""
        return self._platforms.get((address.platform, address.account))

    def has(self, name: str, account: str) -> bool:
        return (name, account) in self._platforms

    def mark_reachable(self, name: str, account: str) -> None:
        """Something went to the account's platform, and an answer came back."""
        self._reachable_at[name, account] = self._clock.now()

    def mark_alive(self, name: str, account: str) -> None:
        """Its platform says that its connection is alive. That something could be sent says less:
        what people write may come another way, and that one may be dead."""
        self._alive_at[name, account] = self._clock.monotonic()
        self.mark_reachable(name, account)

    @contextmanager
    def connected(
        self, platform: Platform, on_lost: Callable[[ConnectError], None]
    ) -> Iterator[None]:
        """While a connection of the account is open, `on_lost` is called if the platform reports
        that it is gone."""
        key = (platform.name, platform.account)
        self._on_lost[key] = on_lost
        try:
            yield
        finally:
            if self._on_lost.get(key) is on_lost:
                del self._on_lost[key]

    def report_lost(self, name: str, account: str, error: ConnectError) -> None:
        """The platform says that its connection is gone."""
        if (on_lost := self._on_lost.get((name, account))) is not None:
            on_lost(error)

    def reachable_since(self, name: str, account: str, *, at: float) -> bool:
        """Whether an answer has come back from it after that."""
        proven = self._reachable_at.get((name, account))
        return proven is not None and proven > at

    def alive_at(self, platform: Platform) -> float | None:
        """When its line last gave a sign of life, on the clock that nobody sets; None: never."""
        return self._alive_at.get((platform.name, platform.account))

    def set_status(self, platform: Platform, status: ConnectionStatus) -> None:
        self._statuses[platform.name, platform.account] = status

    def statuses(self) -> tuple[AccountStatus, ...]:
        """Of every platform but the internal ones."""
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
            error=status.why,
            remedy=status.remedy,
            next_attempt_at=status.next_attempt_at,
            failures=status.failures,
            missing_grants=platform.capabilities.missing_grants,
        )

    def capabilities(self, address: Address) -> Capabilities:
        return self.capabilities_of(address.platform, address.account)

    def capabilities_of(self, name: str, account: str) -> Capabilities:
        platform = self._platforms.get((name, account))
        return platform.capabilities if platform else _NO_CAPABILITIES
