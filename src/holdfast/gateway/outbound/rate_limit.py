"""What a send waits for: rate limits of the chat and the account, and the account's connection."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.errors import NotConnected, Throttled
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock
from holdfast.core.retry import UNREACHABLE_RETRY
from holdfast.gateway.accounts.registry import PlatformRegistry


class RateGate:
    """Owns the time until which nothing may be sent to one account or one chat."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def hold(self, seconds: float) -> None:
        """Send nothing for that long. A hold never shortens another one."""
        self._until = max(self._until, self._clock.monotonic() + seconds)

    @property
    def is_limited(self) -> bool:
        return self.wait_seconds > 0

    @property
    def wait_seconds(self) -> float:
        """Seconds until something may be sent, as far as is known; a hold may be extended."""
        return max(0.0, self._until - self._clock.monotonic())

    async def wait(self) -> None:
        if (wait := self.wait_seconds) > 0:
            await asyncio.sleep(wait)
            await self.wait()  # the hold may have been extended meanwhile


class SendGate:
    """The gates that a send to one chat must pass, and where it reports what blocked it. Owns how
    often in a row the platform was unreachable."""

    def __init__(
        self,
        chat: RateGate,
        account: RateGate,
        *,
        connected: asyncio.Event,
        on_unreachable: Callable[[], None],
    ) -> None:
        self._chat = chat
        self._account = account
        self._connected = connected  # set while the account is connected
        self._on_unreachable = on_unreachable
        self._failures = 0

    async def wait_until_connected(self) -> None:
        await self._connected.wait()

    async def wait(self) -> None:
        await self._chat.wait()
        await self._account.wait()
        await self._connected.wait()

    def hold(self, seconds: float) -> None:
        self._chat.hold(seconds)

    def record_blocked(self, why: Throttled | NotConnected) -> None:
        """Record that nothing was sent. The next attempt waits as long as the platform requested,
        or backs off."""
        if isinstance(why, Throttled):
            gate = self._account if why.whole_account else self._chat
            gate.hold(why.retry_after)
            return
        self._on_unreachable()
        if not self._connected.is_set():
            return  # `wait` returns when it is connected again
        self._chat.hold(UNREACHABLE_RETRY.wait(self._failures))
        self._failures += 1


class AccountConnectivity:
    """Owns the connected event and the rate gate of each account, and when each was last found to
    be unreachable."""

    def __init__(self, platforms: PlatformRegistry, *, clock: Clock) -> None:
        self._platforms = platforms
        self._clock = clock
        self._connected: dict[tuple[str, str], asyncio.Event] = {
            (p.name, p.account): asyncio.Event() for p in platforms
        }
        self._gates: dict[tuple[str, str], RateGate] = {}
        self._unreachable_at: dict[tuple[str, str], float] = {}
        self._lost_one = asyncio.Event()

    def mark_connected(self, platform: Platform) -> None:
        self._event_of(platform).set()

    def mark_disconnected(self, platform: Platform) -> None:
        self._event_of(platform).clear()
        self._lost_one.set()

    def _event_of(self, platform: Platform) -> asyncio.Event:
        """The connected event of an account. An account that was removed from the configuration has
        one, too: its deliveries wait until it is configured again."""
        return self._connected.setdefault((platform.name, platform.account), asyncio.Event())

    def mark_unreachable(self, address: Address) -> None:
        self._unreachable_at[address.platform, address.account] = self._clock.now()
        self._lost_one.set()

    def wait_until_one_lost(self) -> Coroutine[Any, Any, bool]:
        """Wait until an account is found to be unreachable, counted from this call on."""
        self._lost_one.clear()
        return self._lost_one.wait()

    def is_reachable(self, name: str, account: str) -> bool:
        """Whether the account is reachable, as far as is known."""
        connected = self._connected.get((name, account))
        if connected is not None and not connected.is_set():
            return False
        lost_at = self._unreachable_at.get((name, account))
        return lost_at is None or self._platforms.reachable_since(name, account, at=lost_at)

    def connected_event(self, address: Address) -> asyncio.Event:
        """The event that is set while the account of the address is connected."""
        connected = self._connected.get((address.platform, address.account))
        # No longer configured: the sender detects that and fails the delivery.
        if connected is None:
            connected = asyncio.Event()
            connected.set()
        return connected

    def rate_gate(self, address: Address) -> RateGate:
        """The rate limit of the whole account."""
        key = (address.platform, address.account)
        if key not in self._gates:
            self._gates[key] = RateGate(self._clock)
        return self._gates[key]
