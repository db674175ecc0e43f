"""Lines: a door tells what will never work from what may go better later, and mends or tells."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.core.errors import ConnectError, ConnectRefused, SendError
from holdfast.core.ports.capabilities import Backlog
from holdfast.core.ports.protocols import Probing
from holdfast.testing.conformance.assertions import connected, heard, outbound, shown, until
from holdfast.testing.conformance.check import Check, needs
from holdfast.testing.conformance.ground import Ground, Trouble
from holdfast.testing.intake import RecordingIntake

_PAUSE = 0.05  # seconds between two tries to connect; a gateway takes a second or more


@Check
async def credentials_that_do_not_hold_are_refused_for_good(ground: Ground) -> None:
    """A bad token parks the account, and says what to do about it: trying again changes nothing.
    Once they hold again, the same door is connected."""
    await ground.trouble(Trouble.SHUT_OUT)
    with pytest.raises(ConnectRefused) as told:
        async with connected(ground, RecordingIntake()):
            pass
    assert str(told.value)
    assert told.value.remedy
    await ground.trouble(Trouble.WELL)
    async with connected(ground, RecordingIntake()):
        pass


@Check
async def who_is_away_may_be_back_later(ground: Ground) -> None:
    """What passes is no refusal: the account is tried again."""
    await ground.trouble(Trouble.AWAY)
    with pytest.raises(Exception) as told:
        async with connected(ground, RecordingIntake()):
            pass
    assert not isinstance(told.value, ConnectRefused | AssertionError)
    await ground.trouble(Trouble.WELL)
    async with connected(ground, RecordingIntake()):
        pass


@Check
async def a_line_that_breaks_is_mended_or_told(ground: Ground) -> None:
    """By itself, with `Intake.lost`, or by letting the context fail. Nothing is lost over it that
    the vendor keeps, and nothing that is said afterwards."""
    intake = RecordingIntake()
    async with _held(ground, intake):
        await ground.say("before")
        await heard(intake, "before")
        await ground.trouble(Trouble.AWAY)
        intake.proofs.clear()
        await ground.trouble(Trouble.WELL)
        if ground.door.capabilities.backlog is Backlog.NONE:
            await until(lambda: intake.proofs)
        await ground.say("after")
        await heard(intake, "before", "after")
    async with connected(ground, intake):
        await ground.door.send(outbound(ground, "still here"))
        await shown(ground, "still here")


@asynccontextmanager
async def _held(ground: Ground, intake: RecordingIntake) -> AsyncIterator[None]:
    """The door is connected for ever anew, as a gateway does it."""
    leaving = asyncio.Event()

    async def hold() -> None:
        while not leaving.is_set():  # a context that fails just then takes the cancelling with it
            try:
                async with ground.door.connect(intake):
                    await intake.wait_for_loss()
            except Exception:  # noqa: BLE001 - a door's context may fail in any way that passes
                await asyncio.sleep(_PAUSE)

    holding = asyncio.ensure_future(hold())
    try:
        yield
    finally:
        leaving.set()
        holding.cancel()
        await asyncio.wait({holding})


@Check
async def a_line_that_only_looks_whole_proves_nothing(ground: Ground) -> None:
    """Law 9: it is silence that betrays a half-open line, so a door must not prove itself what
    its vendor has not. Whoever asks it for a sign of life gets none."""
    door = ground.door
    needs(door.capabilities.alive_within, "it declares that silence means nothing")
    needs(isinstance(door, Probing), "it cannot be asked for a sign of life")
    assert isinstance(door, Probing)
    intake = RecordingIntake()
    async with connected(ground, intake):
        await ground.trouble(Trouble.SILENT)
        intake.proofs.clear()
        with pytest.raises((ConnectError, SendError)):
            await door.probe()
        assert intake.proofs == []
        await ground.trouble(Trouble.WELL)
