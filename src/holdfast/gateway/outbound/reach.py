"""Reach: which accounts can be sent to now, and what each of them asks to wait."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Clock, Platform
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.pacing import RateGate


class AccountConnectivity:
    """Owns the line and the gate of each account, and when one was last found to be away."""

    def __init__(self, platforms: PlatformRegistry, *, clock: Clock) -> None:
        self._platforms = platforms
        self._clock = clock
        self._connected = {(p.name, p.account): asyncio.Event() for p in platforms}
        self._gates: dict[tuple[str, str], RateGate] = {}
        self._unreachable_at: dict[tuple[str, str], float] = {}
        self._lost_one = asyncio.Event()

    def mark_connected(self, platform: Platform) -> None:
        self._event_of(platform).set()

    def mark_disconnected(self, platform: Platform) -> None:
        self._event_of(platform).clear()
        self._lost_one.set()

    def _event_of(self, platform: Platform) -> asyncio.Event:
        """One that is gone keeps its own: what is owed to an account that was taken out of the
        configuration waits for somebody to put it back."""
        return self._connected.setdefault((platform.name, platform.account), asyncio.Event())

    def mark_unreachable(self, address: Address) -> None:
        """Its account could not be reached."""
        self._unreachable_at[address.platform, address.account] = self._clock.now()
        self._lost_one.set()

    def wait_until_one_lost(self) -> Coroutine[Any, Any, bool]:
        """Waits until an account is found to be away, from this very call on."""
        self._lost_one.clear()
        return self._lost_one.wait()

    def is_reachable(self, name: str, account: str) -> bool:
        """Whether the account can be reached, as far as is known."""
        line, away = self._connected.get((name, account)), self._unreachable_at.get((name, account))
        if line is not None and not line.is_set():
            return False
        return away is None or self._platforms.reachable_since(name, account, at=away)

    def connected_event(self, address: Address) -> asyncio.Event:
        """Set while its account is connected."""
        line = self._connected.get((address.platform, address.account))
        if line is None:  # it is not configured any more, which is found out on the way
            line = asyncio.Event()
            line.set()
        return line

    def rate_gate(self, address: Address) -> RateGate:
        """What the whole account asks to wait for."""
        key = (address.platform, address.account)
        if key not in self._gates:
            self._gates[key] = RateGate(self._clock)
        return self._gates[key]
