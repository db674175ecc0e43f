"""One connection of an account: entered, kept open, closed; and the backoff between two of them."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Protocol

import msgspec

from holdfast.core.errors import AccountDisconnected, ConnectError
from holdfast.core.ports.platform import Intake, Platform
from holdfast.core.ports.runtime import Clock
from holdfast.gateway.accounts.registry import PlatformRegistry


# MERGED holdfast.gateway.accounts.backoff: Backing off: how long an account that fails is left in peace before it is tried again.
class BackoffSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a line, in seconds."""

    connect_timeout: float = 30.0  # that entering a door may take
    first_wait: float = 1.0  # pause after the first failure; it doubles with each
    max_wait: float = 300.0
    stable_after: float = 60.0  # a connection that held for so long counts as a success
    close_timeout: float = 5.0  # that leaving a door may take before it is cancelled


DEFAULT_BACKOFF = BackoffSettings()


class ConnectionBackoff:
    """Owns how often in a row an account has failed."""

    def __init__(self, settings: BackoffSettings, *, random: Callable[[], float]) -> None:
        """`random` gives numbers from 0 to 1: accounts that failed together, as all do when the
        network goes, are not to come back together."""
        self._settings = settings
        self._random = random
        self.failures = 0

    def next_wait(self) -> float:
        """How long to wait now that it has failed once more."""
        # Counted up to a point only: two to the power of many failures is no float any more.
        doubled: float = self._settings.first_wait * 2 ** min(self.failures, 32)
        self.failures += 1
        return min(doubled * (0.75 + self._random() / 2), self._settings.max_wait)

    def record_connection(self, seconds: float) -> None:
        """A connection has ended that had held for so long. One that breaks as soon as it stands
        is no success, and would be made every second for ever."""
        if seconds >= self._settings.stable_after:
            self.failures = 0


# MERGED holdfast.gateway.accounts.connection: A connection: one account's door entered, kept open while it lives, and left again.
class CredentialLocks(Protocol):
    """Who may connect with which credentials, among the gateways of this machine."""

    def claim(self, platform: str, account: str) -> AbstractAsyncContextManager[None]:
        """Ours while the context is open. Raises `AccountInUse`, which says whose it is."""
        ...


class NoCredentialLocks:
    """Where nobody else could want the same accounts."""

    def claim(self, platform: str, account: str) -> AbstractAsyncContextManager[None]:
        return nullcontext()


NO_CREDENTIAL_LOCKS = NoCredentialLocks()


class AccountDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What every line stands on."""

    intake: Intake
    platforms: PlatformRegistry
    credential_locks: CredentialLocks
    clock: Clock
    random: Callable[[], float]
    backoff_settings: BackoffSettings
    tasks: asyncio.TaskGroup
    on_connected: Callable[[Platform], None]  # told when an account can be sent to,
    on_disconnected: Callable[[Platform], None]  # and when it cannot any more
    redact: Callable[[str], str]  # a door may quote its credentials in what it complains of
    on_change: Callable[[], None] = lambda: None  # told when one stands otherwise than before


class AccountConnection:
    """Owns one connection of one account. What its platform enters, the same task leaves: a
    platform may hold task groups and timeouts open meanwhile, and those belong to the task that
    entered them."""

    def __init__(
        self, platform: Platform, deps: AccountDependencies, *, on_opened: Callable[[], None]
    ) -> None:
        self._platform = platform
        self._deps = deps
        self._on_opened = on_opened
        self._closing = asyncio.Event()
        self._error: ConnectError | None = None
        self._connected_at: float | None = None
        self.seconds = 0.0  # for which it held

    def fail(self, error: ConnectError) -> None:
        self._error = self._error or error
        self._closing.set()

    async def wait_ended(self) -> None:
        """Returns when there is nothing to hold any more, though its door may not have closed."""
        await self._closing.wait()

    async def run(self) -> Exception | None:
        """Why it ended; None: it was let go."""
        try:
            async with AsyncExitStack() as entered:
                await self._enter(entered)
                await self._hold()
        # A platform's edge: whatever it does stays its own trouble.
        except Exception as error:  # noqa: BLE001 - told by whoever asked for the connection
            return self._error or error
        finally:
            self._deps.on_disconnected(self._platform)
        # A door that ends its own context, without an error and unasked, has lost its line too.
        return self._error or (
            None if self._closing.is_set() else AccountDisconnected("the door closed itself")
        )

    async def end(self, task: asyncio.Task[Exception | None]) -> None:
        """Let it go, and see it gone. A door may not hear that it is cancelled, or only where it
        was: it is told again until it has left."""
        self._closing.set()
        if self._connected_at is None:
            task.cancel()  # one that is still on its way in is not waited for
        while not task.done():
            await asyncio.wait({task}, timeout=self._deps.backoff_settings.close_timeout)
            task.cancel()

    async def _enter(self, entered: AsyncExitStack) -> None:
        platform, limit = self._platform, self._deps.backoff_settings.connect_timeout
        try:
            async with asyncio.timeout(limit) as timer:
                claims = self._deps.credential_locks
                await entered.enter_async_context(claims.claim(platform.name, platform.account))
                await entered.enter_async_context(platform.connect(self._deps.intake))
        except TimeoutError:
            if not timer.expired():
                raise
            raise AccountDisconnected(f"it could not be connected within {limit:.0f} s") from None
        self._connected_at = self._deps.clock.monotonic()
        self._on_opened()
        self._deps.on_connected(platform)

    async def _hold(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    async with asyncio.timeout(self._silence_left()):
                        await self._closing.wait()
                except TimeoutError:
                    self._check_silence()
        finally:
            assert self._connected_at is not None, "only who has entered stays"
            self.seconds = self._deps.clock.monotonic() - self._connected_at
            self._deps.on_disconnected(
                self._platform
            )  # before its door closes: what is sent now waits

    def _silence_left(self) -> float | None:
        """Seconds until silence means that nobody is there; None: it never does."""
        within = self._platform.capabilities.heartbeat_interval
        if not within:
            return None
        assert self._connected_at is not None, "only who has entered listens"
        heard = self._deps.platforms.alive_at(self._platform) or 0.0
        return max(0.0, max(heard, self._connected_at) + within - self._deps.clock.monotonic())

    def _check_silence(self) -> None:
        if (left := self._silence_left()) is not None and left <= 0:
            within = self._platform.capabilities.heartbeat_interval
            self.fail(AccountDisconnected(f"nothing was heard of it for {within:.0f} s"))
