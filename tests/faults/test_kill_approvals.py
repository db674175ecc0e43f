"""`kill -9` while a command waits for a person's word: the question, the answer and the command."""

import pytest
from tests.faults.conftest import Worlds
from tests.faults.test_crash_points import ASKING
from tests.faults.world import World
from tests.looking import looking_into

from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.transcript import ToolMessage
from holdfast.store.sqlite import rows

DANGEROUS = (
    'do it [tool terminal {"command": "sudo -n true; echo ran >> effects.log"}] [then] '
    "[text it is done]"
)


def question(text: str) -> bool:
    return text.startswith("May this run?")


def facts(world: World, sql: str) -> list[tuple[object, ...]]:
    with looking_into(world.paths.db) as db:
        return db.execute(sql).fetchall()


async def asked(world: World) -> None:
    ledger = await world.people.ledger(sent=1, wait=20)
    assert [question(sent.outgoing.text) for sent in ledger.sent] == [True]
    # Its receipt is kept: killed before that, it would be sent again, marked.
    await world.until(lambda: facts(world, "SELECT 1 FROM outbox WHERE state = 'sent'") != [])


async def done_once(world: World) -> list[str]:
    """It ran once, everything was answered, and the gateway has stopped; returns what was said."""
    await world.settled()
    ledger = await world.people.ledger()
    await world.stop()
    assert world.effects() == ["ran"]
    assert facts(world, "SELECT state FROM approvals") == [("approved",)]
    assert not facts(world, "SELECT 1 FROM inbox WHERE state <> 'answered'")
    bodies = [
        rows.decode_message(str(body)) for (body,) in facts(world, "SELECT body FROM messages")
    ]
    assert sum(isinstance(message, ToolMessage) for message in bodies) == 1
    return [sent.outgoing.text for sent in ledger.sent]


async def test_a_question_outlives_its_process_and_an_answer_to_the_next_one_counts(
    world: World,
) -> None:
    """J3: asked once, no note, no cut; the command runs once, when somebody has said yes."""
    await world.start()
    await world.people.say(DANGEROUS)
    await asked(world)
    for _ in range(2):
        await world.kill()
        await world.start()
    assert world.effects() == []
    await world.people.say("yes")
    said = await done_once(world)
    assert [question(text) for text in said] == [True, False, False]
    assert said[-1] == "it is done"
    assert facts(world, "SELECT 1 FROM messages WHERE body LIKE '%System note%'") == []
    assert facts(world, "SELECT cuts FROM sessions") == [(0,)]


async def test_an_answer_that_was_given_while_the_gateway_was_dead_counts(world: World) -> None:
    """G1, J3: the platform keeps it."""
    await world.start()
    await world.people.say(DANGEROUS)
    await asked(world)
    await world.kill()
    await world.people.say("yes")
    await world.start()
    assert (await done_once(world))[-1] == "it is done"


@pytest.mark.parametrize("point", ASKING)
async def test_killed_as_it_asks_or_hears_nothing_is_lost_and_nothing_runs_twice(
    worlds: Worlds, point: CrashPoint
) -> None:
    """G5, J3: the question is a row or was never asked; the answer counts once or not at all."""
    async with worlds() as world:
        await world.start(point)
        await world.people.say(DANGEROUS)
        if point is CrashPoint.APPROVAL_DECIDED:
            await asked(world)
            await world.people.say("yes")
        await world.dies()
        await world.start()
        if point is CrashPoint.APPROVAL_ASKED:
            await asked(world)
            await world.people.say("yes")
        await world.people.ledger(sent=3, wait=20)
        said = await done_once(world)
        assert [question(text) for text in said].count(True) == 1
        assert said[-1] == "it is done"
