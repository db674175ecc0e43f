"""Personal notes stay out of what others can read: groups, and jobs that answer elsewhere."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.core.config.settings import AgentSettings, JobSettings, PlatformSettings
from holdfast.core.messages.source import ChatType
from holdfast.core.messages.transcript import ToolMessage
from holdfast.core.people.memory import OwnerId
from holdfast.core.ports.store_queries import GetNotebook

ANN = OwnerId("person:simulated:default:ann")
OLGA = OwnerId("person:simulated:default:olga")
ANN_IN_CLUB = OwnerId("place:simulated:default:group:club::ann")
LIST, ADD = '{"action": "list"}', '{"action": "add", "text": "meets on Mondays"}'
MINUTE = 60


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.with_notes = True
    harness.clock = ManualClock(1_800_000_000.0)
    people = PlatformSettings(allow=("ann", "olga"), operators=("olga",))
    harness.settings = msgspec.structs.replace(
        harness.settings, platforms={"simulated": people}, jobs=JobSettings(time_zone="UTC")
    )
    harness.extra_tools = [DelegateTool(harness.settings.delegate)]
    await harness.start()
    notes = harness.gateway.memory.notes
    for owner in (ANN, OLGA):
        await notes.apply(notes.add(owner, "has a secret wish"))
    yield harness
    await harness.stop()


async def notes_of(harness: GatewayHarness, owner: OwnerId) -> list[str]:
    return [note.text for note in (await harness.store.read(GetNotebook(owner=owner))).notes]


def shown(harness: GatewayHarness) -> str:
    """Everything that the model was shown."""
    return "".join(
        request.system + "".join(str(message) for message in request.messages)
        for request in harness.model.requests
    )


async def test_personal_notes_stay_out_of_a_persons_own_conversation_in_a_group(
    harness: GatewayHarness, call: Call
) -> None:
    """The attack: in a group, all read what the bot answers to one of them. Neither the prompt,
    the tool nor the command shows the notes there; what is noted there belongs there."""
    club = {"chat": "club", "chat_type": ChatType.GROUP}
    harness.model.say([call("memory", LIST)], [call("memory", ADD)], "noted")
    harness.say("what do you know about me?", **club)
    await harness.texts(1)
    harness.say("/memory", **club)
    assert "meets on Mondays" in (await harness.texts(2))[-1]
    harness.say("/memory add comes late", **club)
    harness.say("/new", **club)
    await harness.texts(4)
    harness.model.say("hello")
    harness.say("hi", **club)
    await harness.texts(5)
    assert "meets on Mondays" in harness.model.requests[-1].system
    assert "secret wish" not in shown(harness) + "".join(await harness.texts(5))
    assert await notes_of(harness, ANN_IN_CLUB) == ["meets on Mondays", "comes late"]
    assert await notes_of(harness, ANN) == ["has a secret wish"]
    harness.model.say("hello again")
    harness.say("hi")
    await harness.texts(6)
    assert "secret wish" in harness.model.requests[-1].system, "in a direct chat"
    assert "Mondays" not in harness.model.requests[-1].system


async def test_a_subagent_in_a_group_reads_the_notes_of_the_group(
    harness: GatewayHarness, call: Call
) -> None:
    delegate = [call("delegate", '{"tasks": [{"task": "look", "tools": ["memory"]}]}')]
    harness.model.say(delegate, [call("memory", LIST)], [call("memory", ADD)], "looked", "done")
    harness.say("hi", chat="club", chat_type=ChatType.GROUP)
    await harness.texts(1)
    assert "secret wish" not in shown(harness)
    assert await notes_of(harness, ANN_IN_CLUB) == ["meets on Mondays"]


async def run_job(harness: GatewayHarness, call: Call, request: str, **where: object) -> str:
    """Make a job that reads and adds notes, run it, and return what it was shown."""
    harness.say(f'/cron add "in 1 minute" {request} look', **where)  # type: ignore[arg-type]
    before = len((await harness.texts(1))[0])
    assert before
    harness.model.say([call("memory", LIST)], [call("memory", ADD)], "looked")
    assert isinstance(harness.clock, ManualClock)
    harness.clock.at += MINUTE
    harness.gateway.scheduler.wake()
    assert (await harness.texts(2))[-1] == "looked"
    assert isinstance(harness.model.requests[1].messages[-1], ToolMessage)
    return shown(harness)


async def test_a_job_of_a_direct_chat_that_answers_there_has_the_personal_notes(
    harness: GatewayHarness, call: Call
) -> None:
    assert "secret wish" in await run_job(harness, call, "")
    assert await notes_of(harness, ANN) == ["has a secret wish", "meets on Mondays"]


async def test_a_job_that_answers_into_a_group_has_the_notes_of_that_place(
    harness: GatewayHarness, call: Call
) -> None:
    given = await run_job(harness, call, "", chat="club", chat_type=ChatType.GROUP)
    assert "secret wish" not in given
    assert await notes_of(harness, ANN_IN_CLUB) == ["meets on Mondays"]


async def test_a_job_of_a_direct_chat_that_answers_elsewhere_has_notes_of_its_own(
    harness: GatewayHarness, call: Call
) -> None:
    """Who reads there is not known to the gateway."""
    given = await run_job(harness, call, "to=simulated:lobby", user="olga")
    assert "secret wish" not in given
    assert await notes_of(harness, OwnerId("job:1")) == ["meets on Mondays"]
    assert await notes_of(harness, OLGA) == ["has a secret wish"]


async def test_a_conversation_of_a_group_that_is_resumed_elsewhere_gets_no_personal_notes(
    harness: GatewayHarness, call: Call
) -> None:
    """It can go back to the group, with its prompt; so that stays free of them even if the
    configuration changes meanwhile and the prompt is built again."""
    harness.model.say("hello all")
    harness.say("hi", chat="club", chat_type=ChatType.GROUP)
    await harness.texts(1)
    harness.say("/resume hi")
    assert "back" in (await harness.texts(2))[-1]
    await harness.stop()
    harness.settings = msgspec.structs.replace(
        harness.settings, agent=AgentSettings(instructions="Be brief.")
    )
    await harness.start()
    harness.model.say([call("memory", ADD)], "noted")
    harness.say("note that we meet on Mondays")
    await harness.texts(3)
    last = harness.model.requests[-1]
    assert "hello all" in str(last.messages) and "Be brief." in last.system
    assert "secret wish" not in shown(harness)
    assert await notes_of(harness, ANN_IN_CLUB) == ["meets on Mondays"]
