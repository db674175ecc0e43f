"""Checks of the connection: permanent and temporary failures are distinguished, and a lost
connection is restored or reported."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from holdfast.core.errors import ConnectError, ConnectRefused, SendError
from holdfast.core.ops.account import AccountState
from holdfast.core.ports.capabilities import Backlog
from holdfast.core.ports.platform import Platform, SupportsProbing
from holdfast.core.retry import RetryPolicy
from holdfast.gateway.accounts.connection import (
    AccountConnection,
    BackoffSettings,
    ConnectionPolicy,
)
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.accounts.supervisor import AccountSupervisor
from holdfast.system.clock import SystemClock
from holdfast.testing.conformance.assertions import (
    TIMEOUT,
    assert_received,
    assert_shown,
    connected,
    make_outbound,
    unwrap_group,
    wait_until,
)
from holdfast.testing.conformance.harness import (
    ConformanceCheck,
    PlatformHarness,
    VendorFault,
    require,
)
from holdfast.testing.intake import RecordingIntake

_RECONNECT_DELAY = 0.05  # seconds between two attempts; a gateway waits a second or more
_MAX_REQUESTS = 20  # of one attempt to connect


@ConformanceCheck
async def bad_credentials_are_refused_permanently(harness: PlatformHarness) -> None:
    """A bad token parks the account, with a remedy: a retry would change nothing. Once the
    credentials are valid again, the same platform can be connected."""
    await harness.set_fault(VendorFault.BAD_CREDENTIALS)
    with pytest.raises(ConnectRefused) as raised:
        async with connected(harness, RecordingIntake()):
            pass
    assert str(raised.value)
    assert raised.value.remedy
    await harness.set_fault(VendorFault.NONE)
    async with connected(harness, RecordingIntake()):
        pass


@ConformanceCheck
async def bad_credentials_block_the_account_with_a_remedy(harness: PlatformHarness) -> None:
    """In a gateway, which ends a connection as soon as the platform reports that it is lost. The
    account connects again when it is resumed with valid credentials."""
    await harness.set_fault(VendorFault.BAD_CREDENTIALS)
    async with _account(harness) as (account, states):
        await account.wait_until_known()
        assert states[-1] is AccountState.BLOCKED, f"it went through {states}"
        assert account.status.why
        assert account.status.remedy
        await harness.set_fault(VendorFault.NONE)
        await account.try_now()
        assert account.status.state is AccountState.CONNECTED, account.status.why


@ConformanceCheck
async def a_refusal_in_any_phase_of_connecting_blocks_the_account(harness: PlatformHarness) -> None:
    """The credentials become invalid before the first request, before the second, and so on, until
    a connection needs no more requests."""
    for requests in range(_MAX_REQUESTS):
        await harness.revoke_after(requests)
        async with _account(harness) as (account, states):
            await account.wait_until_known()
            if account.status.state is AccountState.CONNECTED and not await harness.revoked():
                return
            await wait_until(lambda: states[-1] is AccountState.BLOCKED)
            assert AccountState.RETRYING not in states, f"after {requests} requests: {states}"
            assert account.status.remedy
        await harness.set_fault(VendorFault.NONE)
    raise AssertionError(f"connecting takes more than {_MAX_REQUESTS} requests")


class _AccountIntake(RecordingIntake):
    """An intake that passes on what a platform reports about its connection."""

    def __init__(self, registry: PlatformRegistry) -> None:
        super().__init__()
        self._registry = registry

    def report_alive(self, platform: str, account: str) -> None:
        super().report_alive(platform, account)
        self._registry.mark_alive(platform, account)

    def report_lost(self, platform: str, account: str, error: ConnectError) -> None:
        super().report_lost(platform, account, error)
        self._registry.report_lost(platform, account, error)


class _NoDeliveries:
    """A gateway without deliveries."""

    def account_connected(self, platform: Platform) -> None: ...
    def account_disconnected(self, platform: Platform) -> None: ...


@asynccontextmanager
async def _account(
    harness: PlatformHarness,
) -> AsyncIterator[tuple[AccountSupervisor, list[AccountState]]]:
    """The account of the platform, supervised as in a gateway, and the states that it has been
    in."""
    platform, clock, states = harness.platform, SystemClock(), [AccountState.NEW]
    registry = PlatformRegistry(
        [platform],
        clock=clock,
        on_change=lambda: states.append(registry.status_of(platform).state),
    )
    retry = RetryPolicy(first=_RECONNECT_DELAY, factor=1.0, longest=_RECONNECT_DELAY)
    policy = ConnectionPolicy(backoff=BackoffSettings(retry=retry))

    def new_connection(platform: Platform, *, on_opened: Callable[[], None]) -> AccountConnection:
        return AccountConnection(
            platform,
            on_opened=on_opened,
            intake=_AccountIntake(registry),
            platforms=registry,
            outbox=_NoDeliveries(),
            policy=policy,
            clock=clock,
        )

    try:
        async with asyncio.TaskGroup() as tasks:
            account = AccountSupervisor(
                platform,
                paused=False,
                platforms=registry,
                policy=policy,
                clock=clock,
                tasks=tasks,
                redact=str,
                new_connection=new_connection,
            )
            tasks.create_task(account.run())
            try:
                async with asyncio.timeout(TIMEOUT):
                    yield account, states
            finally:
                account.close()
    except BaseExceptionGroup as group:
        raise unwrap_group(group) from None


@ConformanceCheck
async def an_unreachable_vendor_is_not_a_permanent_refusal(harness: PlatformHarness) -> None:
    """A temporary failure is no refusal: the gateway retries the account."""
    await harness.set_fault(VendorFault.UNREACHABLE)
    with pytest.raises(Exception) as raised:
        async with connected(harness, RecordingIntake()):
            pass
    assert not isinstance(raised.value, ConnectRefused | AssertionError)
    await harness.set_fault(VendorFault.NONE)
    async with connected(harness, RecordingIntake()):
        pass


@ConformanceCheck
async def a_broken_connection_is_restored_or_reported(harness: PlatformHarness) -> None:
    """By the platform itself, with `Intake.report_lost`, or by letting the context fail. Messages
    in the vendor's backlog and later messages are not lost."""
    intake = RecordingIntake()
    async with _connected(harness, intake):
        await harness.say("before")
        await assert_received(intake, "before")
        await harness.set_fault(VendorFault.UNREACHABLE)
        intake.confirmations.clear()
        await harness.set_fault(VendorFault.NONE)
        if harness.platform.capabilities.backlog is Backlog.NONE:
            await wait_until(lambda: intake.confirmations)
        await harness.say("after")
        await assert_received(intake, "before", "after")
    async with connected(harness, intake):
        await harness.platform.send(make_outbound(harness, "still here"))
        await assert_shown(harness, "still here")


@asynccontextmanager
async def _connected(harness: PlatformHarness, intake: RecordingIntake) -> AsyncIterator[None]:
    """Connects the platform again whenever it disconnects, as a gateway does."""
    closing = asyncio.Event()

    async def reconnect() -> None:
        while not closing.is_set():  # a context that fails just then swallows the cancellation
            try:
                async with harness.platform.connect(intake):
                    await intake.wait_for_disconnect()
            except Exception:  # noqa: BLE001 - a context may fail in any way
                await asyncio.sleep(_RECONNECT_DELAY)

    task = asyncio.ensure_future(reconnect())
    try:
        yield
    finally:
        closing.set()
        task.cancel()
        await asyncio.wait({task})


@ConformanceCheck
async def a_half_open_connection_is_not_reported_as_alive(harness: PlatformHarness) -> None:
    """Law 9: a half-open connection is recognised by silence, so a platform must not report itself
    alive unless the vendor has answered. A probe fails."""
    platform = harness.platform
    require(platform.capabilities.heartbeat_interval, "it declares no heartbeat")
    require(isinstance(platform, SupportsProbing), "there is no probe in this platform")
    assert isinstance(platform, SupportsProbing)
    intake = RecordingIntake()
    async with connected(harness, intake):
        await harness.set_fault(VendorFault.HALF_OPEN)
        intake.confirmations.clear()
        with pytest.raises((ConnectError, SendError)):
            await platform.probe()
        assert intake.confirmations == []
        await harness.set_fault(VendorFault.NONE)
