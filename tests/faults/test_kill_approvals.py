"""`kill -9` while a command waits for an approval: the question, the answer and the command."""

from typing import Any

import msgspec
import pytest
from tests.faults.crash_point_groups import APPROVAL_POINTS
from tests.support.process_harness import NewProcessHarness, ProcessHarness
from tests.support.stores import implementation

from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.transcript import Message, ToolMessage

DANGEROUS = (
    'do it [tool terminal {"command": "sudo -n true; echo ran >> effects.log"}] [then] '
    "[text it is done]"
)


def is_question(text: str) -> bool:
    return text.startswith("May this run?")


def stored(process_harness: ProcessHarness, table: str, column: str) -> list[Any]:
    """The values of a column, as they are stored right now."""
    with implementation().stored_rows(process_harness.paths.db) as rows:
        return [row[column] for row in rows.table(table)]


async def wait_for_question(process_harness: ProcessHarness) -> None:
    ledger = await process_harness.people.ledger(sent=1, wait=20)
    assert [is_question(sent.outgoing.text) for sent in ledger.sent] == [True]
    # Wait for its receipt: after a kill before that, it would be sent again, marked.
    await process_harness.until(lambda: "sent" in stored(process_harness, "outbox", "state"))


async def check_ran_once(process_harness: ProcessHarness) -> list[str]:
    """It ran once, everything was answered, and the gateway has stopped; the bot's messages."""
    await process_harness.wait_until_settled()
    ledger = await process_harness.people.ledger()
    await process_harness.stop()
    assert process_harness.effects() == ["ran"]
    assert stored(process_harness, "approvals", "state") == ["approved"]
    assert set(stored(process_harness, "inbox", "state")) == {"answered"}
    bodies = [
        msgspec.json.decode(body, type=Message)
        for body in stored(process_harness, "messages", "body")
    ]
    assert sum(isinstance(message, ToolMessage) for message in bodies) == 1
    return [sent.outgoing.text for sent in ledger.sent]


async def test_an_approval_outlives_its_process_and_the_next_one_accepts_the_answer(
    process_harness: ProcessHarness,
) -> None:
    """J3: asked once, no note, no interruption; the command runs once, after the yes."""
    await process_harness.start()
    await process_harness.people.say(DANGEROUS)
    await wait_for_question(process_harness)
    for _ in range(2):
        await process_harness.kill()
        await process_harness.start()
    assert process_harness.effects() == []
    await process_harness.people.say("yes")
    texts = await check_ran_once(process_harness)
    assert [is_question(text) for text in texts] == [True, False, False]
    assert texts[-1] == "it is done"
    assert not any("System note" in body for body in stored(process_harness, "messages", "body"))
    assert stored(process_harness, "sessions", "cuts") == [0]


async def test_an_answer_that_was_given_while_the_gateway_was_dead_counts(
    process_harness: ProcessHarness,
) -> None:
    """G1, J3: the platform keeps it."""
    await process_harness.start()
    await process_harness.people.say(DANGEROUS)
    await wait_for_question(process_harness)
    await process_harness.kill()
    await process_harness.people.say("yes")
    await process_harness.start()
    assert (await check_ran_once(process_harness))[-1] == "it is done"


@pytest.mark.parametrize("point", APPROVAL_POINTS)
async def test_a_kill_around_an_approval_loses_nothing_and_runs_nothing_twice(
    new_process_harness: NewProcessHarness, point: CrashPoint
) -> None:
    """G5, J3: the question is a row or was never asked; the answer counts once or not at all."""
    async with new_process_harness() as process_harness:
        await process_harness.start(point)
        await process_harness.people.say(DANGEROUS)
        if point is CrashPoint.APPROVAL_DECIDED:
            await wait_for_question(process_harness)
            await process_harness.people.say("yes")
        await process_harness.wait_for_crash()
        await process_harness.start()
        if point is CrashPoint.APPROVAL_ASKED:
            await wait_for_question(process_harness)
            await process_harness.people.say("yes")
        await process_harness.people.ledger(sent=3, wait=20)
        texts = await check_ran_once(process_harness)
        assert [is_question(text) for text in texts].count(True) == 1
        assert texts[-1] == "it is done"
