"""Children: agents that work for another, each in a session of its own."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract.conftest import Call, Lever, Until, World

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
from holdfast.core.turns.model import ModelFailed, ModelRequest
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.tool import Arguments, ReplayClass
from holdfast.core.turns.turn import LaneState, TurnState
from holdfast.gateway.accounts.internal_platforms import SubagentPlatform
from holdfast.gateway.sessions import teardown
from holdfast.testing.scripted_model import USAGE, ScriptedModel, ScriptLine


class Cast(ScriptedModel):
    """A model that plays several parts: each conversation has lines of its own, found by a word
    of what it was first asked, and waits where it has none."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, ScriptedModel] = {}

    def part(self, word: str) -> ScriptedModel:
        return self._parts.setdefault(word, ScriptedModel())

    async def next_line(self, request: ModelRequest) -> ScriptLine:
        asked = next((m.text for m in request.messages if isinstance(m, UserMessage)), "")
        word = next((word for word in self._parts if word in asked), "")
        return await (self._parts[word].next_line(request) if word else super().next_line(request))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "state.db")
    world.model = Cast()
    configure(world)
    await world.start()
    yield world
    await world.stop()


def configure(world: World, **delegate: Any) -> None:
    settings = DelegateSettings(**delegate)
    world.settings = msgspec.structs.replace(world.settings, delegate=settings)
    world.more_tools = [DelegateTool(settings)]


async def again(world: World, **delegate: Any) -> None:
    """The same home under other settings."""
    await world.stop()
    configure(world, **delegate)
    await world.start()


def part(world: World, word: str) -> ScriptedModel:
    assert isinstance(world.model, Cast)
    return world.model.part(word)


def tasks(*texts: str, **more: Any) -> str:
    return json.dumps({"tasks": [{"task": text} for text in texts], **more})


async def results(world: World, session_id: SessionId) -> list[ToolMessage]:
    return [m for m in await world.transcript(session_id) if isinstance(m, ToolMessage)]


async def parent_of_all(world: World) -> SessionId:
    (session,) = await world.store.sessions(limit=10)
    return session.id


async def gone(world: World, until: Until) -> None:
    """Every child has ended, and its lane is left."""
    await until(lambda: len(world.gateway.lanes) == 0)


async def test_the_replies_of_children_are_the_result_of_the_call(world: World, call: Call) -> None:
    """A synchronous child is a tool result: of several each under its number, in order."""
    part(world, "count apples").say("seven apples")
    part(world, "count pears").say("no pears")
    part(world, "fruit").say([call("delegate", tasks("count apples", "count pears"))], "7 in all")
    end = await world.end_of(await world.accept("fruit"))
    assert (end.state, end.text) == (InboxState.ANSWERED, "7 in all")
    assert end.session_id is not None
    [result] = await results(world, end.session_id)
    assert result.text == "[1] count apples\nseven apples\n\n[2] count pears\nno pears"
    assert result.outcome is ToolOutcome.OK


async def test_a_child_has_turn_and_steps_of_its_own_and_its_use_counts_for_its_parent(
    world: World, call: Call, until: Until
) -> None:
    """H1: each of its steps is a row; what it used is found by the conversation it works for."""
    part(world, "look").say([call("safe")], "seen")
    part(world, "begin").say([call("delegate", tasks("look"))], "done")
    end = await world.end_of(await world.accept("begin"))
    assert end.session_id is not None
    [child] = await world.store.subagents_below(end.session_id)
    [record, *_] = await world.store.transcript(child.session_id)
    assert record.turn_id is not None
    assert [step.kind for step in await world.store.steps(record.turn_id)] == [
        "model",
        "tool",
        "model",
    ]
    assert await world.store.subagents_usage(end.session_id) == USAGE + USAGE
    assert (child.parent, child.depth) == (end.session_id, 1)
    await gone(world, until)
    session = await world.store.session(child.session_id)
    assert session is not None
    assert session.ended_at is not None


async def test_children_are_not_among_the_conversations(world: World, call: Call) -> None:
    part(world, "look").say("seen")
    part(world, "begin").say([call("delegate", tasks("look"))], "done")
    end = await world.end_of(await world.accept("begin"))
    assert [row.id for row in await world.store.sessions(limit=10)] == [end.session_id]
    listed = await world.store.sessions(limit=10, include_subagents=True)
    assert len(listed) == 2


async def test_twenty_children_work_at_the_same_time(world: World, call: Call) -> None:
    """As many as `parallel` says are at work before the first has ended."""
    await again(world, parallel=20)
    names = [f"task <{n}>" for n in range(20)]
    for name in names:
        part(world, name)
    part(world, "begin").say([call("delegate", tasks(*names))], "all done")
    accepted = await world.accept("begin")
    async with asyncio.timeout(10):
        await asyncio.gather(*(part(world, name).wait_for_request(1) for name in names))
    session_id = await parent_of_all(world)
    assert world.gateway.services.subagents.awaited_count(session_id) == 20
    for name in names:
        part(world, name).say(f"did {name}")
    end = await world.end_of(accepted)
    [result] = await results(world, session_id)
    assert end.text == "all done"
    assert [f"did {name}" in result.text for name in names] == [True] * 20


async def test_no_more_children_than_allowed_work_at_the_same_time(
    world: World, call: Call
) -> None:
    await again(world, parallel=1)
    first, second = part(world, "first"), part(world, "second")
    part(world, "begin").say([call("delegate", tasks("first", "second"))], "done")
    accepted = await world.accept("begin")
    await first.wait_for_request(1)
    assert second.requests == []
    first.say("one")
    await second.wait_for_request(1)
    second.say("two")
    assert (await world.end_of(accepted)).text == "done"


async def test_a_child_that_fails_is_told_as_such_and_its_parent_goes_on(
    world: World, call: Call
) -> None:
    """A child's own failure never kills the parent; its sibling's reply is there."""
    part(world, "bad").say(ModelFailed("the model is ill", fault="refused"))
    part(world, "good").say("well")
    part(world, "begin").say([call("delegate", tasks("bad", "good"))], "half")
    end = await world.end_of(await world.accept("begin"))
    assert end.text == "half"
    assert end.session_id is not None
    [result] = await results(world, end.session_id)
    assert "[1] bad\n[This child failed: the model is ill" in result.text
    assert "[2] good\nwell" in result.text


async def test_a_child_whose_time_is_over_is_stopped_and_what_it_said_is_told(
    world: World, call: Call
) -> None:
    await again(world, time_limit=0.3)
    slow = part(world, "slow")
    slow.say([call("safe")])
    part(world, "begin").say([call("delegate", tasks("slow"))], "without it")
    end = await world.end_of(await world.accept("begin"))
    assert end.text == "without it"
    assert end.session_id is not None
    [result] = await results(world, end.session_id)
    assert "its time was over" in result.text
    assert result.outcome is ToolOutcome.ERROR


async def test_a_child_has_the_tools_it_was_given_and_never_more_than_its_parent(
    world: World, call: Call
) -> None:
    """A subset of the parent's toolsets; what is not among them is refused by name."""
    given = json.dumps({"tasks": [{"task": "bare", "tools": []}]})
    more = json.dumps({"tasks": [{"task": "bare", "tools": ["terminal"]}]})
    part(world, "bare").say("fine")
    part(world, "begin").say([call("delegate", more)], [call("delegate", given)], "done")
    end = await world.end_of(await world.accept("begin"))
    assert end.session_id is not None
    refused, result = await results(world, end.session_id)
    assert refused.outcome is ToolOutcome.ERROR
    assert "cannot get 'terminal'; it can get: test, delegate" in refused.text
    assert result.text == "fine"
    [request] = part(world, "bare").requests
    assert request.tools == ()


async def test_the_deepest_children_have_no_children(world: World, call: Call) -> None:
    """Depth 2: a child may delegate, its child has no such tool; the use of both counts."""
    part(world, "deepest").say("dug")
    part(world, "deeper").say([call("delegate", tasks("deepest"))], "dug on")
    part(world, "begin").say([call("delegate", tasks("deeper"))], "done")
    end = await world.end_of(await world.accept("begin"))
    assert end.text == "done"
    [child], [grandchild] = part(world, "deeper").requests[:1], part(world, "deepest").requests
    assert "delegate" in {tool.name for tool in child.tools}
    assert "delegate" not in {tool.name for tool in grandchild.tools}
    assert end.session_id is not None
    depths = [child.depth for child in await world.store.subagents_below(end.session_id)]
    assert depths == [1, 2]
    assert await world.store.subagents_usage(end.session_id) == USAGE + USAGE + USAGE


async def test_a_child_has_a_step_budget_of_its_own(world: World, call: Call) -> None:
    one_step = json.dumps({"tasks": [{"task": "long", "steps": 1}]})
    part(world, "long").say([call("safe")], "as far as I came")
    part(world, "begin").say([call("delegate", one_step)], "done")
    end = await world.end_of(await world.accept("begin"))
    assert end.text == "done"
    last = part(world, "long").requests[-1]
    assert last.tools == (), "its budget is used up, so it must answer"


async def test_stop_ends_the_children_that_a_turn_waits_for(
    world: World, call: Call, until: Until
) -> None:
    """F9: the turn ends, its children's turns end, and their calls are cancelled."""
    lever = world.levers[ReplayClass.NEVER]
    lever.go.clear()
    part(world, "pull").say([call("never")])
    part(world, "begin").say([call("delegate", tasks("pull"))])
    accepted = await world.accept("begin")
    await lever.was_pulled(1)
    parent = await parent_of_all(world)
    [child] = await world.store.subagents_below(parent)
    await world.accept("/stop")
    assert (await world.end_of(accepted)).state is InboxState.SUPERSEDED
    await gone(world, until)
    assert lever.cancelled == lever.pulled
    assert world.gateway.services.subagents.awaited_count(parent) == 0
    [result] = await results(world, child.session_id)
    assert result.outcome is ToolOutcome.CANCELLED
    turns = [await turn_state(world, child.session_id), await turn_state(world, parent)]
    assert turns == [TurnState.SUPERSEDED, TurnState.SUPERSEDED]


async def turn_state(world: World, session_id: SessionId) -> TurnState:
    record = (await world.store.transcript(session_id))[-1]
    assert record.turn_id is not None
    turn = await world.store.turn(record.turn_id)
    assert turn is not None
    return turn.state


async def test_stop_reaches_the_children_of_children(
    world: World, call: Call, until: Until
) -> None:
    deepest = part(world, "deepest")
    part(world, "deeper").say([call("delegate", tasks("deepest"))])
    part(world, "begin").say([call("delegate", tasks("deeper"))])
    accepted = await world.accept("begin")
    await deepest.wait_for_request(1)
    await world.accept("/stop")
    await world.end_of(accepted)
    await gone(world, until)
    assert await world.ledger() == {"superseded": 3, "answered": 1}


async def test_a_message_that_comes_while_children_run_is_queued(world: World, call: Call) -> None:
    """Interrupt becomes queue while children run."""
    child = part(world, "look")
    part(world, "begin").say([call("delegate", tasks("look"))], "done", "and this")
    first = await world.accept("begin", mergeable=False)
    await child.wait_for_request(1)
    second = await world.accept("and then", mergeable=False)
    child.say("seen")
    assert (await world.end_of(first)).text == "done"
    assert (await world.end_of(second)).text == "and this"


async def test_new_ends_every_child_of_the_conversation(
    world: World, call: Call, until: Until
) -> None:
    """A11: close() cascades into child agents, also those in the background."""
    waited, sent_off = part(world, "waited"), part(world, "sent off")
    part(world, "begin").say(
        [call("delegate", tasks("sent off", background=True))], [call("delegate", tasks("waited"))]
    )
    await world.accept("begin")
    await waited.wait_for_request(1)
    await sent_off.wait_for_request(1)
    await world.end_of(await world.accept("/new"))
    await gone(world, until)
    assert await world.ledger() == {"superseded": 3, "answered": 1}


async def test_what_a_child_does_is_seen_as_progress_of_the_call(world: World, call: Call) -> None:
    lever = world.levers[ReplayClass.SAFE]
    lever.go.clear()
    part(world, "look").say([call("safe")], "seen")
    part(world, "begin").say([call("delegate", tasks("look"))], "done")
    accepted = await world.accept("begin")
    await lever.was_pulled(1)
    lane = world.gateway.lanes.get(await parent_of_all(world))
    assert lane is not None
    assert lane.running_turn is not None
    [running] = lane.running_turn.live.calls
    assert running.output == "look: safe {}\n"
    lever.go.set()
    await world.end_of(accepted)


async def test_a_background_child_comes_back_as_a_message_of_the_chat(
    world: World, call: Call, until: Until
) -> None:
    """The call returns at once; the result is a turn of its own, and the user gets its answer."""
    slow = part(world, "slow work")
    part(world, "begin").say(
        [call("delegate", tasks("slow work", background=True))], "it is under way", "it is done"
    )
    world.say("begin")
    assert await world.texts(1) == ["it is under way"]
    await slow.wait_for_request(1)
    slow.say("42")
    assert await world.texts(2) == ["it is under way", "it is done"]
    said = await world.transcript(await parent_of_all(world))
    [note] = [m for m in said if isinstance(m, NoteMessage)]
    assert note.text.startswith("[System note: the background task “slow work” has ended")
    assert note.text.endswith("\n\n42")
    await gone(world, until)
    assert await world.ledger() == {"answered": 3}


async def test_the_conversation_goes_on_while_a_child_works_in_the_background(
    world: World, call: Call
) -> None:
    """And the result waits for the running turn, and does not interrupt it."""
    slow, chat = part(world, "slow work"), part(world, "begin")
    chat.say([call("delegate", tasks("slow work", background=True))], "under way")
    world.say("begin")
    await world.sent(1)
    world.say("something else")
    await chat.wait_for_request(3)
    slow.say("42")
    assert isinstance((await chat.wait_for_request(3)).messages[-1], UserMessage)
    await world.service.wait_for_ledger(sent=1, wait=0)
    chat.say("about something else", "the answer is 42")
    assert await world.texts(3) == ["under way", "about something else", "the answer is 42"]


async def test_background_is_a_command_and_answers_in_the_chat_when_it_is_done(
    world: World, until: Until
) -> None:
    """/background TEXT: in a chat that has no session yet, and in one that has."""
    work = part(world, "count to ten")
    world.say("/background count to ten")
    [told] = await world.texts(1)
    assert "count to ten" in told
    await work.wait_for_request(1)
    work.say("1 … 10")
    world.model.say("It counted to ten.")
    assert (await world.texts(2))[1] == "It counted to ten."
    await gone(world, until)
    world.say("/background")
    assert "TEXT" in (await world.texts(3))[2]


async def test_stop_names_what_goes_on_in_the_background_and_stop_all_ends_it(
    world: World, until: Until
) -> None:
    work = part(world, "count to ten")
    world.say("/background count to ten")
    await work.wait_for_request(1)
    world.say("/stop")
    assert "count to ten" in (await world.texts(2))[1]
    assert "/stop all" in (await world.texts(2))[1]
    world.say("/stop all")
    assert (await world.texts(3))[2].startswith("Stopped")
    await gone(world, until)
    assert len(await world.texts(3)) == 3


async def test_a_child_of_a_child_does_not_work_in_the_background(world: World, call: Call) -> None:
    part(world, "deeper").say([call("delegate", tasks("later", background=True))], "I could not")
    part(world, "begin").say([call("delegate", tasks("deeper"))], "done")
    end = await world.end_of(await world.accept("begin"))
    assert end.session_id is not None
    assert [result.text for result in await results(world, end.session_id)] == ["I could not"]


async def test_children_go_on_over_a_crash_and_their_parent_hears_each_once(
    world: World, call: Call, until: Until
) -> None:
    """H2, G2: one child had ended, the other had not; the call finds both by its own id."""
    quick, slow = part(world, "quick"), part(world, "slow")
    begin = part(world, "begin")
    quick.say("was quick")
    begin.say([call("delegate", tasks("quick", "slow"))])
    world.say("begin")
    await slow.wait_for_request(1)
    parent = await parent_of_all(world)
    await until(lambda: world.gateway.services.subagents.awaited_count(parent) == 1)
    await world.die()
    await world.start()
    slow.say("was slow")
    begin.say("both are back")
    assert await world.texts(1) == ["both are back"]
    [result] = await results(world, parent)
    assert result.text == "[1] quick\nwas quick\n\n[2] slow\nwas slow"
    assert len(quick.requests) == 1
    assert len(await world.store.subagents_below(parent)) == 2
    await gone(world, until)
    assert await world.ledger() == {"answered": 3}


async def test_children_go_on_over_a_stop_of_the_gateway(
    world: World, call: Call, until: Until
) -> None:
    """C4, H3: a gateway that stops ends no child; the call that waits for it is no cut call."""
    work, begin = part(world, "work"), part(world, "begin")
    begin.say([call("delegate", tasks("work"))])
    world.say("begin")
    await work.wait_for_request(1)
    await world.stop()
    await world.start()
    await work.wait_for_request(2)
    work.say("worked")
    begin.say("all is done")
    assert await world.texts(1) == ["all is done"]
    [result] = await results(world, await parent_of_all(world))
    assert (result.text, result.outcome) == ("worked", ToolOutcome.OK)


async def test_a_background_child_goes_on_over_a_crash_and_its_answer_comes_once(
    world: World, call: Call, until: Until
) -> None:
    work, begin = part(world, "work"), part(world, "begin")
    begin.say([call("delegate", tasks("work", background=True))], "under way")
    world.say("begin")
    await world.sent(1)
    await work.wait_for_request(1)
    await until(lambda: len(world.gateway.outbox) == 0)
    await world.die()
    await world.start()
    await work.wait_for_request(2)
    work.say("worked")
    begin.say("it worked")
    assert await world.texts(2) == ["under way", "it worked"]
    await until(lambda: len(world.gateway.outbox) == 0)
    await world.die()
    await world.start()
    await gone(world, until)
    assert await world.ledger() == {"answered": 3}
    assert len(await world.texts(2)) == 2


async def test_a_child_whose_parent_was_stopped_before_a_crash_is_ended_at_the_start(
    world: World, call: Call, until: Until
) -> None:
    """The end of the parent is durable and that of its child is not: nobody wants it any more."""
    work, begin = part(world, "work"), part(world, "begin")
    begin.say([call("delegate", tasks("work"))])
    accepted = await world.accept("begin")
    await work.wait_for_request(1)
    world.gateway.services.subagents.detach()  # as if it died before it came to stop the child
    await world.accept("/stop")
    await world.end_of(accepted)
    await world.die()
    await world.start()
    await gone(world, until)
    assert await world.ledger() == {"superseded": 2, "answered": 1}


async def test_a_deleted_conversation_takes_its_children_with_it(
    world: World, call: Call, until: Until
) -> None:
    work = part(world, "work")
    part(world, "begin").say([call("delegate", tasks("work"))])
    await world.accept("begin")
    await work.wait_for_request(1)
    parent = await parent_of_all(world)
    [child] = await world.store.subagents_below(parent)
    gateway = world.gateway
    await teardown.delete_session(gateway.services, gateway.lanes, gateway.teardown, parent)
    await gone(world, until)
    assert await world.store.session(child.session_id) is None
    assert await world.store.subagent(child.session_id) is None
    assert await world.ledger() == {}


async def test_the_model_chosen_for_a_conversation_is_its_children_s_too(
    world: World, call: Call
) -> None:
    part(world, "look").say("seen")
    part(world, "begin").say([call("delegate", tasks("look"))], "done")
    await world.end_of(await world.accept("/model other"))
    end = await world.end_of(await world.accept("begin"))
    assert end.session_id is not None
    [child] = await world.store.subagents_below(end.session_id)
    replies = [m for m in await world.transcript(child.session_id)]
    assert [m.model for m in replies if isinstance(m, AssistantMessage)] == ["other"]


async def test_usage_and_status_tell_of_children(world: World, call: Call) -> None:
    """What they used counts to the conversation; those at work are named."""
    work = part(world, "work")
    part(world, "begin").say([call("delegate", tasks("work", background=True))], "under way")
    await world.end_of(await world.accept("begin"))
    await work.wait_for_request(1)
    status = await world.end_of(await world.accept("/status"))
    assert "Child agent (in the background): work" in status.text
    assert world.gateway.snapshot()["subagents"] == {"waited": 0, "background": 1}
    part(world, "begin").say("told")
    work.say("worked")
    await part(world, "begin").wait_for_request(3)
    usage = await world.end_of(await world.accept("/usage"))
    assert "Of that, its child agents: 10 tokens in (2 of them cached), 5 out" in usage.text


async def test_a_conversation_has_only_so_many_background_children(
    world: World, call: Call
) -> None:
    await again(world, max_background=1)
    part(world, "one")
    part(world, "begin").say(
        [call("delegate", tasks("one", background=True))],
        [call("delegate", tasks("two", background=True))],
        "one at a time",
    )
    end = await world.end_of(await world.accept("begin"))
    assert end.session_id is not None
    begun, refused = await results(world, end.session_id)
    assert (begun.outcome, refused.outcome) == (ToolOutcome.OK, ToolOutcome.ERROR)
    assert "1 are allowed" in refused.text
    told = await world.end_of(await world.accept("/background three"))
    assert told.text.startswith("Not begun: ")


async def test_a_result_that_comes_after_new_says_which_conversation_it_is_of(
    world: World, call: Call
) -> None:
    """It was on its way when its conversation was left; sent twice, it comes once."""
    work = part(world, "work")
    part(world, "begin").say([call("delegate", tasks("work", background=True))], "under way")
    await world.end_of(await world.accept("begin"))
    await work.wait_for_request(1)
    parent = await parent_of_all(world)
    [child] = await world.store.subagents_below(parent)
    await world.end_of(await world.accept("/new"))
    outbound = Outbound(
        delivery_id=DeliveryId("dlv_x"),
        address=Address(platform="house", account="background", chat_id=child.session_id),
        text="worked",
    )
    door = SubagentPlatform(SubagentKind.BACKGROUND, world.gateway.services.subagents)
    receipts = [await door.send(outbound) for _ in range(2)]
    assert receipts[0] == receipts[1]
    request = await world.model.wait_for_request(1)
    assert f"an earlier conversation here had begun (session {parent})" in request.messages[-1].text
    world.model.say("that was before")


async def test_a_result_for_a_deleted_conversation_is_refused(world: World) -> None:
    outbound = Outbound(
        delivery_id=DeliveryId("dlv_x"),
        address=Address(platform="house", account="background", chat_id="s_gone"),
        text="worked",
    )
    with pytest.raises(SendRejected, match="deleted"):
        await SubagentPlatform(SubagentKind.BACKGROUND, world.gateway.services.subagents).send(
            outbound
        )


async def test_a_result_that_waits_behind_a_turn_is_nobody_s_message_to_be_told_of(
    world: World, call: Call, until: Until
) -> None:
    """The user is told that their message waits, not that ours does."""
    slow, chat = part(world, "slow work"), part(world, "begin")
    chat.say([call("delegate", tasks("slow work", background=True))], "under way")
    world.say("begin")
    await world.sent(1)
    world.say("something else")
    await chat.wait_for_request(3)
    slow.say("42")
    lane = world.gateway.lanes.get(await parent_of_all(world))
    assert lane is not None
    await until(lambda: lane.queued == 1)
    chat.say("about something else", "the answer is 42")
    assert (await world.texts(3))[1:] == ["about something else", "the answer is 42"]


class Wary:
    """Finds every command dangerous."""

    def judge(self, command: str) -> CommandVerdict:
        return CommandVerdict(level=CommandRisk.DANGEROUS, rule="any", why="It does something.")


class Shell(Lever):
    """A lever that runs commands."""

    def command(self, arguments: Arguments) -> str | None:
        return str(arguments["command"])


@pytest.fixture
async def wary(world: World) -> World:
    await world.stop()
    world.more_tools = [*world.more_tools, Shell("shell", ReplayClass.ATTACH)]
    world.judge = Wary()
    await world.start()
    return world


async def test_a_child_that_needs_a_word_asks_in_the_chat_it_works_for(
    wary: World, call: Call, until: Until
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


async def test_stop_ends_a_child_that_waits_for_a_word(
    wary: World, call: Call, until: Until
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
