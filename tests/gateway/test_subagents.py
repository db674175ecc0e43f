"""Children: agents that work for another, each in a session of its own."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.conversation_models import Cast
from tests.support.gateway_harness import Call, GatewayHarness, HeldTool, Until

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.core.config.settings import DelegateSettings
from holdfast.core.errors import SendRejected
from holdfast.core.ids import DeliveryId, SessionId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import Address, Outbound
from holdfast.core.messages.transcript import (
    AssistantMessage,
    NoteMessage,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.people.approval import CommandRisk, CommandVerdict
from holdfast.core.turns.model import ModelFailed
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.tool import Arguments, ReplayClass
from holdfast.core.turns.turn import LaneState, TurnState
from holdfast.gateway.accounts.internal_platforms import SubagentPlatform
from holdfast.gateway.sessions import teardown
from holdfast.testing.scripted_model import USAGE, ScriptedModel


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.model = Cast()
    configure(harness)
    await harness.start()
    yield harness
    await harness.stop()


def configure(harness: GatewayHarness, **delegate: Any) -> None:
    settings = DelegateSettings(**delegate)
    harness.settings = msgspec.structs.replace(harness.settings, delegate=settings)
    harness.extra_tools = [DelegateTool(settings)]


async def again(harness: GatewayHarness, **delegate: Any) -> None:
    """The same home under other settings."""
    await harness.stop()
    configure(harness, **delegate)
    await harness.start()


def part(harness: GatewayHarness, word: str) -> ScriptedModel:
    assert isinstance(harness.model, Cast)
    return harness.model.part(word)


def tasks(*texts: str, **more: Any) -> str:
    return json.dumps({"tasks": [{"task": text} for text in texts], **more})


async def results(harness: GatewayHarness, session_id: SessionId) -> list[ToolMessage]:
    return [m for m in await harness.transcript(session_id) if isinstance(m, ToolMessage)]


async def parent_of_all(harness: GatewayHarness) -> SessionId:
    (session,) = await harness.store.sessions(limit=10)
    return session.id


async def gone(harness: GatewayHarness, until: Until) -> None:
    """Every child has ended, and its lane is left."""
    await until(lambda: len(harness.gateway.lanes) == 0)


async def test_the_replies_of_subagents_are_the_result_of_the_call(
    harness: GatewayHarness, call: Call
) -> None:
    """A synchronous child is a tool result: of several each under its number, in order."""
    part(harness, "count apples").say("seven apples")
    part(harness, "count pears").say("no pears")
    part(harness, "fruit").say([call("delegate", tasks("count apples", "count pears"))], "7 in all")
    end = await harness.end_of(await harness.accept("fruit"))
    assert (end.state, end.text) == (InboxState.ANSWERED, "7 in all")
    assert end.session_id is not None
    [result] = await results(harness, end.session_id)
    assert result.text == "[1] count apples\nseven apples\n\n[2] count pears\nno pears"
    assert result.outcome is ToolOutcome.OK


async def test_a_subagent_has_its_own_turn_and_its_usage_counts_for_its_parent(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """H1: each of its steps is a row; what it used is found by the conversation it works for."""
    part(harness, "look").say([call("safe")], "seen")
    part(harness, "begin").say([call("delegate", tasks("look"))], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    [child] = await harness.store.subagents_below(end.session_id)
    [record, *_] = await harness.store.transcript(child.session_id)
    assert record.turn_id is not None
    assert [step.kind for step in await harness.store.steps(record.turn_id)] == [
        "model",
        "tool",
        "model",
    ]
    assert await harness.store.subagents_usage(end.session_id) == USAGE + USAGE
    assert (child.parent, child.depth) == (end.session_id, 1)
    await gone(harness, until)
    session = await harness.store.session(child.session_id)
    assert session is not None
    assert session.ended_at is not None


async def test_subagents_are_not_listed_as_conversations(
    harness: GatewayHarness, call: Call
) -> None:
    part(harness, "look").say("seen")
    part(harness, "begin").say([call("delegate", tasks("look"))], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert [row.id for row in await harness.store.sessions(limit=10)] == [end.session_id]
    listed = await harness.store.sessions(limit=10, include_subagents=True)
    assert len(listed) == 2


async def test_twenty_subagents_work_at_the_same_time(harness: GatewayHarness, call: Call) -> None:
    """As many as `parallel` says are at work before the first has ended."""
    await again(harness, parallel=20)
    names = [f"task <{n}>" for n in range(20)]
    for name in names:
        part(harness, name)
    part(harness, "begin").say([call("delegate", tasks(*names))], "all done")
    accepted = await harness.accept("begin")
    async with asyncio.timeout(10):
        await asyncio.gather(*(part(harness, name).wait_for_request(1) for name in names))
    session_id = await parent_of_all(harness)
    assert harness.gateway.services.subagents.awaited_count(session_id) == 20
    for name in names:
        part(harness, name).say(f"did {name}")
    end = await harness.end_of(accepted)
    [result] = await results(harness, session_id)
    assert end.text == "all done"
    assert [f"did {name}" in result.text for name in names] == [True] * 20


async def test_no_more_subagents_than_allowed_work_at_the_same_time(
    harness: GatewayHarness, call: Call
) -> None:
    await again(harness, parallel=1)
    first, second = part(harness, "first"), part(harness, "second")
    part(harness, "begin").say([call("delegate", tasks("first", "second"))], "done")
    accepted = await harness.accept("begin")
    await first.wait_for_request(1)
    assert second.requests == []
    first.say("one")
    await second.wait_for_request(1)
    second.say("two")
    assert (await harness.end_of(accepted)).text == "done"


async def test_a_failed_subagent_is_reported_and_its_parent_continues(
    harness: GatewayHarness, call: Call
) -> None:
    """A child's own failure never kills the parent; its sibling's reply is there."""
    part(harness, "bad").say(ModelFailed("the model is ill", fault="refused"))
    part(harness, "good").say("well")
    part(harness, "begin").say([call("delegate", tasks("bad", "good"))], "half")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.text == "half"
    assert end.session_id is not None
    [result] = await results(harness, end.session_id)
    assert "[1] bad\n[This child failed: the model is ill" in result.text
    assert "[2] good\nwell" in result.text


async def test_a_subagent_that_times_out_is_stopped_and_reported(
    harness: GatewayHarness, call: Call
) -> None:
    await again(harness, time_limit=0.3)
    slow = part(harness, "slow")
    slow.say([call("safe")])
    part(harness, "begin").say([call("delegate", tasks("slow"))], "without it")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.text == "without it"
    assert end.session_id is not None
    [result] = await results(harness, end.session_id)
    assert "its time was over" in result.text
    assert result.outcome is ToolOutcome.ERROR


async def test_a_subagent_has_the_tools_it_was_given_and_never_more_than_its_parent(
    harness: GatewayHarness, call: Call
) -> None:
    """A subset of the parent's toolsets; what is not among them is refused by name."""
    given = json.dumps({"tasks": [{"task": "bare", "tools": []}]})
    more = json.dumps({"tasks": [{"task": "bare", "tools": ["terminal"]}]})
    part(harness, "bare").say("fine")
    part(harness, "begin").say([call("delegate", more)], [call("delegate", given)], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    refused, result = await results(harness, end.session_id)
    assert refused.outcome is ToolOutcome.ERROR
    assert "cannot get 'terminal'; it can get: test, delegate" in refused.text
    assert result.text == "fine"
    [request] = part(harness, "bare").requests
    assert request.tools == ()


async def test_the_deepest_subagents_cannot_delegate(harness: GatewayHarness, call: Call) -> None:
    """Depth 2: a child may delegate, its child has no such tool; the use of both counts."""
    part(harness, "deepest").say("dug")
    part(harness, "deeper").say([call("delegate", tasks("deepest"))], "dug on")
    part(harness, "begin").say([call("delegate", tasks("deeper"))], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.text == "done"
    [child], [grandchild] = part(harness, "deeper").requests[:1], part(harness, "deepest").requests
    assert "delegate" in {tool.name for tool in child.tools}
    assert "delegate" not in {tool.name for tool in grandchild.tools}
    assert end.session_id is not None
    depths = [child.depth for child in await harness.store.subagents_below(end.session_id)]
    assert depths == [1, 2]
    assert await harness.store.subagents_usage(end.session_id) == USAGE + USAGE + USAGE


async def test_a_subagent_has_its_own_step_budget(harness: GatewayHarness, call: Call) -> None:
    one_step = json.dumps({"tasks": [{"task": "long", "steps": 1}]})
    part(harness, "long").say([call("safe")], "as far as I came")
    part(harness, "begin").say([call("delegate", one_step)], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.text == "done"
    last = part(harness, "long").requests[-1]
    assert last.tools == (), "its budget is used up, so it must answer"


async def test_stop_ends_the_subagents_that_a_turn_waits_for(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """F9: the turn ends, its children's turns end, and their calls are cancelled."""
    lever = harness.held_tools[ReplayClass.NEVER]
    lever.go.clear()
    part(harness, "pull").say([call("never")])
    part(harness, "begin").say([call("delegate", tasks("pull"))])
    accepted = await harness.accept("begin")
    await lever.wait_until_started(1)
    parent = await parent_of_all(harness)
    [child] = await harness.store.subagents_below(parent)
    await harness.accept("/stop")
    assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    await gone(harness, until)
    assert lever.cancelled == lever.started
    assert harness.gateway.services.subagents.awaited_count(parent) == 0
    [result] = await results(harness, child.session_id)
    assert result.outcome is ToolOutcome.CANCELLED
    turns = [await turn_state(harness, child.session_id), await turn_state(harness, parent)]
    assert turns == [TurnState.SUPERSEDED, TurnState.SUPERSEDED]


async def turn_state(harness: GatewayHarness, session_id: SessionId) -> TurnState:
    record = (await harness.store.transcript(session_id))[-1]
    assert record.turn_id is not None
    turn = await harness.store.turn(record.turn_id)
    assert turn is not None
    return turn.state


async def test_stop_reaches_nested_subagents(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    deepest = part(harness, "deepest")
    part(harness, "deeper").say([call("delegate", tasks("deepest"))])
    part(harness, "begin").say([call("delegate", tasks("deeper"))])
    accepted = await harness.accept("begin")
    await deepest.wait_for_request(1)
    await harness.accept("/stop")
    await harness.end_of(accepted)
    await gone(harness, until)
    assert await harness.ledger() == {"superseded": 3, "answered": 1}


async def test_a_message_that_comes_while_subagents_run_is_queued(
    harness: GatewayHarness, call: Call
) -> None:
    """Interrupt becomes queue while children run."""
    child = part(harness, "look")
    part(harness, "begin").say([call("delegate", tasks("look"))], "done", "and this")
    first = await harness.accept("begin", mergeable=False)
    await child.wait_for_request(1)
    second = await harness.accept("and then", mergeable=False)
    child.say("seen")
    assert (await harness.end_of(first)).text == "done"
    assert (await harness.end_of(second)).text == "and this"


async def test_new_ends_every_subagent_of_the_conversation(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """A11: close() cascades into child agents, also those in the background."""
    waited, sent_off = part(harness, "waited"), part(harness, "sent off")
    part(harness, "begin").say(
        [call("delegate", tasks("sent off", background=True))], [call("delegate", tasks("waited"))]
    )
    await harness.accept("begin")
    await waited.wait_for_request(1)
    await sent_off.wait_for_request(1)
    await harness.end_of(await harness.accept("/new"))
    await gone(harness, until)
    assert await harness.ledger() == {"superseded": 3, "answered": 1}


async def test_the_work_of_a_subagent_is_shown_as_progress_of_the_call(
    harness: GatewayHarness, call: Call
) -> None:
    lever = harness.held_tools[ReplayClass.SAFE]
    lever.go.clear()
    part(harness, "look").say([call("safe")], "seen")
    part(harness, "begin").say([call("delegate", tasks("look"))], "done")
    accepted = await harness.accept("begin")
    await lever.wait_until_started(1)
    lane = harness.gateway.lanes.get(await parent_of_all(harness))
    assert lane is not None
    assert lane.running_turn is not None
    [running] = lane.running_turn.live.calls
    assert running.output == "look: safe {}\n"
    lever.go.set()
    await harness.end_of(accepted)


async def test_the_result_of_a_background_subagent_is_a_message_in_the_chat(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """The call returns at once; the result is a turn of its own, and the user gets its answer."""
    slow = part(harness, "slow work")
    part(harness, "begin").say(
        [call("delegate", tasks("slow work", background=True))], "it is under way", "it is done"
    )
    harness.say("begin")
    assert await harness.texts(1) == ["it is under way"]
    await slow.wait_for_request(1)
    slow.say("42")
    assert await harness.texts(2) == ["it is under way", "it is done"]
    said = await harness.transcript(await parent_of_all(harness))
    [note] = [m for m in said if isinstance(m, NoteMessage)]
    assert note.text.startswith("[System note: the background task “slow work” has ended")
    assert note.text.endswith("\n\n42")
    await gone(harness, until)
    assert await harness.ledger() == {"answered": 3}


async def test_the_conversation_continues_while_a_subagent_works_in_the_background(
    harness: GatewayHarness, call: Call
) -> None:
    """And the result waits for the running turn, and does not interrupt it."""
    slow, chat = part(harness, "slow work"), part(harness, "begin")
    chat.say([call("delegate", tasks("slow work", background=True))], "under way")
    harness.say("begin")
    await harness.sent(1)
    harness.say("something else")
    await chat.wait_for_request(3)
    slow.say("42")
    assert isinstance((await chat.wait_for_request(3)).messages[-1], UserMessage)
    await harness.service.wait_for_ledger(sent=1, wait=0)
    chat.say("about something else", "the answer is 42")
    assert await harness.texts(3) == ["under way", "about something else", "the answer is 42"]


async def test_the_background_command_answers_in_the_chat_when_it_is_done(
    harness: GatewayHarness, until: Until
) -> None:
    """/background TEXT: in a chat that has no session yet, and in one that has."""
    work = part(harness, "count to ten")
    harness.say("/background count to ten")
    [told] = await harness.texts(1)
    assert "count to ten" in told
    await work.wait_for_request(1)
    work.say("1 … 10")
    harness.model.say("It counted to ten.")
    assert (await harness.texts(2))[1] == "It counted to ten."
    await gone(harness, until)
    harness.say("/background")
    assert "TEXT" in (await harness.texts(3))[2]


async def test_stop_names_background_work_and_stop_all_ends_it(
    harness: GatewayHarness, until: Until
) -> None:
    work = part(harness, "count to ten")
    harness.say("/background count to ten")
    await work.wait_for_request(1)
    harness.say("/stop")
    assert "count to ten" in (await harness.texts(2))[1]
    assert "/stop all" in (await harness.texts(2))[1]
    harness.say("/stop all")
    assert (await harness.texts(3))[2].startswith("Stopped")
    await gone(harness, until)
    assert len(await harness.texts(3)) == 3


async def test_a_nested_subagent_does_not_work_in_the_background(
    harness: GatewayHarness, call: Call
) -> None:
    part(harness, "deeper").say([call("delegate", tasks("later", background=True))], "I could not")
    part(harness, "begin").say([call("delegate", tasks("deeper"))], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    assert [result.text for result in await results(harness, end.session_id)] == ["I could not"]


async def test_subagents_survive_a_crash_and_their_parent_gets_each_result_once(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """H2, G2: one child had ended, the other had not; the call finds both by its own id."""
    quick, slow = part(harness, "quick"), part(harness, "slow")
    begin = part(harness, "begin")
    quick.say("was quick")
    begin.say([call("delegate", tasks("quick", "slow"))])
    harness.say("begin")
    await slow.wait_for_request(1)
    parent = await parent_of_all(harness)
    await until(lambda: harness.gateway.services.subagents.awaited_count(parent) == 1)
    await harness.die()
    await harness.start()
    slow.say("was slow")
    begin.say("both are back")
    assert await harness.texts(1) == ["both are back"]
    [result] = await results(harness, parent)
    assert result.text == "[1] quick\nwas quick\n\n[2] slow\nwas slow"
    assert len(quick.requests) == 1
    assert len(await harness.store.subagents_below(parent)) == 2
    await gone(harness, until)
    assert await harness.ledger() == {"answered": 3}


async def test_subagents_survive_a_stop_of_the_gateway(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """C4, H3: a gateway that stops ends no child; the call that waits for it is no cut call."""
    work, begin = part(harness, "work"), part(harness, "begin")
    begin.say([call("delegate", tasks("work"))])
    harness.say("begin")
    await work.wait_for_request(1)
    await harness.stop()
    await harness.start()
    await work.wait_for_request(2)
    work.say("worked")
    begin.say("all is done")
    assert await harness.texts(1) == ["all is done"]
    [result] = await results(harness, await parent_of_all(harness))
    assert (result.text, result.outcome) == ("worked", ToolOutcome.OK)


async def test_a_background_subagent_survives_a_crash_and_its_result_arrives_once(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    work, begin = part(harness, "work"), part(harness, "begin")
    begin.say([call("delegate", tasks("work", background=True))], "under way")
    harness.say("begin")
    await harness.sent(1)
    await work.wait_for_request(1)
    await until(lambda: len(harness.gateway.outbox) == 0)
    await harness.die()
    await harness.start()
    await work.wait_for_request(2)
    work.say("worked")
    begin.say("it worked")
    assert await harness.texts(2) == ["under way", "it worked"]
    await until(lambda: len(harness.gateway.outbox) == 0)
    await harness.die()
    await harness.start()
    await gone(harness, until)
    assert await harness.ledger() == {"answered": 3}
    assert len(await harness.texts(2)) == 2


async def test_a_subagent_whose_parent_was_stopped_before_a_crash_is_ended_at_the_start(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """The end of the parent is durable and that of its child is not: nobody wants it any more."""
    work, begin = part(harness, "work"), part(harness, "begin")
    begin.say([call("delegate", tasks("work"))])
    accepted = await harness.accept("begin")
    await work.wait_for_request(1)
    harness.gateway.services.subagents.detach()  # as if it died before it came to stop the child
    await harness.accept("/stop")
    await harness.end_of(accepted)
    await harness.die()
    await harness.start()
    await gone(harness, until)
    assert await harness.ledger() == {"superseded": 2, "answered": 1}


async def test_deleting_a_conversation_deletes_its_subagents(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    work = part(harness, "work")
    part(harness, "begin").say([call("delegate", tasks("work"))])
    await harness.accept("begin")
    await work.wait_for_request(1)
    parent = await parent_of_all(harness)
    [child] = await harness.store.subagents_below(parent)
    gateway = harness.gateway
    await teardown.delete_session(gateway.services, gateway.lanes, gateway.teardown, parent)
    await gone(harness, until)
    assert await harness.store.session(child.session_id) is None
    assert await harness.store.subagent(child.session_id) is None
    assert await harness.ledger() == {}


async def test_subagents_use_the_model_of_their_conversation(
    harness: GatewayHarness, call: Call
) -> None:
    part(harness, "look").say("seen")
    part(harness, "begin").say([call("delegate", tasks("look"))], "done")
    await harness.end_of(await harness.accept("/model other"))
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    [child] = await harness.store.subagents_below(end.session_id)
    replies = [m for m in await harness.transcript(child.session_id)]
    assert [m.model for m in replies if isinstance(m, AssistantMessage)] == ["other"]


async def test_usage_and_status_include_subagents(harness: GatewayHarness, call: Call) -> None:
    """What they used counts to the conversation; those at work are named."""
    work = part(harness, "work")
    part(harness, "begin").say([call("delegate", tasks("work", background=True))], "under way")
    await harness.end_of(await harness.accept("begin"))
    await work.wait_for_request(1)
    status = await harness.end_of(await harness.accept("/status"))
    assert "Child agent (in the background): work" in status.text
    assert harness.gateway.snapshot()["subagents"] == {"waited": 0, "background": 1}
    part(harness, "begin").say("told")
    work.say("worked")
    await part(harness, "begin").wait_for_request(3)
    usage = await harness.end_of(await harness.accept("/usage"))
    assert "Of that, its child agents: 10 tokens in (2 of them cached), 5 out" in usage.text


async def test_the_number_of_background_subagents_is_limited(
    harness: GatewayHarness, call: Call
) -> None:
    await again(harness, max_background=1)
    part(harness, "one")
    part(harness, "begin").say(
        [call("delegate", tasks("one", background=True))],
        [call("delegate", tasks("two", background=True))],
        "one at a time",
    )
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    begun, refused = await results(harness, end.session_id)
    assert (begun.outcome, refused.outcome) == (ToolOutcome.OK, ToolOutcome.ERROR)
    assert "1 are allowed" in refused.text
    told = await harness.end_of(await harness.accept("/background three"))
    assert told.text.startswith("Not begun: ")


async def test_a_result_after_new_names_its_earlier_conversation(
    harness: GatewayHarness, call: Call
) -> None:
    """It was on its way when its conversation was left; sent twice, it comes once."""
    work = part(harness, "work")
    part(harness, "begin").say([call("delegate", tasks("work", background=True))], "under way")
    await harness.end_of(await harness.accept("begin"))
    await work.wait_for_request(1)
    parent = await parent_of_all(harness)
    [child] = await harness.store.subagents_below(parent)
    await harness.end_of(await harness.accept("/new"))
    outbound = Outbound(
        delivery_id=DeliveryId("dlv_x"),
        address=Address(platform="house", account="background", chat_id=child.session_id),
        text="worked",
    )
    door = SubagentPlatform(SubagentKind.BACKGROUND, harness.gateway.services.subagents)
    receipts = [await door.send(outbound) for _ in range(2)]
    assert receipts[0] == receipts[1]
    request = await harness.model.wait_for_request(1)
    assert f"an earlier conversation here had begun (session {parent})" in request.messages[-1].text
    harness.model.say("that was before")


async def test_a_result_for_a_deleted_conversation_is_refused(harness: GatewayHarness) -> None:
    outbound = Outbound(
        delivery_id=DeliveryId("dlv_x"),
        address=Address(platform="house", account="background", chat_id="s_gone"),
        text="worked",
    )
    with pytest.raises(SendRejected, match="deleted"):
        await SubagentPlatform(SubagentKind.BACKGROUND, harness.gateway.services.subagents).send(
            outbound
        )


async def test_a_queued_subagent_result_sends_no_busy_notice(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """The user is told that their message waits, not that ours does."""
    slow, chat = part(harness, "slow work"), part(harness, "begin")
    chat.say([call("delegate", tasks("slow work", background=True))], "under way")
    harness.say("begin")
    await harness.sent(1)
    harness.say("something else")
    await chat.wait_for_request(3)
    slow.say("42")
    lane = harness.gateway.lanes.get(await parent_of_all(harness))
    assert lane is not None
    await until(lambda: lane.queued == 1)
    chat.say("about something else", "the answer is 42")
    assert (await harness.texts(3))[1:] == ["about something else", "the answer is 42"]


class Wary:
    """Finds every command dangerous."""

    def judge(self, command: str) -> CommandVerdict:
        return CommandVerdict(level=CommandRisk.DANGEROUS, rule="any", why="It does something.")


class Shell(HeldTool):
    """A lever that runs commands."""

    def command(self, arguments: Arguments) -> str | None:
        return str(arguments["command"])


@pytest.fixture
async def wary(harness: GatewayHarness) -> GatewayHarness:
    await harness.stop()
    harness.extra_tools = [*harness.extra_tools, Shell("shell", ReplayClass.ATTACH)]
    harness.judge = Wary()
    await harness.start()
    return harness


async def test_a_subagent_asks_for_approval_in_the_chat_it_works_for(
    wary: GatewayHarness, call: Call, until: Until
) -> None:
    """J3: the question comes to where the people are, and their answer reaches the child."""
    part(wary, "tidy up").say([call("shell", '{"command": "rm -r old"}')], "tidied")
    part(wary, "begin").say([call("delegate", tasks("tidy up"))], "all is tidy")
    wary.say("begin")
    [question] = await wary.texts(1)
    assert "rm -r old" in question
    wary.say("yes")
    texts = await wary.texts(3)
    assert texts[-1] == "all is tidy"
    [result] = await results(wary, await parent_of_all(wary))
    assert result.text == "tidied"
    await gone(wary, until)


async def test_stop_ends_a_subagent_that_waits_for_approval(
    wary: GatewayHarness, call: Call, until: Until
) -> None:
    part(wary, "tidy up").say([call("shell", '{"command": "rm -r old"}')])
    part(wary, "begin").say([call("delegate", tasks("tidy up"))])
    wary.say("begin")
    await wary.texts(1)
    await until(lambda: wary.gateway.lanes.count(LaneState.WAITING) == 1)
    wary.say("/stop")
    await gone(wary, until)
    assert await wary.ledger() == {"superseded": 2, "answered": 1}
    assert await wary.store.approvals(limit=5, pending=True) == []
