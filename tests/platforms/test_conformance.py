"""What every platform promises, whatever its vendor: one suite over all doors and their vendors."""

from collections.abc import AsyncIterator

import pytest
from tests.platforms.grounds import GROUNDS, Ground, Trouble, until

from holdfast.core.capabilities import LengthUnit
from holdfast.core.errors import (
    ConnectRefused,
    NotAllowed,
    NotConnected,
    NotMeant,
    OutcomeUnknown,
    Refused,
    StoreError,
    Throttled,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.outbox import Change, Choice, Outbound
from holdfast.core.ports import Editing, ShowsTyping
from holdfast.platforms.simulated.recorder import RecordingIntake
from holdfast.platforms.simulated.wire import ALWAYS

# What makes trouble in one format or another, as an agent may write it at any time.
NASTY = (
    "plain",
    "**bold** and _italic_ and `code` and ~~gone~~",
    "unclosed **bold and `code and [link](https://example.org",
    "```python\nprint('unclosed')",
    "<b>html</b> & <script>alert(1)</script>",
    "1. one\n2. two\n   - three\n\n> quoted\n> > twice",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "🦆👨‍👩‍👧 **🦆** [🦆](https://example.org/🦆)",
    "# heading\n\n---\n\n* * *",
    "[](https://example.org) ![alt](x.png) <https://example.org>",
    "\\*not bold\\* \\_ \\` @everyone #tag /command",
    "a\u200bb\u202ec\tend  ",
)


@pytest.fixture(params=GROUNDS)
async def ground(request: pytest.FixtureRequest) -> AsyncIterator[Ground]:
    async with GROUNDS[request.param]() as made:
        yield made


def outbound(
    ground: Ground, text: str, *, maybe_repeated: bool = False, delivery: str = "d1"
) -> Outbound:
    return Outbound(
        delivery_id=DeliveryId(delivery),
        address=ground.address(),
        text=text,
        maybe_repeated=maybe_repeated,
    )


async def test_what_was_said_while_nobody_listened_is_handed_over_and_then_acknowledged(
    ground: Ground,
) -> None:
    """G1: it is still at the platform; and entering the context was a round trip (law 9)."""
    intake = RecordingIntake()
    ids = [ground.say("one"), ground.say("two", bob=True)]
    async with ground.door.connect(intake):
        assert (ground.door.name, ground.door.account) in intake.proofs
        await until(lambda: ground.acked() == 2)
    assert [(each.text, each.message_id) for each in intake.accepted] == [
        ("one", ids[0]),
        ("two", ids[1]),
    ]
    assert len({each.source.user_id for each in intake.accepted}) == 2


async def test_nothing_is_acknowledged_before_intake_has_it(ground: Ground) -> None:
    """G1: commit, then acknowledge; C8: the same door is connected again."""
    slow, quick = RecordingIntake(delay=ALWAYS), RecordingIntake()
    async with ground.door.connect(slow):
        ground.say("slow")
        await until(lambda: slow.proofs)
    assert ground.acked() == 0
    async with ground.door.connect(quick):
        await until(lambda: ground.acked() == 1)
    assert [each.text for each in quick.accepted] == ["slow"]


async def test_what_cannot_be_kept_now_comes_again_and_in_order(ground: Ground) -> None:
    intake = RecordingIntake()
    intake.fail_next(StoreError("disk full"), StoreError("disk full"))
    ground.say("one")
    ground.say("two")
    async with ground.door.connect(intake):
        await until(lambda: ground.acked() == 2)
    assert [each.text for each in intake.accepted] == ["one", "two"]
    assert [each.text for each in intake.tried][:3] == ["one"] * 3


async def test_who_may_not_and_what_is_not_meant_hold_up_nobody(ground: Ground) -> None:
    intake = RecordingIntake()
    intake.fail_next(NotAllowed("not on the list"), NotMeant("said to others"))
    for text in ("let me in", "not to you", "hello"):
        ground.say(text)
    async with ground.door.connect(intake):
        await until(lambda: ground.acked() == 3)
    assert [each.text for each in intake.accepted] == ["hello"]


async def test_an_edit_is_another_event_about_the_same_message(ground: Ground) -> None:
    """G2: an event has an id of its own, and so has an edit."""
    intake = RecordingIntake()
    async with ground.door.connect(intake):
        name = ground.say("helo")
        await intake.wait_for_tries(1)
        ground.revise(name, "hello")
        one, other = (await intake.wait_for_tries(2))[:2]
    assert (one.text, other.text) == ("helo", "hello")
    assert one.message_id == other.message_id == name
    assert one.event_id != other.event_id


async def test_a_message_is_sent_and_its_receipt_can_be_edited(ground: Ground) -> None:
    """I2: edits are idempotent."""
    async with ground.door.connect(RecordingIntake()):
        receipt = await ground.door.send(outbound(ground, "Hel"))
        assert ground.texts() == ["Hel"]
        door = ground.door
        if door.capabilities.edit:
            assert isinstance(door, Editing)
            for text in ("Hello", "Hello"):
                change = Change(
                    delivery_id=DeliveryId("d1"),
                    address=ground.address(),
                    platform_message_id=receipt.platform_message_id,
                    text=text,
                )
                await door.edit(change)
            assert ground.texts() == ["Hello"]
        if door.capabilities.typing:
            assert isinstance(door, ShowsTyping)
            await door.typing(ground.address())


async def test_a_flood_says_how_long_to_wait_and_nothing_was_taken(ground: Ground) -> None:
    """I2: 429 → wait as told."""
    async with ground.door.connect(RecordingIntake()):
        ground.trouble(Trouble.FLOOD)
        with pytest.raises(Throttled) as told:
            await ground.door.send(outbound(ground, "hello"))
    assert told.value.retry_after == 7
    assert ground.texts() == []


async def test_what_is_refused_for_good_says_so(ground: Ground) -> None:
    """I2: another 4xx → failed."""
    async with ground.door.connect(RecordingIntake()):
        ground.trouble(Trouble.REFUSED)
        with pytest.raises(Refused):
            await ground.door.send(outbound(ground, "hello"))
    assert ground.texts() == []


async def test_a_lost_receipt_leaves_it_open_whether_it_has_arrived(ground: Ground) -> None:
    """I2: a reset after the body was written → unknown; sent again, it can say so, unless it is
    known by its id: then it is there once."""
    async with ground.door.connect(RecordingIntake()):
        ground.trouble(Trouble.RECEIPT_LOST)
        with pytest.raises(OutcomeUnknown):
            await ground.door.send(outbound(ground, "hello"))
        await ground.door.send(outbound(ground, "hello", maybe_repeated=True))
    assert len(ground.texts()) == (1 if ground.door.capabilities.idempotent_send else 2)


async def test_a_door_without_a_line_sends_nothing(ground: Ground) -> None:
    """I2: connect failure → still pending. (A vendor in this process is never without.)"""
    if type(ground.door).__name__ == "SimulatedPlatform":
        return
    async with ground.door.connect(RecordingIntake()):
        pass
    with pytest.raises(NotConnected):
        await ground.door.send(outbound(ground, "hello"))
    assert ground.texts() == []


async def test_credentials_that_do_not_hold_are_refused_for_good(ground: Ground) -> None:
    """A bad token parks the account: trying again changes nothing."""
    ground.shut_out()
    with pytest.raises(ConnectRefused):
        async with ground.door.connect(RecordingIntake()):
            pass


async def test_a_message_of_the_greatest_length_is_taken_also_when_it_is_marked(
    ground: Ground,
) -> None:
    """Chunking: what the door declares is what its vendor takes, in its own units."""
    async with ground.door.connect(RecordingIntake()):
        most, unit = ground.door.capabilities.max_length, ground.door.capabilities.length_unit
        assert most is not None
        signs = most // 2 if unit is LengthUnit.UTF16 else most // 4
        await ground.door.send(outbound(ground, "x" * most))
        repeated = outbound(ground, "🦆" * signs, maybe_repeated=True, delivery="d2")
        await ground.door.send(repeated)
    assert len(ground.texts()) == 2


async def test_no_text_of_an_agent_is_refused_for_its_format(ground: Ground) -> None:
    """Formatting: no input produces an invalid message, sent or edited, with buttons or without."""
    choices = (Choice(label="Yes", says="/approve ap_0123456789abcdef session"),)
    async with ground.door.connect(RecordingIntake()):
        for number, text in enumerate(NASTY):
            message = outbound(ground, text, delivery=f"nasty{number}")
            await ground.door.send(message)
        asked = Outbound(
            delivery_id=DeliveryId("d2"),
            address=ground.address(),
            text=NASTY[1],
            choices=choices if ground.door.capabilities.buttons else (),
        )
        await ground.door.send(asked)
    assert len(ground.texts()) == len(NASTY) + 1
    assert all(text.strip() for text in ground.texts())
