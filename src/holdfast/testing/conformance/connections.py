"""Checks of the connection: a platform tells permanent failures from passing ones, and reconnects or reports the loss."""

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

_RECONNECT_DELAY = 0.05  # seconds between two tries to connect; a gateway takes a second or more


@ConformanceCheck
async def bad_credentials_are_refused_permanently(harness: PlatformHarness) -> None:
    """A bad token parks the account, and says what to do about it: trying again changes nothing.
    Once they hold again, the same door is connected."""
    await harness.set_fault(VendorFault.BAD_CREDENTIALS)
    with pytest.raises(ConnectRefused) as told:
        async with connected(harness, RecordingIntake()):
            pass
    assert str(told.value)
    assert told.value.remedy
    await harness.set_fault(VendorFault.NONE)
    async with connected(harness, RecordingIntake()):
        pass


@ConformanceCheck
async def an_unreachable_vendor_is_not_a_permanent_refusal(harness: PlatformHarness) -> None:
    """What passes is no refusal: the account is tried again."""
    await harness.set_fault(VendorFault.UNREACHABLE)
    with pytest.raises(Exception) as told:
        async with connected(harness, RecordingIntake()):
            pass
    assert not isinstance(told.value, ConnectRefused | AssertionError)
    await harness.set_fault(VendorFault.NONE)
    async with connected(harness, RecordingIntake()):
        pass


@ConformanceCheck
async def a_broken_connection_is_restored_or_reported(harness: PlatformHarness) -> None:
    """By itself, with `Intake.lost`, or by letting the context fail. Nothing is lost over it that
    the vendor keeps, and nothing that is said afterwards."""
    intake = RecordingIntake()
    async with _kept_connected(harness, intake):
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
async def _kept_connected(harness: PlatformHarness, intake: RecordingIntake) -> AsyncIterator[None]:
    """The door is connected for ever anew, as a gateway does it."""
    leaving = asyncio.Event()

    async def hold() -> None:
        while not leaving.is_set():  # a context that fails just then takes the cancelling with it
            try:
                async with harness.platform.connect(intake):
                    await intake.wait_for_disconnect()
            except Exception:  # noqa: BLE001 - a door's context may fail in any way that passes
                await asyncio.sleep(_RECONNECT_DELAY)

    holding = asyncio.ensure_future(hold())
    try:
        yield
    finally:
        leaving.set()
        holding.cancel()
        await asyncio.wait({holding})


@ConformanceCheck
async def a_half_open_connection_is_not_reported_as_alive(harness: PlatformHarness) -> None:
    """Law 9: it is silence that betrays a half-open line, so a door must not prove itself what
    its vendor has not. Whoever asks it for a sign of life gets none."""
    door = harness.platform
    require(door.capabilities.heartbeat_interval, "it declares that silence means nothing")
    require(isinstance(door, SupportsProbing), "it cannot be asked for a sign of life")
    assert isinstance(door, SupportsProbing)
    intake = RecordingIntake()
    async with connected(harness, intake):
        await harness.set_fault(VendorFault.HALF_OPEN)
        intake.confirmations.clear()
        with pytest.raises((ConnectError, SendError)):
            await door.probe()
        assert intake.confirmations == []
        await harness.set_fault(VendorFault.NONE)
