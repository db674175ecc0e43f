"""Subagents: agents that work for another agent, each in its own session (A11, F9, H2)."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.approvals import AlwaysDangerousJudge, HeldShell
from tests.support.conversation_models import PerConversationModel
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.store_file import open_read_only

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
from holdfast.core.ports.command import Committed
from holdfast.core.ports.store_queries import (
    GetSession,
    GetSubagent,
    GetSubagentsUsage,
    GetTranscript,
    GetTurn,
    ListApprovals,
    ListSessions,
    ListSteps,
    ListSubagentsBelow,
)
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import EndTurn, TurnRowState
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.internal_platforms import SubagentPlatform
from holdfast.testing.scripted_model import USAGE, ScriptedModel


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.model = PerConversationModel()
    configure(harness)
    await harness.start()
    yield harness
    await harness.stop()


def configure(harness: GatewayHarness, **delegate: Any) -> None:
    settings = DelegateSettings(**delegate)
    harness.settings = msgspec.structs.replace(harness.settings, delegate=settings)
    harness.extra_tools = [DelegateTool(settings)]


async def restart_with(harness: GatewayHarness, **delegate: Any) -> None:
    """Restart with other delegate settings."""
    await harness.stop()
    configure(harness, **delegate)
    await harness.start()


def model_for(harness: GatewayHarness, word: str) -> ScriptedModel:
    assert isinstance(harness.model, PerConversationModel)
    return harness.model.model_for(word)


def tasks(*texts: str, **more: Any) -> str:
    return json.dumps({"tasks": [{"task": text} for text in texts], **more})


async def results(harness: GatewayHarness, session_id: SessionId) -> list[ToolMessage]:
    return [m for m in await harness.transcript(session_id) if isinstance(m, ToolMessage)]


async def parent_session(harness: GatewayHarness) -> SessionId:
    (session,) = await harness.store.read(ListSessions(limit=10))
    return session.id


async def wait_for_idle_lanes(harness: GatewayHarness, until: Until) -> None:
    """Wait until every subagent has ended and its lane is removed."""
    await until(lambda: len(harness.gateway.lanes) == 0)


async def test_the_replies_of_subagents_are_the_result_of_the_call(
    harness: GatewayHarness, call: Call
) -> None:
    """Synchronous subagents are one tool result: each reply under its number, in order."""
    model_for(harness, "count apples").say("seven apples")
    model_for(harness, "count pears").say("no pears")
    model_for(harness, "fruit").say(
        [call("delegate", tasks("count apples", "count pears"))], "7 in all"
    )
    end = await harness.end_of(await harness.accept("fruit"))
    assert (end.state, end.text) == (InboxState.ANSWERED, "7 in all")
    assert end.session_id is not None
    [result] = await results(harness, end.session_id)
    assert result.text == "[1] count apples\nseven apples\n\n[2] count pears\nno pears"
    assert result.outcome is ToolOutcome.OK


async def test_a_subagent_has_its_own_turn_and_its_usage_counts_for_its_parent(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """H1: each of its steps is a row; its usage is found through its parent session."""
    model_for(harness, "look").say([call("safe")], "seen")
    model_for(harness, "begin").say([call("delegate", tasks("look"))], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    [subagent] = await harness.store.read(ListSubagentsBelow(session_id=end.session_id))
    [record, *_] = await harness.store.read(GetTranscript(session_id=subagent.session_id))
    assert record.turn_id is not None
    assert [step.kind for step in await harness.store.read(ListSteps(turn_id=record.turn_id))] == [
        "model",
        "tool",
        "model",
    ]
    assert await harness.store.read(GetSubagentsUsage(session_id=end.session_id)) == USAGE + USAGE
    assert (subagent.parent, subagent.depth) == (end.session_id, 1)
    await wait_for_idle_lanes(harness, until)
    session = await harness.store.read(GetSession(session_id=subagent.session_id))
    assert session is not None
    assert session.ended_at is not None


async def test_subagents_are_not_listed_as_conversations(
    harness: GatewayHarness, call: Call
) -> None:
    model_for(harness, "look").say("seen")
    model_for(harness, "begin").say([call("delegate", tasks("look"))], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert [row.id for row in await harness.store.read(ListSessions(limit=10))] == [end.session_id]
    listed = await harness.store.read(ListSessions(limit=10, include_subagents=True))
    assert len(listed) == 2


async def test_twenty_subagents_work_at_the_same_time(harness: GatewayHarness, call: Call) -> None:
    """`parallel` subagents are at work before the first one ends."""
    await restart_with(harness, parallel=20)
    names = [f"task <{n}>" for n in range(20)]
    for name in names:
        model_for(harness, name)
    model_for(harness, "begin").say([call("delegate", tasks(*names))], "all done")
    accepted = await harness.accept("begin")
    async with asyncio.timeout(10):
        await asyncio.gather(*(model_for(harness, name).wait_for_request(1) for name in names))
    session_id = await parent_session(harness)
    assert harness.gateway.subagents.awaited_count(session_id) == 20
    for name in names:
        model_for(harness, name).say(f"did {name}")
    end = await harness.end_of(accepted)
    [result] = await results(harness, session_id)
    assert end.text == "all done"
    assert [f"did {name}" in result.text for name in names] == [True] * 20


async def test_no_more_subagents_than_allowed_work_at_the_same_time(
    harness: GatewayHarness, call: Call
) -> None:
    await restart_with(harness, parallel=1)
    first, second = model_for(harness, "first"), model_for(harness, "second")
    model_for(harness, "begin").say([call("delegate", tasks("first", "second"))], "done")
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
    """The failure of a subagent never ends its parent; the reply of the other one is there."""
    model_for(harness, "bad").say(ModelFailed("the model is ill", fault=ModelFault.AUTH))
    model_for(harness, "good").say("well")
    model_for(harness, "begin").say([call("delegate", tasks("bad", "good"))], "half")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.text == "half"
    assert end.session_id is not None
    [result] = await results(harness, end.session_id)
    assert "[1] bad\n[This subagent failed: the model is ill" in result.text
    assert "[2] good\nwell" in result.text


async def test_a_subagent_that_times_out_is_stopped_and_reported(
    harness: GatewayHarness, call: Call
) -> None:
    await restart_with(harness, time_limit=0.3)
    slow = model_for(harness, "slow")
    slow.say([call("safe")])
    model_for(harness, "begin").say([call("delegate", tasks("slow"))], "without it")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.text == "without it"
    assert end.session_id is not None
    [result] = await results(harness, end.session_id)
    assert "its time was over" in result.text
    assert result.outcome is ToolOutcome.ERROR


async def test_a_subagent_has_the_tools_it_was_given_and_never_more_than_its_parent(
    harness: GatewayHarness, call: Call
) -> None:
    """A subset of the toolsets of the parent; any other is refused by name."""
    given = json.dumps({"tasks": [{"task": "bare", "tools": []}]})
    more = json.dumps({"tasks": [{"task": "bare", "tools": ["terminal"]}]})
    model_for(harness, "bare").say("fine")
    model_for(harness, "begin").say([call("delegate", more)], [call("delegate", given)], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    refused, result = await results(harness, end.session_id)
    assert refused.outcome is ToolOutcome.ERROR
    assert "cannot get 'terminal'; it can get: test, delegate" in refused.text
    assert result.text == "fine"
    [request] = model_for(harness, "bare").requests
    assert request.tools == ()


async def test_the_deepest_subagents_cannot_delegate(harness: GatewayHarness, call: Call) -> None:
    """Depth 2: a subagent may delegate, a nested one has no such tool; the usage of both counts."""
    model_for(harness, "deepest").say("dug")
    model_for(harness, "deeper").say([call("delegate", tasks("deepest"))], "dug on")
    model_for(harness, "begin").say([call("delegate", tasks("deeper"))], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.text == "done"
    [subagent], [nested_subagent] = (
        model_for(harness, "deeper").requests[:1],
        model_for(harness, "deepest").requests,
    )
    assert "delegate" in {tool.name for tool in subagent.tools}
    assert "delegate" not in {tool.name for tool in nested_subagent.tools}
    assert end.session_id is not None
    depths = [
        subagent.depth
        for subagent in await harness.store.read(ListSubagentsBelow(session_id=end.session_id))
    ]
    assert depths == [1, 2]
    assert (
        await harness.store.read(GetSubagentsUsage(session_id=end.session_id))
        == USAGE + USAGE + USAGE
    )


async def test_a_subagent_has_its_own_step_budget(harness: GatewayHarness, call: Call) -> None:
    one_step = json.dumps({"tasks": [{"task": "long", "steps": 1}]})
    model_for(harness, "long").say([call("safe")], "as far as I came")
    model_for(harness, "begin").say([call("delegate", one_step)], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.text == "done"
    last = model_for(harness, "long").requests[-1]
    assert last.tools == (), "its budget is used up, so it must answer"


async def test_stop_ends_the_subagents_that_a_turn_waits_for(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """F9: the turn ends, the turns of its subagents end, and their calls are cancelled."""
    held_tool = harness.held_tools[ReplayClass.NEVER]
    held_tool.go.clear()
    model_for(harness, "pull").say([call("never")])
    model_for(harness, "begin").say([call("delegate", tasks("pull"))])
    accepted = await harness.accept("begin")
    await held_tool.wait_until_started(1)
    parent = await parent_session(harness)
    [subagent] = await harness.store.read(ListSubagentsBelow(session_id=parent))
    await harness.accept("/stop")
    assert (await harness.end_of(accepted)).state is InboxState.SUPERSEDED
    await wait_for_idle_lanes(harness, until)
    assert held_tool.cancelled == held_tool.started
    assert harness.gateway.subagents.awaited_count(parent) == 0
    [result] = await results(harness, subagent.session_id)
    assert result.outcome is ToolOutcome.CANCELLED
    turns = [await turn_state(harness, subagent.session_id), await turn_state(harness, parent)]
    assert turns == [TurnRowState.SUPERSEDED, TurnRowState.SUPERSEDED]


async def turn_state(harness: GatewayHarness, session_id: SessionId) -> TurnRowState:
    record = (await harness.store.read(GetTranscript(session_id=session_id)))[-1]
    assert record.turn_id is not None
    turn = await harness.store.read(GetTurn(turn_id=record.turn_id))
    assert turn is not None
    return turn.state


async def test_stop_reaches_nested_subagents(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    deepest = model_for(harness, "deepest")
    model_for(harness, "deeper").say([call("delegate", tasks("deepest"))])
    model_for(harness, "begin").say([call("delegate", tasks("deeper"))])
    accepted = await harness.accept("begin")
    await deepest.wait_for_request(1)
    await harness.accept("/stop")
    await harness.end_of(accepted)
    await wait_for_idle_lanes(harness, until)
    assert await harness.ledger() == {"superseded": 3, "answered": 1}


async def test_a_message_that_comes_while_subagents_run_is_queued(
    harness: GatewayHarness, call: Call
) -> None:
    """Busy mode `interrupt` becomes `queue` while subagents run."""
    subagent = model_for(harness, "look")
    model_for(harness, "begin").say([call("delegate", tasks("look"))], "done", "and this")
    first = await harness.accept("begin", mergeable=False)
    await subagent.wait_for_request(1)
    second = await harness.accept("and then", mergeable=False)
    subagent.say("seen")
    assert (await harness.end_of(first)).text == "done"
    assert (await harness.end_of(second)).text == "and this"


async def test_new_ends_every_subagent_of_the_conversation(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """A11: close() cascades into subagents, also those in the background."""
    waited, sent_off = model_for(harness, "waited"), model_for(harness, "sent off")
    model_for(harness, "begin").say(
        [call("delegate", tasks("sent off", background=True))], [call("delegate", tasks("waited"))]
    )
    await harness.accept("begin")
    await waited.wait_for_request(1)
    await sent_off.wait_for_request(1)
    await harness.end_of(await harness.accept("/new"))
    await wait_for_idle_lanes(harness, until)
    assert await harness.ledger() == {"superseded": 3, "answered": 1}


async def test_the_work_of_a_subagent_is_shown_as_progress_of_the_call(
    harness: GatewayHarness, call: Call
) -> None:
    held_tool = harness.held_tools[ReplayClass.SAFE]
    held_tool.go.clear()
    model_for(harness, "look").say([call("safe")], "seen")
    model_for(harness, "begin").say([call("delegate", tasks("look"))], "done")
    accepted = await harness.accept("begin")
    await held_tool.wait_until_started(1)
    lane = harness.gateway.lanes.get(await parent_session(harness))
    assert lane is not None
    assert lane.running_turn is not None
    [running] = lane.running_turn.context.output.live.calls
    assert running.output == "look: safe {}\n"
    held_tool.go.set()
    await harness.end_of(accepted)


async def test_the_result_of_a_background_subagent_is_a_message_in_the_chat(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """The call returns at once; the result is a turn of its own, and the user gets its answer."""
    slow = model_for(harness, "slow work")
    model_for(harness, "begin").say(
        [call("delegate", tasks("slow work", background=True))], "it is under way", "it is done"
    )
    harness.say("begin")
    assert await harness.texts(1) == ["it is under way"]
    await slow.wait_for_request(1)
    slow.say("42")
    assert await harness.texts(2) == ["it is under way", "it is done"]
    transcript = await harness.transcript(await parent_session(harness))
    [note] = [m for m in transcript if isinstance(m, NoteMessage)]
    assert note.text.startswith("[System note: the background task “slow work” has ended")
    assert note.text.endswith("\n\n42")
    await wait_for_idle_lanes(harness, until)
    assert await harness.ledger() == {"answered": 3}


async def test_the_conversation_continues_while_a_subagent_works_in_the_background(
    harness: GatewayHarness, call: Call
) -> None:
    """The result waits for the running turn, and does not interrupt it."""
    slow, chat = model_for(harness, "slow work"), model_for(harness, "begin")
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
    work = model_for(harness, "count to ten")
    harness.say("/background count to ten")
    [reply] = await harness.texts(1)
    assert "count to ten" in reply
    await work.wait_for_request(1)
    work.say("1 … 10")
    harness.model.say("It counted to ten.")
    assert (await harness.texts(2))[1] == "It counted to ten."
    await wait_for_idle_lanes(harness, until)
    harness.say("/background")
    assert "TEXT" in (await harness.texts(3))[2]


async def test_the_session_of_a_subagent_ends_in_the_commit_that_ends_its_task(
    harness: GatewayHarness, call: Call
) -> None:
    """A11: a crash after that commit leaves no session open."""
    ended: list[object] = []

    def look(event: Committed) -> None:
        with open_read_only(harness.path) as cursor:
            query = "SELECT ended_at IS NOT NULL FROM sessions WHERE id = ?"
            ended.append(cursor.execute(query, (event.command.scope.session_id,)).get)

    harness.store.events.on_committed(look, EndTurn)
    model_for(harness, "count apples").say("seven apples")
    harness.model.say([call("delegate", tasks("count apples"))], "7 in all")
    assert (await harness.end_of(await harness.accept("fruit"))).text == "7 in all"
    assert ended == [True, False]


async def test_readers_hear_of_the_session_that_a_background_subagent_works_for(
    harness: GatewayHarness,
) -> None:
    """Its commit opens that session, in a chat that had none."""
    work = model_for(harness, "count to ten")
    with harness.gateway.feeds.read_changes() as changes:
        harness.say("/background count to ten")
        await work.wait_for_request(1)
        changed = set(changes.sessions)
    sessions = await harness.store.read(ListSessions(limit=10))
    (parent,) = (each.id for each in sessions if each.route.startswith("simulated:"))
    assert parent in changed


async def test_stop_names_background_work_and_stop_all_ends_it(
    harness: GatewayHarness, until: Until
) -> None:
    work = model_for(harness, "count to ten")
    harness.say("/background count to ten")
    await work.wait_for_request(1)
    harness.say("/stop")
    assert "count to ten" in (await harness.texts(2))[1]
    assert "/stop all" in (await harness.texts(2))[1]
    harness.say("/stop all")
    assert (await harness.texts(3))[2].startswith("Stopped")
    await wait_for_idle_lanes(harness, until)
    assert len(await harness.texts(3)) == 3


async def test_a_nested_subagent_does_not_work_in_the_background(
    harness: GatewayHarness, call: Call
) -> None:
    model_for(harness, "deeper").say(
        [call("delegate", tasks("later", background=True))], "I could not"
    )
    model_for(harness, "begin").say([call("delegate", tasks("deeper"))], "done")
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    assert [result.text for result in await results(harness, end.session_id)] == ["I could not"]


async def test_subagents_survive_a_crash_and_their_parent_gets_each_result_once(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """H2, G2: one subagent had ended, the other had not; the call finds both by its id."""
    quick, slow = model_for(harness, "quick"), model_for(harness, "slow")
    begin = model_for(harness, "begin")
    quick.say("was quick")
    begin.say([call("delegate", tasks("quick", "slow"))])
    harness.say("begin")
    await slow.wait_for_request(1)
    parent = await parent_session(harness)
    await until(lambda: harness.gateway.subagents.awaited_count(parent) == 1)
    await harness.die()
    await harness.start()
    slow.say("was slow")
    begin.say("both are back")
    assert await harness.texts(1) == ["both are back"]
    [result] = await results(harness, parent)
    assert result.text == "[1] quick\nwas quick\n\n[2] slow\nwas slow"
    assert len(quick.requests) == 1
    assert len(await harness.store.read(ListSubagentsBelow(session_id=parent))) == 2
    await wait_for_idle_lanes(harness, until)
    assert await harness.ledger() == {"answered": 3}


async def test_subagents_survive_a_stop_of_the_gateway(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """C4, H3: a stop of the gateway ends no subagent; the waiting call is not interrupted."""
    work, begin = model_for(harness, "work"), model_for(harness, "begin")
    begin.say([call("delegate", tasks("work"))])
    harness.say("begin")
    await work.wait_for_request(1)
    await harness.stop()
    await harness.start()
    await work.wait_for_request(2)
    work.say("worked")
    begin.say("all is done")
    assert await harness.texts(1) == ["all is done"]
    [result] = await results(harness, await parent_session(harness))
    assert (result.text, result.outcome) == ("worked", ToolOutcome.OK)


async def test_a_background_subagent_survives_a_crash_and_its_result_arrives_once(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    work, begin = model_for(harness, "work"), model_for(harness, "begin")
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
    await wait_for_idle_lanes(harness, until)
    assert await harness.ledger() == {"answered": 3}
    assert len(await harness.texts(2)) == 2


async def test_a_subagent_whose_parent_was_stopped_before_a_crash_is_ended_at_the_start(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """The end of the parent is durable, that of its subagent is not: its result is not needed."""
    work, begin = model_for(harness, "work"), model_for(harness, "begin")
    begin.say([call("delegate", tasks("work"))])
    accepted = await harness.accept("begin")
    await work.wait_for_request(1)
    harness.gateway.subagents.detach()  # as if it crashed before it stopped the subagent
    await harness.accept("/stop")
    await harness.end_of(accepted)
    await harness.die()
    await harness.start()
    await wait_for_idle_lanes(harness, until)
    assert await harness.ledger() == {"superseded": 2, "answered": 1}


async def test_deleting_a_conversation_deletes_its_subagents(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    work = model_for(harness, "work")
    model_for(harness, "begin").say([call("delegate", tasks("work"))])
    await harness.accept("begin")
    await work.wait_for_request(1)
    parent = await parent_session(harness)
    [subagent] = await harness.store.read(ListSubagentsBelow(session_id=parent))
    gateway = harness.gateway
    await gateway.delete_session(parent)
    await wait_for_idle_lanes(harness, until)
    assert await harness.store.read(GetSession(session_id=subagent.session_id)) is None
    assert await harness.store.read(GetSubagent(session_id=subagent.session_id)) is None
    assert await harness.ledger() == {}


async def test_subagents_use_the_model_of_their_conversation(
    harness: GatewayHarness, call: Call
) -> None:
    model_for(harness, "look").say("seen")
    model_for(harness, "begin").say([call("delegate", tasks("look"))], "done")
    await harness.end_of(await harness.accept("/model other"))
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    [subagent] = await harness.store.read(ListSubagentsBelow(session_id=end.session_id))
    replies = [m for m in await harness.transcript(subagent.session_id)]
    assert [m.model for m in replies if isinstance(m, AssistantMessage)] == ["other"]


async def test_usage_and_status_include_subagents(harness: GatewayHarness, call: Call) -> None:
    """Their usage counts for the conversation; running ones are named."""
    work = model_for(harness, "work")
    model_for(harness, "begin").say([call("delegate", tasks("work", background=True))], "under way")
    await harness.end_of(await harness.accept("begin"))
    await work.wait_for_request(1)
    status = await harness.end_of(await harness.accept("/status"))
    assert "Subagent in the background: work" in status.text
    assert harness.gateway.snapshot()["subagents"] == {"waited": 0, "background": 1}
    model_for(harness, "begin").say("told")
    work.say("worked")
    await model_for(harness, "begin").wait_for_request(3)
    usage = await harness.end_of(await harness.accept("/usage"))
    assert "Of that, its subagents: 10 tokens in (2 of them cached), 5 out" in usage.text


async def test_the_number_of_background_subagents_is_limited(
    harness: GatewayHarness, call: Call
) -> None:
    await restart_with(harness, max_background=1)
    model_for(harness, "one")
    model_for(harness, "begin").say(
        [call("delegate", tasks("one", background=True))],
        [call("delegate", tasks("two", background=True))],
        "one at a time",
    )
    end = await harness.end_of(await harness.accept("begin"))
    assert end.session_id is not None
    begun, refused = await results(harness, end.session_id)
    assert (begun.outcome, refused.outcome) == (ToolOutcome.OK, ToolOutcome.ERROR)
    assert "1 are allowed" in refused.text
    reply = await harness.end_of(await harness.accept("/background three"))
    assert reply.text.startswith("Not started: ")


async def test_a_result_after_new_names_its_earlier_conversation(
    harness: GatewayHarness, call: Call
) -> None:
    """The result arrives after its conversation was left; sent twice, it arrives once."""
    work = model_for(harness, "work")
    model_for(harness, "begin").say([call("delegate", tasks("work", background=True))], "under way")
    await harness.end_of(await harness.accept("begin"))
    await work.wait_for_request(1)
    parent = await parent_session(harness)
    [subagent] = await harness.store.read(ListSubagentsBelow(session_id=parent))
    await harness.end_of(await harness.accept("/new"))
    outbound = Outbound(
        delivery_id=DeliveryId("dlv_x"),
        address=Address(platform="house", account="background", chat_id=subagent.session_id),
        text="worked",
    )
    platform = SubagentPlatform(SubagentKind.BACKGROUND, harness.gateway.subagents)
    receipts = [await platform.send(outbound) for _ in range(2)]
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
        await SubagentPlatform(SubagentKind.BACKGROUND, harness.gateway.subagents).send(outbound)


async def test_a_queued_subagent_result_sends_no_busy_notice(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """Only a message of a user gets a busy notice."""
    slow, chat = model_for(harness, "slow work"), model_for(harness, "begin")
    chat.say([call("delegate", tasks("slow work", background=True))], "under way")
    harness.say("begin")
    await harness.sent(1)
    harness.say("something else")
    await chat.wait_for_request(3)
    slow.say("42")
    lane = harness.gateway.lanes.get(await parent_session(harness))
    assert lane is not None
    await until(lambda: lane.queued == 1)
    chat.say("about something else", "the answer is 42")
    assert (await harness.texts(3))[1:] == ["about something else", "the answer is 42"]


@pytest.fixture
async def guarded_harness(harness: GatewayHarness) -> GatewayHarness:
    await harness.stop()
    harness.extra_tools = [*harness.extra_tools, HeldShell()]
    harness.judge = AlwaysDangerousJudge()
    await harness.start()
    return harness


async def test_a_subagent_asks_for_approval_in_the_chat_it_works_for(
    guarded_harness: GatewayHarness, call: Call, until: Until
) -> None:
    """J3: the question is sent to the chat of the parent, and the answer reaches the subagent."""
    model_for(guarded_harness, "tidy up").say([call("shell", '{"command": "rm -r old"}')], "tidied")
    model_for(guarded_harness, "begin").say([call("delegate", tasks("tidy up"))], "all is tidy")
    guarded_harness.say("begin")
    [question] = await guarded_harness.texts(1)
    assert "rm -r old" in question
    guarded_harness.say("yes")
    texts = await guarded_harness.texts(3)
    assert texts[-1] == "all is tidy"
    [result] = await results(guarded_harness, await parent_session(guarded_harness))
    assert result.text == "tidied"
    await wait_for_idle_lanes(guarded_harness, until)


async def test_stop_ends_a_subagent_that_waits_for_approval(
    guarded_harness: GatewayHarness, call: Call, until: Until
) -> None:
    model_for(guarded_harness, "tidy up").say([call("shell", '{"command": "rm -r old"}')])
    model_for(guarded_harness, "begin").say([call("delegate", tasks("tidy up"))])
    guarded_harness.say("begin")
    await guarded_harness.texts(1)
    await until(lambda: guarded_harness.gateway.lanes.count(LaneState.WAITING) == 1)
    guarded_harness.say("/stop")
    await wait_for_idle_lanes(guarded_harness, until)
    assert await guarded_harness.ledger() == {"superseded": 2, "answered": 1}
    assert await guarded_harness.store.read(ListApprovals(limit=5, pending=True)) == []
