"""`kill -9` while a reply is streamed: it stays one delivery (I4)."""

import pytest
from tests.faults.conservation import check_invariants
from tests.support.process_harness import NewProcessHarness

from holdfast.core.crash_points import CrashPoint
from holdfast.testing.simulated.events import Faults

P = CrashPoint
EDIT_OPTIONS = ("--edit", "--edit-interval", "0.02")
# The turn ends before its first edit: not all of the reply is shown then.
SLOW_EDIT_OPTIONS = ("--edit", "--edit-interval", "3")

LAST_EDIT = f"{P.EDIT_COMMITTED}:1"  # behind the end of the turn
ALL_SHOWN = f"{P.END_COMMITTED}:1"  # the commit that ends the turn ends the delivery too

# Several passes of a point are several steps of one streamed message.
POINTS = (
    f"{P.STREAM_ROW_COMMITTED}:1",
    f"{P.SENT}:1",
    f"{P.RECEIPT_COMMITTED}:1",
    f"{P.EDIT_SENT}:2",
    LAST_EDIT,
    ALL_SHOWN,
)


# For the first request: it never ends, however long the gateway stands still.
ENDLESS = {"match": "tell", "delay": 0.05, "split": 4, "text": "what is said and said again " * 99}


def streamed_slowly(name: str, *, words: int = 1, pieces: str = "[split 4]") -> str:
    """A message whose answer is streamed in pieces of a few characters, for half a second times
    `words`; `pieces` "": in words, within a second or two."""
    answer = f"a long answer to the question {name}, " * words
    return f"tell {name} [delay 0.05]{pieces}[text {answer.rstrip(', ')}]"


@pytest.mark.parametrize("order", POINTS)
async def test_a_gateway_killed_while_it_streams_completes_the_reply_in_the_same_message(
    new_process_harness: NewProcessHarness, order: str
) -> None:
    """H3, H4, I2, I4: never two messages for one reply unless the second is marked, and the last
    words that are shown are the answer."""
    options = SLOW_EDIT_OPTIONS if order == LAST_EDIT else EDIT_OPTIONS
    async with new_process_harness(*options) as process_harness:
        ends = order in (LAST_EDIT, ALL_SHOWN)
        if not ends:
            process_harness.model.script(ENDLESS)
        await process_harness.start(order)
        pieces = "" if order == LAST_EDIT else "[split 4]"
        await process_harness.people.say(
            streamed_slowly("a", words=4 if ends else 1, pieces=pieces)
        )
        await process_harness.wait_for_crash()
        await process_harness.start()
        contents = await check_invariants(process_harness)
        assert len(contents.ledger.sent) == (2 if order.startswith(P.SENT) else 1)


async def test_a_vendor_that_knows_the_delivery_id_shows_a_reply_in_one_message(
    new_process_harness: NewProcessHarness,
) -> None:
    """I2, I4: twice killed between a send and its receipt, and still one message."""
    async with new_process_harness(*EDIT_OPTIONS, "--idempotent-send") as process_harness:
        await process_harness.people.say(streamed_slowly("a"))
        for _ in range(2):
            await process_harness.launch(P.SENT)
            await process_harness.wait_for_crash()
        await process_harness.start()
        contents = await check_invariants(process_harness, idempotent=True)
        assert len(contents.ledger.sent) == 1


async def test_a_long_reply_interrupted_between_its_parts_loses_none_and_repeats_none(
    new_process_harness: NewProcessHarness,
) -> None:
    """I2, I4: in parts, with flood control and rejected edits on the way."""
    async with new_process_harness(*EDIT_OPTIONS, "--max-length", "12") as process_harness:
        faults = Faults(floods=2, retry_after=0.1, rejected_edits=1, lost_edits=1)
        await process_harness.people.set_faults(faults)
        await process_harness.start(f"{P.RECEIPT_COMMITTED}:2")
        await process_harness.people.say(streamed_slowly("a"))
        await process_harness.wait_for_crash()
        await process_harness.start()
        contents = await check_invariants(process_harness)
        assert [len(sent.text) <= 12 for sent in contents.ledger.sent] == [True] * 4
