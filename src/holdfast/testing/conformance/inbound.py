"""Checks of receiving: a message comes in, is acknowledged when it is stored, and comes in once."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

from holdfast.core.errors import NotAddressed, NotAllowed, StoreError
from holdfast.core.ports.capabilities import Backlog
from holdfast.testing.conformance.assertions import (
    assert_acknowledged,
    assert_received,
    connected,
    wait_until,
)
from holdfast.testing.conformance.harness import ConformanceCheck, PlatformHarness, require
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.events import ALWAYS

_NO_BACKLOG_REASON = "it declares no backlog"


def _has_backlog(harness: PlatformHarness) -> bool:
    return harness.platform.capabilities.backlog is not Backlog.NONE


@ConformanceCheck
async def a_message_reaches_intake(harness: PlatformHarness) -> None:
    """Law 9: entering the context includes a round trip. Text that begins with a slash comes in as
    any other: it is how people answer an approval where there are no buttons."""
    intake = RecordingIntake()
    texts = ("hello", "/approve ap_0123456789abcdef session", "1 < 2 & 3 > 2, said the 🦆")
    async with connected(harness, intake):
        assert (harness.platform.name, harness.platform.account) in intake.confirmations
        for number, text in enumerate(texts, start=1):
            await harness.say(text)
            await assert_received(intake, *texts[:number])
        await assert_acknowledged(harness, len(texts))
    assert len({each.event_id for each in intake.accepted}) == len(texts)
    sources = {(each.source.platform, each.source.account) for each in intake.accepted}
    assert sources == {(harness.platform.name, harness.platform.account)}


@ConformanceCheck
async def a_message_sent_while_disconnected_reaches_intake_once(harness: PlatformHarness) -> None:
    """G1: it is still at the vendor; G2: messages received before do not come in again."""
    require(_has_backlog(harness), _NO_BACKLOG_REASON)
    intake = RecordingIntake()
    async with connected(harness, intake):
        await harness.say("before")
        await assert_received(intake, "before")
    for text in ("one", "two"):
        await harness.say(text)
    async with connected(harness, intake):
        await assert_received(intake, "before", "one", "two")
        await assert_acknowledged(harness, 3)


@ConformanceCheck
async def nothing_is_acknowledged_before_intake_has_stored_it(harness: PlatformHarness) -> None:
    """G1: commit, then acknowledge; where the vendor has no backlog, the platform buffers the
    message until the next connection. C8: a platform that is closed while a message is being stored
    leaves no task behind, and can be connected again."""
    intake, others = RecordingIntake(), asyncio.all_tasks()
    async with connected(harness, intake):
        await harness.say("before")
        await assert_received(intake, "before")
        await assert_acknowledged(harness, 1)
    intake.delay = ALWAYS
    async with connected(harness, intake):
        await harness.say("slow")
        await wait_until(lambda: "slow" in [each.text for each in intake.started])
    await assert_acknowledged(harness, 1)
    assert _platform_tasks(harness) - others == set()
    intake.delay = 0.0
    async with connected(harness, intake):
        await assert_received(intake, "before", "slow")
        await assert_acknowledged(harness, 2)


def _platform_tasks(harness: PlatformHarness) -> set[asyncio.Task[Any]]:
    """The running tasks whose code is in the platform's folder: the vendor's code is elsewhere."""
    folder = Path(inspect.getfile(type(harness.platform))).parent
    return {
        task
        for task in asyncio.all_tasks()
        if inspect.iscoroutine(running := task.get_coro())
        and Path(running.cr_code.co_filename).parent == folder
    }


@ConformanceCheck
async def a_message_that_cannot_be_stored_is_retried_in_order(harness: PlatformHarness) -> None:
    """G1: a full disk loses nothing, and later messages wait for the one that is retried."""
    intake = RecordingIntake()
    intake.fail_next(StoreError("disk full"), StoreError("disk full"))
    async with connected(harness, intake):
        for text in ("one", "two"):
            await harness.say(text)
        await assert_received(intake, "one", "two")
        await assert_acknowledged(harness, 2)
    assert [each.text for each in intake.attempted][:3] == ["one"] * 3


@ConformanceCheck
async def rejected_messages_do_not_block_later_ones(harness: PlatformHarness) -> None:
    intake = RecordingIntake()
    intake.fail_next(NotAllowed("not on the list"), NotAddressed("said to others"))
    async with connected(harness, intake):
        for text in ("let me in", "not to you", "hello"):
            await harness.say(text)
        await assert_received(intake, "hello")
        await assert_acknowledged(harness, 3)
    assert [each.text for each in intake.attempted] == ["let me in", "not to you", "hello"]


@ConformanceCheck
async def an_edit_is_another_event_about_the_same_message(harness: PlatformHarness) -> None:
    """G2: an event has an id of its own, and so has an edit."""
    intake = RecordingIntake()
    async with connected(harness, intake):
        name = await harness.say("helo")
        await assert_received(intake, "helo")
        await harness.edit(name, "hello")
        one, other = await assert_received(intake, "helo", "hello")
    assert one.message_id == other.message_id
    assert one.event_id != other.event_id
