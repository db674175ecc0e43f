"""A connection: one account's door entered, kept open while it lives, and left again."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Protocol

import msgspec

from holdfast.core.errors import ConnectError, LineLost
from holdfast.core.ports.protocols import Clock, Intake, Platform
from holdfast.gateway.accounts.backoff import Patience
from holdfast.gateway.accounts.registry import Doors


class Claims(Protocol):
    """Who may connect with which credentials, among the gateways of this machine."""

    def claim(self, platform: str, account: str) -> AbstractAsyncContextManager[None]:
        """Ours while the context is open. Raises `AccountHeld`, which says whose it is."""
        ...


class NoClaims:
    """Where nobody else could want the same accounts."""

    def claim(self, platform: str, account: str) -> AbstractAsyncContextManager[None]:
        return nullcontext()


NO_CLAIMS = NoClaims()


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What every line stands on."""

    intake: Intake
    doors: Doors
    claims: Claims
    clock: Clock
    random: Callable[[], float]
    patience: Patience
    tasks: asyncio.TaskGroup
    opened: Callable[[Platform], None]  # told when an account can be sent to,
    gone: Callable[[Platform], None]  # and when it cannot any more
    redact: Callable[[str], str]  # a door may quote its credentials in what it complains of
    stirred: Callable[[], None] = lambda: None  # told when one stands otherwise than before


class Connection:
    """Owns one connection of one account. What its platform enters, the same task leaves: a
    platform may hold task groups and timeouts open meanwhile, and those belong to the task that
    entered them."""

    def __init__(self, platform: Platform, ground: Ground, *, opened: Callable[[], None]) -> None:
        self._platform = platform
        self._ground = ground
        self._opened = opened
        self._leave = asyncio.Event()
        self._error: ConnectError | None = None
        self._since: float | None = None
        self.seconds = 0.0  # for which it held

    def lost(self, error: ConnectError) -> None:
        self._error = self._error or error
        self._leave.set()

    async def over(self) -> None:
        """Returns when there is nothing to hold any more, though its door may not have closed."""
        await self._leave.wait()

    async def run(self) -> Exception | None:
        """Why it ended; None: it was let go."""
        try:
            async with AsyncExitStack() as entered:
                await self._enter(entered)
                await self._stay()
        # A platform's edge: whatever it does stays its own trouble.
        except Exception as error:  # noqa: BLE001 - told by whoever asked for the connection
            return self._error or error
        finally:
            self._ground.gone(self._platform)
        # A door that ends its own context, without an error and unasked, has lost its line too.
        return self._error or (None if self._leave.is_set() else LineLost("the door closed itself"))

    async def end(self, holding: asyncio.Task[Exception | None]) -> None:
        """Let it go, and see it gone. A door may not hear that it is cancelled, or only where it
        was: it is told again until it has left."""
        self._leave.set()
        if self._since is None:
            holding.cancel()  # one that is still on its way in is not waited for
        while not holding.done():
            await asyncio.wait({holding}, timeout=self._ground.patience.close)
            holding.cancel()

    async def _enter(self, entered: AsyncExitStack) -> None:
        platform, limit = self._platform, self._ground.patience.connect
        try:
            async with asyncio.timeout(limit) as timer:
                claims = self._ground.claims
                await entered.enter_async_context(claims.claim(platform.name, platform.account))
                await entered.enter_async_context(platform.connect(self._ground.intake))
        except TimeoutError:
            if not timer.expired():
                raise
            raise LineLost(f"it could not be connected within {limit:.0f} s") from None
        self._since = self._ground.clock.monotonic()
        self._opened()
        self._ground.opened(platform)

    async def _stay(self) -> None:
        try:
            while not self._leave.is_set():
                try:
                    async with asyncio.timeout(self._silence_left()):
                        await self._leave.wait()
                except TimeoutError:
                    self._notice_silence()
        finally:
            assert self._since is not None, "only who has entered stays"
            self.seconds = self._ground.clock.monotonic() - self._since
            self._ground.gone(self._platform)  # before its door closes: what is sent now waits

    def _silence_left(self) -> float | None:
        """Seconds until silence means that nobody is there; None: it never does."""
        within = self._platform.capabilities.alive_within
        if not within:
            return None
        assert self._since is not None, "only who has entered listens"
        heard = self._ground.doors.alive_at(self._platform) or 0.0
        return max(0.0, max(heard, self._since) + within - self._ground.clock.monotonic())

    def _notice_silence(self) -> None:
        if (left := self._silence_left()) is not None and left <= 0:
            within = self._platform.capabilities.alive_within
            self.lost(LineLost(f"nothing was heard of it for {within:.0f} s"))
