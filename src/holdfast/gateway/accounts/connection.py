"""One connection of an account (opened, held, closed), and the backoff between two of them."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from random import random
from typing import Protocol

import msgspec

from holdfast.core.errors import AccountDisconnected, ConnectError, ConnectRefused
from holdfast.core.ports.platform import Intake, Platform
from holdfast.core.ports.runtime import Clock
from holdfast.core.retry import CONNECTION_RETRY, RetryPolicy
from holdfast.gateway.accounts.registry import PlatformRegistry


class BackoffSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The timing of an account's connection, in seconds."""

    connect_timeout: float = 30.0
    retry: RetryPolicy = CONNECTION_RETRY
    # A connection that lasted this long counts as a success without a reported round trip.
    stable_after: float = 10.0
    close_timeout: float = 5.0  # until closing is cancelled


class ConnectionBackoff:
    """Owns how often in a row an account has failed to connect."""

    def __init__(self, settings: BackoffSettings, *, random: Callable[[], float]) -> None:
        """`random` returns numbers from 0 to 1: accounts that failed together, for example because
        the network is down, must not reconnect together."""
        self._settings = settings
        self._random = random
        self.failures = 0

    def next_wait(self) -> float:
        """The seconds to wait after one more failure."""
        wait = self._settings.retry.wait(self.failures, jitter=0.75 + self._random() / 2)
        self.failures += 1
        return wait

    def record_connection(self, seconds: float, *, proven: bool) -> None:
        """Record that a connection has ended that lasted `seconds`. A proven one has made a round
        trip after it was opened. One that breaks as soon as it is open, without a round trip, does
        not count as a success; otherwise it would be reopened every second."""
        if proven or seconds >= self._settings.stable_after:
            self.failures = 0


class CredentialLocks(Protocol):
    """Decides which gateway on this machine may connect with which credentials."""

    def claim(self, platform: str, account: str) -> AbstractAsyncContextManager[None]:
        """Lock the credentials while the context is open. Raises `AccountInUse`, which names the
        holder."""
        ...


class NoCredentialLocks:
    """For tests and single gateways: every account is free."""

    def claim(self, platform: str, account: str) -> AbstractAsyncContextManager[None]:
        return nullcontext()


NO_CREDENTIAL_LOCKS = NoCredentialLocks()


class ConnectionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which credentials accounts may connect with, and how often they try."""

    credential_locks: CredentialLocks = NO_CREDENTIAL_LOCKS
    backoff: BackoffSettings = BackoffSettings()
    random: Callable[[], float] = random  # returns a number from 0 to 1


DEFAULT_CONNECTION_POLICY = ConnectionPolicy()


class DeliveryQueue(Protocol):
    """Holds the deliveries to an account that is not connected."""

    def account_connected(self, platform: Platform) -> None: ...
    def account_disconnected(self, platform: Platform) -> None: ...


class AccountConnection:
    """Owns one connection of one account. The task that enters a platform's context also leaves it:
    a platform may hold task groups and timeouts, and those belong to the task that entered them."""

    def __init__(
        self,
        platform: Platform,
        *,
        on_opened: Callable[[], None],
        intake: Intake,
        platforms: PlatformRegistry,
        outbox: DeliveryQueue,
        policy: ConnectionPolicy,
        clock: Clock,
    ) -> None:
        self._platform = platform
        self._on_opened = on_opened
        self._intake = intake
        self._platforms = platforms
        self._outbox = outbox
        self._policy = policy
        self._clock = clock
        self._closing = asyncio.Event()
        self.error: ConnectError | None = None  # as reported by the platform, or by silence
        self._connected_at: float | None = None
        self.seconds = 0.0  # how long it was open

    @property
    def proven(self) -> bool:
        """Whether the platform has reported a round trip after the connection was opened."""
        alive_at = self._platforms.alive_at(self._platform)
        opened_at = self._connected_at
        return alive_at is not None and opened_at is not None and alive_at >= opened_at

    def fail(self, error: ConnectError) -> None:
        """End the connection. The first error counts, unless a later one is a refusal, which no
        retry can fix."""
        if self.error is None or isinstance(error, ConnectRefused):
            self.error = error
        self._closing.set()

    async def wait_ended(self) -> None:
        """Return when the connection has ended, even if its platform is still closing."""
        await self._closing.wait()

    async def run(self) -> Exception | None:
        """Run the connection. Returns why it ended; None if it was closed on request."""
        try:
            async with AsyncExitStack() as entered:
                await self._enter(entered)
                await self._hold()
        # The boundary of a platform: its failure affects no other account, and the supervisor logs
        # it.
        except Exception as error:  # noqa: BLE001 - returned to the supervisor
            if self.error is None:
                return error
            return ExceptionGroup("the connection was lost", [self.error, error])
        finally:
            self._outbox.account_disconnected(self._platform)
        # A platform that ends its context without an error and without a request is disconnected,
        # too.
        return self.error or (
            None
            if self._closing.is_set()
            else AccountDisconnected("the platform closed its connection")
        )

    async def end(self, task: asyncio.Task[Exception | None]) -> None:
        """Close the connection, and wait until it is closed. A platform may swallow a cancellation,
        so it is cancelled repeatedly until it has ended."""
        self._closing.set()
        if self._connected_at is None:
            task.cancel()  # one that is still connecting is not waited for
        while not task.done():
            await asyncio.wait({task}, timeout=self._policy.backoff.close_timeout)
            task.cancel()

    async def _enter(self, entered: AsyncExitStack) -> None:
        platform, limit = self._platform, self._policy.backoff.connect_timeout
        try:
            async with asyncio.timeout(limit) as timer:
                lock = self._policy.credential_locks.claim(platform.name, platform.account)
                await entered.enter_async_context(lock)
                await entered.enter_async_context(platform.connect(self._intake))
        except TimeoutError:
            if not timer.expired():
                raise
            raise AccountDisconnected("no connection within {limit:.0f} s", limit=limit) from None
        self._connected_at = self._clock.monotonic()
        self._on_opened()
        self._outbox.account_connected(platform)

    async def _hold(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    async with asyncio.timeout(self._silence_left()):
                        await self._closing.wait()
                except TimeoutError:
                    self._check_silence()
        finally:
            assert self._connected_at is not None, "held only after it was opened"
            self.seconds = self._clock.monotonic() - self._connected_at
            # Before the platform closes, so that further deliveries wait.
            self._outbox.account_disconnected(self._platform)

    def _silence_left(self) -> float | None:
        """Seconds of silence left until the account counts as disconnected; None if there is no
        limit."""
        within = self._platform.capabilities.heartbeat_interval
        if not within:
            return None
        assert self._connected_at is not None, "held only after it was opened"
        alive_at = self._platforms.alive_at(self._platform) or 0.0
        return max(0.0, max(alive_at, self._connected_at) + within - self._clock.monotonic())

    def _check_silence(self) -> None:
        if (left := self._silence_left()) is not None and left <= 0:
            within = self._platform.capabilities.heartbeat_interval
            self.fail(AccountDisconnected("no sign of life for {within:.0f} s", within=within))
