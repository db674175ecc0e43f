"""Hearing: what people say comes in, is acknowledged when it is kept, and comes in once."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

from holdfast.core.errors import NotAllowed, NotMeant, StoreError
from holdfast.core.ports.capabilities import Backlog
from holdfast.testing.conformance.assertions import connected, heard, settled, until
from holdfast.testing.conformance.check import Check, needs
from holdfast.testing.conformance.ground import Ground
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.events import ALWAYS

_NO_BACKLOG = "it declares that nothing is kept for who is away"


def _keeps(ground: Ground) -> bool:
    return ground.door.capabilities.backlog is not Backlog.NONE


@Check
async def what_is_said_is_handed_over(ground: Ground) -> None:
    """Law 9: entering the context was a round trip. A word with a slash is as good as any other:
    it is how people decide where there are no buttons."""
    intake = RecordingIntake()
    words = ("hello", "/approve ap_0123456789abcdef session", "1 < 2 & 3 > 2, said the 🦆")
    async with connected(ground, intake):
        assert (ground.door.name, ground.door.account) in intake.proofs
        for number, text in enumerate(words, start=1):
            await ground.say(text)
            await heard(intake, *words[:number])
        await settled(ground, len(words))
    assert len({each.event_id for each in intake.accepted}) == len(words)
    sources = {(each.source.platform, each.source.account) for each in intake.accepted}
    assert sources == {(ground.door.name, ground.door.account)}


@Check
async def what_was_said_while_nobody_listened_is_handed_over_once(ground: Ground) -> None:
    """G1: it is still at the platform; G2: what was heard before does not come in again as
    something else."""
    needs(_keeps(ground), _NO_BACKLOG)
    intake = RecordingIntake()
    async with connected(ground, intake):
        await ground.say("before")
        await heard(intake, "before")
    for text in ("one", "two"):
        await ground.say(text)
    async with connected(ground, intake):
        await heard(intake, "before", "one", "two")
        await settled(ground, 3)


@Check
async def nothing_is_acknowledged_before_intake_has_it(ground: Ground) -> None:
    """G1: commit, then acknowledge; where the vendor keeps nothing, the door holds it until its
    next line. C8: who leaves while it is being kept leaves no task behind, and the same door is
    connected again."""
    intake, others = RecordingIntake(), asyncio.all_tasks()
    async with connected(ground, intake):
        await ground.say("before")
        await heard(intake, "before")
        await settled(ground, 1)
    intake.delay = ALWAYS
    async with connected(ground, intake):
        await ground.say("slow")
        await until(lambda: "slow" in [each.text for each in intake.coming])
    await settled(ground, 1)
    assert _tasks_of(ground) - others == set()
    intake.delay = 0.0
    async with connected(ground, intake):
        await heard(intake, "before", "slow")
        await settled(ground, 2)


def _tasks_of(ground: Ground) -> set[asyncio.Task[Any]]:
    """What runs of the code that lies beside the door's: the vendor's own is elsewhere."""
    folder = Path(inspect.getfile(type(ground.door))).parent
    return {
        task
        for task in asyncio.all_tasks()
        if inspect.iscoroutine(running := task.get_coro())
        and Path(running.cr_code.co_filename).parent == folder
    }


@Check
async def what_cannot_be_kept_now_comes_again_and_in_order(ground: Ground) -> None:
    """G1: a full disk loses nothing, and nothing overtakes what waits for it."""
    intake = RecordingIntake()
    intake.fail_next(StoreError("disk full"), StoreError("disk full"))
    async with connected(ground, intake):
        for text in ("one", "two"):
            await ground.say(text)
        await heard(intake, "one", "two")
        await settled(ground, 2)
    assert [each.text for each in intake.tried][:3] == ["one"] * 3


@Check
async def who_may_not_and_what_is_not_meant_hold_up_nobody(ground: Ground) -> None:
    intake = RecordingIntake()
    intake.fail_next(NotAllowed("not on the list"), NotMeant("said to others"))
    async with connected(ground, intake):
        for text in ("let me in", "not to you", "hello"):
            await ground.say(text)
        await heard(intake, "hello")
        await settled(ground, 3)
    assert [each.text for each in intake.tried] == ["let me in", "not to you", "hello"]


@Check
async def an_edit_is_another_event_about_the_same_message(ground: Ground) -> None:
    """G2: an event has an id of its own, and so has an edit."""
    intake = RecordingIntake()
    async with connected(ground, intake):
        name = await ground.say("helo")
        await heard(intake, "helo")
        await ground.revise(name, "hello")
        one, other = await heard(intake, "helo", "hello")
    assert one.message_id == other.message_id
    assert one.event_id != other.event_id
