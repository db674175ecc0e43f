"""What a send waits for: rate limits of the chat and the account, and the account's connection."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.core.errors import NotConnected, Throttled
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock
from holdfast.gateway.accounts.registry import PlatformRegistry


# MERGED holdfast.gateway.outbound.pacing: Pacing: one gate per account and chat, in front of everything that is sent there.
class RateGate:
    """Owns until when an account or chat must be left in peace."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def hold(self, seconds: float) -> None:
        """Nobody passes for so long; a hold never shortens another."""
        self._until = max(self._until, self._clock.monotonic() + seconds)

    @property
    def is_held(self) -> bool:
        return self.held_for > 0

    @property
    def held_for(self) -> float:
        """Seconds, as far as is known; a hold may grow."""
        return max(0.0, self._until - self._clock.monotonic())

    async def wait(self) -> None:
        if (wait := self.held_for) > 0:
            await asyncio.sleep(wait)
            await self.wait()  # the hold may have grown meanwhile


# MERGED holdfast.gateway.outbound.way: The way to a chat: the gates that everything sent there passes, and what is found out there.
_FIRST_WAIT, _MAX_WAIT = 1.0, 60.0


class SendGate:
    """Owns how often in a row its platform was not there."""

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
        self._connected = connected  # set while the account has a line
        self._on_unreachable = on_unreachable  # told when the account cannot be reached
        self._failures = 0

    async def wait(self) -> None:
        await self._chat.wait()
        await self._account.wait()
        await self._connected.wait()

    def hold(self, seconds: float) -> None:
        self._chat.hold(seconds)

    def record_blocked(self, why: Throttled | NotConnected) -> None:
        """Nothing was taken: the next one waits as told, or a little longer than the last."""
        if isinstance(why, Throttled):
            held = self._account if why.whole_account else self._chat
            held.hold(why.retry_after)
            return
        self._on_unreachable()
        if not self._connected.is_set():
            return  # it is waited for until it is there again
        self._chat.hold(min(_FIRST_WAIT * 2**self._failures, _MAX_WAIT))
        self._failures += 1


# MERGED holdfast.gateway.outbound.reach: Reach: which accounts can be sent to now, and what each of them asks to wait.
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
