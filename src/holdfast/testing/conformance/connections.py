"""Checks of the connection: permanent and temporary failures are distinguished, and a lost
connection is restored or reported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.core.errors import ConnectError, ConnectRefused, SendError
from holdfast.core.ports.capabilities import Backlog
from holdfast.core.ports.platform import SupportsProbing
from holdfast.testing.conformance.assertions import (
    assert_received,
    assert_shown,
    connected,
    make_outbound,
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
