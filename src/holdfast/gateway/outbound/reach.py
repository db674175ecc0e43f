"""Reach: which accounts can be sent to now, and what each of them asks to wait."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Clock, Platform
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.outbound.pacing import Gate


class Reach:
    """Owns the line and the gate of each account, and when one was last found to be away."""

    def __init__(self, doors: Doors, *, clock: Clock) -> None:
        self._doors = doors
        self._clock = clock
        self._lines = {(p.name, p.account): asyncio.Event() for p in doors}
        self._gates: dict[tuple[str, str], Gate] = {}
        self._away: dict[tuple[str, str], float] = {}
        self._one_less = asyncio.Event()

    def connected(self, platform: Platform) -> None:
        self._line(platform).set()

    def gone(self, platform: Platform) -> None:
        self._line(platform).clear()
        self._one_less.set()

    def _line(self, platform: Platform) -> asyncio.Event:
        """One that is gone keeps its own: what is owed to an account that was taken out of the
        configuration waits for somebody to put it back."""
        return self._lines.setdefault((platform.name, platform.account), asyncio.Event())

    def lost(self, address: Address) -> None:
        """Its account could not be reached."""
        self._away[address.platform, address.account] = self._clock.now()
        self._one_less.set()

    def one_less(self) -> Coroutine[Any, Any, bool]:
        """Waits until an account is found to be away, from this very call on."""
        self._one_less.clear()
        return self._one_less.wait()

    def has(self, name: str, account: str) -> bool:
        """Whether the account can be reached, as far as is known."""
        line, away = self._lines.get((name, account)), self._away.get((name, account))
        if line is not None and not line.is_set():
            return False
        return away is None or self._doors.proven_since(name, account, at=away)

    def line(self, address: Address) -> asyncio.Event:
        """Set while its account is connected."""
        line = self._lines.get((address.platform, address.account))
        if line is None:  # it is not configured any more, which is found out on the way
            line = asyncio.Event()
            line.set()
        return line

    def gate(self, address: Address) -> Gate:
        """What the whole account asks to wait for."""
        key = (address.platform, address.account)
        if key not in self._gates:
            self._gates[key] = Gate(self._clock)
        return self._gates[key]
