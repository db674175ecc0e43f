"""I4 with a real gateway killed: a reply that grows in its chat is one delivery all the same."""

import pytest
from tests.faults.conftest import Worlds
from tests.faults.laws import check_laws

from holdfast.core.crash_points import CrashPoint
from holdfast.testing.simulated.events import Faults

P = CrashPoint
EDITING = ("--edit", "--edit-interval", "0.02")

LAST = f"{P.EDIT_COMMITTED}:1"  # with the end of the turn

# Several passes of a point are several places in the life of one message.
POINTS = (
    f"{P.STREAM_ROW_COMMITTED}:1",
    f"{P.SENT}:1",
    f"{P.RECEIPT_COMMITTED}:1",
    f"{P.EDIT_SENT}:2",
    LAST,
)


# For the first who asks: it is never heard to its end, however long the gateway stands still.
ENDLESS = {"match": "tell", "delay": 0.05, "split": 4, "text": "what is said and said again " * 99}


def slowly(name: str, *, words: int = 1) -> str:
    """A message whose answer takes half a second to be said, or as many times as long, in pieces
    of a few characters."""
    answer = f"a long answer to the question {name}, " * words
    return f"tell {name} [delay 0.05][split 4][text {answer.rstrip(', ')}]"


@pytest.mark.parametrize("order", POINTS)
async def test_a_gateway_killed_while_a_reply_grows_ends_it_in_the_same_message(
    worlds: Worlds, order: str
) -> None:
    """H3, H4, I2, I4: never two messages for one reply unless the second is marked, and the last
    words that are shown are the answer."""
    async with worlds(*EDITING) as world:
        if order != LAST:
            world.model.script(ENDLESS)
        await world.start(order)
        await world.people.say(slowly("a", words=4 if order == LAST else 1))
        await world.dies()
        await world.start()
        books = await check_laws(world)
        assert len(books.ledger.sent) == (2 if order.startswith(P.SENT) else 1)


async def test_a_vendor_that_knows_the_delivery_id_shows_a_reply_in_one_message(
    worlds: Worlds,
) -> None:
    """I2, I4: twice cut between a send and its receipt, and still one message."""
    async with worlds(*EDITING, "--idempotent-send") as world:
        await world.people.say(slowly("a"))
        for _ in range(2):
            await world.begin(P.SENT)
            await world.dies()
        await world.start()
        books = await check_laws(world, idempotent=True)
        assert len(books.ledger.sent) == 1


async def test_a_long_reply_cut_between_its_parts_loses_none_and_repeats_none(
    worlds: Worlds,
) -> None:
    """I2, I4: in parts, with flood control and rejected edits on the way."""
    async with worlds(*EDITING, "--max-length", "12") as world:
        faults = Faults(floods=2, retry_after=0.1, rejected_edits=1, lost_edits=1)
        await world.people.set_faults(faults)
        await world.start(f"{P.RECEIPT_COMMITTED}:2")
        await world.people.say(slowly("a"))
        await world.dies()
        await world.start()
        books = await check_laws(world)
        assert [len(sent.text) <= 12 for sent in books.ledger.sent] == [True] * 4
