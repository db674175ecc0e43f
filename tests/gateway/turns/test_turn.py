"""Tests of a turn: its steps are committed as they happen, and it always ends (H1 to H7)."""

import asyncio
import gc
from typing import NoReturn
from weakref import WeakSet

import msgspec
import pytest
from tests.gateway.turns.turn_helpers import session_of, tool_results, turn_of
from tests.support.gateway_harness import Call, GatewayHarness, Until

from holdfast.core.config.settings import AgentSettings
from holdfast.core.messages.events import MessageEnded, TextStreamed
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.transcript import NoteMessage, ToolMessage, ToolOutcome, UserMessage
from holdfast.core.ports.store_queries import GetSession, GetTurn, ListSessions, ListSteps
from holdfast.core.secrets import Secret
from holdfast.core.turns.projection import project, projection_problems
from holdfast.core.turns.tool import ReplayClass
from holdfast.core.turns.turn import StepKind
from holdfast.gateway.turns.turn import Turn
from holdfast.testing.scripted_model import ScriptedModel
from holdfast.testing.simulated.events import Faults


class UnleasableModel(ScriptedModel):
    """A model that no agent can lease."""

    def lease(self, override: str | None = None) -> NoReturn:
        raise ValueError("no such model")


async def test_a_turn_with_tools_commits_each_step(harness: GatewayHarness, call: Call) -> None:
    """H1: model reply, call started and finished, final reply, in that order."""
    harness.model.say([call("safe")], [call("never")], "all done")
    ended = await harness.end_of(await harness.accept("go"))
    steps = await harness.store.read(ListSteps(turn_id=turn_of(ended)))
    kinds = [StepKind.MODEL, StepKind.TOOL, StepKind.MODEL, StepKind.TOOL, StepKind.MODEL]
    assert [step.kind for step in steps] == kinds
    assert all(step.finished_at is not None for step in steps)
    assert ended.usage.input_tokens == 30
    turn = await harness.store.read(GetTurn(turn_id=turn_of(ended)))
    assert turn is not None
    assert turn.usage == ended.usage


async def test_calls_get_ids_of_our_own_that_are_never_used_twice(
    harness: GatewayHarness, call: Call
) -> None:
    """H2: providers reuse ids; a runner that knew one would return the old result."""
    same = call("safe")
    harness.model.say([same, same], [same], "done")
    ended = await harness.end_of(await harness.accept("go"))
    calls = harness.held_tools[ReplayClass.SAFE].started
    assert len(set(calls)) == 3
    messages = await harness.transcript(session_of(ended))
    assert {m.call_id for m in messages if isinstance(m, ToolMessage)} == set(calls)


async def test_a_turn_stopped_in_a_model_call_resumes(
    harness: GatewayHarness,
) -> None:
    """H3: a turn interrupted by a stop resumes by itself and finishes the request."""
    harness.say("work")
    await harness.model.wait_for_request(1)
    await harness.stop()
    await harness.start()
    request = await harness.model.wait_for_request(2)
    assert request.messages[0] == UserMessage(text="work")
    assert isinstance(request.messages[1], NoteMessage)
    assert request.messages[1].text.startswith("[System note:")
    harness.model.say("worked")
    await harness.sent(1)
    assert await harness.ledger() == {"answered": 1}


@pytest.mark.parametrize("replay", list(ReplayClass))
async def test_a_call_that_a_crash_left_open_is_settled_by_its_class(
    harness: GatewayHarness, call: Call, replay: ReplayClass
) -> None:
    """H2: attach asks the runner, safe runs again, never stays unknown."""
    tool = harness.held_tools[replay]
    tool.go.clear()
    harness.model.say([call(replay)])
    accepted = await harness.accept("go")
    await tool.wait_until_started(1)
    await harness.die()
    tool.known[tool.started[0]] = "the true result"
    tool.go.set()
    harness.model.say("done")
    await harness.start()
    ended = await harness.end_of(accepted)
    assert ended.text == "done"
    result = tool_results(await harness.transcript(session_of(ended)))[0]
    match replay:
        case ReplayClass.ATTACH:
            assert (result.text, len(tool.started)) == ("the true result", 1)
        case ReplayClass.SAFE:
            assert (result.text, len(tool.started)) == ("pulled safe 2", 2)
        case ReplayClass.NEVER:
            assert (result.outcome, len(tool.started)) == (ToolOutcome.UNKNOWN, 1)
            assert "check before you repeat" in result.text


async def test_a_call_that_the_runner_does_not_know_is_run(
    harness: GatewayHarness, call: Call
) -> None:
    """H2: the runner records a call before it begins, so an unknown one never began."""
    tool = harness.held_tools[ReplayClass.ATTACH]
    tool.go.clear()
    harness.model.say([call("attach")])
    accepted = await harness.accept("go")
    await tool.wait_until_started(1)
    await harness.die()
    tool.go.set()
    harness.model.say("done")
    await harness.start()
    assert (await harness.end_of(accepted)).text == "done"
    assert (len(tool.attached), len(tool.started)) == (1, 2)


async def test_finished_calls_are_not_run_again(harness: GatewayHarness, call: Call) -> None:
    """H1: a restart resumes from the last committed step."""
    harness.model.say([call("never")])
    accepted = await harness.accept("go")
    await harness.model.wait_for_request(2)
    await harness.die()
    await harness.start()
    await harness.model.wait_for_request(3)
    harness.model.say("done")
    assert (await harness.end_of(accepted)).text == "done"
    assert len(harness.held_tools[ReplayClass.NEVER].started) == 1


async def test_an_interrupt_gives_every_open_call_a_result_in_one_commit(
    harness: GatewayHarness, call: Call
) -> None:
    """H7: cancelled where it had started, not started if it had not."""
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("never"), call("attach")])
    harness.say("go")
    await tool.wait_until_started(1)
    harness.say("stop that, do this")
    request = await harness.model.wait_for_request(2)
    outcomes = [m.outcome for m in request.messages if isinstance(m, ToolMessage)]
    assert outcomes == [ToolOutcome.CANCELLED, ToolOutcome.NOT_STARTED]
    assert projection_problems(request.messages) == []
    assert len(tool.cancelled) == 1
    harness.model.say("this is done")
    await harness.sent(1)


async def test_an_interrupt_takes_effect_at_once(harness: GatewayHarness, call: Call) -> None:
    """H7: a turn is interruptible at every await. The promise is 100 ms; the test counts iterations
    of the event loop instead, which do not depend on the load of the machine."""
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("never")])
    harness.say("go")
    await tool.wait_until_started(1)
    lane = harness.gateway.lanes.get(await harness.only_session())
    assert lane is not None
    lane.stop([], [])
    for _ in range(20):
        await asyncio.sleep(0)
    assert tool.cancelled


async def test_a_stop_of_the_gateway_gives_killed_calls_a_result_and_leaves_the_turn_open(
    harness: GatewayHarness, call: Call
) -> None:
    """H7: the killed calls get the same results as by an interrupt, and the turn stays open."""
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("never"), call("safe")])
    accepted = await harness.accept("go")
    await tool.wait_until_started(1)
    await harness.stop()
    tool.go.set()
    harness.model.say("done")
    await harness.start()
    ended = await harness.end_of(accepted)
    assert ended.text == "done"
    outcomes = [r.outcome for r in tool_results(await harness.transcript(session_of(ended)))]
    assert outcomes == [ToolOutcome.CANCELLED, ToolOutcome.OK]
    assert len(tool.started) == 1


async def test_three_interrupted_runs_in_a_row_suspend_the_session(harness: GatewayHarness) -> None:
    """H3, F7: the first run and two resumes; then it fails with a notice, and a fresh one opens."""
    harness.say("work")
    for run in range(1, 4):
        await harness.model.wait_for_request(run)
        await harness.stop()
        await harness.start()
    (notice,) = await harness.texts(1)
    assert "interrupted 3 times" in notice
    assert await harness.ledger() == {"failed": 1}
    harness.model.say("hello again")
    harness.say("hi")
    _, notice, reply = await harness.texts(3)
    assert ("fresh conversation" in notice, reply) == (True, "hello again")
    note, user = harness.model.requests[-1].messages
    assert ("suspended" in note.text, user.text) == (True, "hi")
    assert len(await harness.store.read(ListSessions(limit=5))) == 2


async def test_a_completed_turn_resets_the_interruption_count(harness: GatewayHarness) -> None:
    """F7: only interruptions in a row count."""
    for round_ in range(2):
        harness.say(f"work {round_}")
        await harness.model.wait_for_request(2 * round_ + 1)
        await harness.stop()
        await harness.start()
        await harness.model.wait_for_request(2 * round_ + 2)
        harness.model.say("done")
        await harness.sent(round_ + 1)
    session = await harness.store.read(GetSession(session_id=await harness.only_session()))
    assert session is not None
    assert session.interruptions == 0


async def test_a_reply_that_was_committed_is_sent_and_not_made_again(
    harness: GatewayHarness, until: Until
) -> None:
    """H4, I1: the end of the turn and its deliveries commit together."""
    harness.say("hi")
    await harness.model.wait_for_request(1)
    harness.service.set_faults(Faults(disconnected=True))
    harness.model.say("hello")

    async def ended() -> bool:
        return bool(await harness.ledger() == {"answered": 1})

    await until(ended)
    await harness.die()
    harness.service.set_faults(Faults())
    await harness.start()
    assert await harness.texts(1) == ["hello"]
    assert len(harness.model.requests) == 1


async def test_the_step_budget_ends_in_an_answer(harness: GatewayHarness, call: Call) -> None:
    """A turn that uses its steps up is asked for an answer without tools."""
    await harness.stop()
    harness.settings = msgspec.structs.replace(harness.settings, agent=AgentSettings(max_steps=2))
    await harness.start()
    harness.model.say([call("safe")], [call("safe")], "this far I came")
    ended = await harness.end_of(await harness.accept("go"))
    assert ended.text == "this far I came"
    last = harness.model.requests[-1]
    assert last.tools == ()
    assert "budget" in last.messages[-1].text


async def test_invalid_calls_are_reported_to_the_model(harness: GatewayHarness, call: Call) -> None:
    """Invalid input of the model gets a helpful error, and the turn continues."""
    harness.model.say([call("nosuch"), call("safe", "{broken"), call("safe", "[1]")], "sorry")
    ended = await harness.end_of(await harness.accept("go"))
    assert ended.state is InboxState.ANSWERED
    results = tool_results(await harness.transcript(session_of(ended)))
    assert [r.outcome for r in results] == [ToolOutcome.ERROR] * 3
    assert "safe" in results[0].text
    assert "JSON" in results[1].text
    assert projection_problems(project(await harness.transcript(session_of(ended)))) == []


async def test_secrets_in_a_tools_output_reach_neither_store_nor_model(
    harness: GatewayHarness, call: Call
) -> None:
    """Law 13: redaction knows their exact values."""
    await harness.stop()
    harness.secrets = [Secret("the true result")]
    await harness.start()
    tool = harness.held_tools[ReplayClass.ATTACH]
    tool.go.clear()
    harness.model.say([call("attach")])
    accepted = await harness.accept("go")
    await tool.wait_until_started(1)
    await harness.die()
    tool.known[tool.started[0]] = "it says: the true result!"
    harness.model.say("done")
    await harness.start()
    ended = await harness.end_of(accepted)
    (result,) = tool_results(await harness.transcript(session_of(ended)))
    assert result.text == "it says: [redacted]!"


async def test_two_sessions_run_at_the_same_time(harness: GatewayHarness) -> None:
    """H5: one session, one turn at a time; two sessions, two."""
    one = await harness.accept("one", chat="a")
    two = await harness.accept("two", chat="b")
    await harness.model.wait_for_request(2)
    harness.model.say("x", "y")
    texts = {(await harness.end_of(accepted)).text for accepted in (one, two)}
    assert texts == {"x", "y"}


async def test_an_empty_answer_is_reported_as_empty(harness: GatewayHarness) -> None:
    harness.model.say("")
    ended = await harness.end_of(await harness.accept("hi"))
    assert ended.text == "(The model gave an empty answer.)"


async def test_a_late_subscriber_gets_the_text_streamed_before(
    harness: GatewayHarness, call: Call
) -> None:
    """A late subscriber misses nothing of the current step."""
    tool = harness.held_tools[ReplayClass.SAFE]
    tool.go.clear()
    harness.model.say([call("safe")], "a few words")
    accepted = await harness.accept("go", busy_mode=BusyMode.QUEUE)
    await tool.wait_until_started(1)
    tool.go.set()
    events = await harness.events_of(accepted)
    text = "".join(e.text for e in events if isinstance(e, TextStreamed))
    assert text.strip() == "a few words"
    assert isinstance(events[-1], MessageEnded)
    assert events[-1].text == "a few words"


async def test_a_session_without_an_agent_fails_its_messages_and_nothing_else(
    harness: GatewayHarness,
) -> None:
    """G3: the sender is told why no agent could be built; other sessions continue."""
    model = harness.model
    await harness.stop()
    harness.model = UnleasableModel()
    await harness.start()
    first = await harness.end_of(await harness.accept("hi"))
    assert (first.state, "no such model" in first.text) == (InboxState.FAILED, True)
    await harness.stop()
    harness.model = model
    await harness.start()
    harness.model.say("hello")
    assert (await harness.end_of(await harness.accept("hi"))).text == "hello"
    assert await harness.ledger() == {"failed": 1, "answered": 1}


async def test_an_interrupted_turn_whose_agent_cannot_be_built_fails(
    harness: GatewayHarness, call: Call
) -> None:
    """G3, H3: also where the turn was begun by an earlier process."""
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("never")])
    accepted = await harness.accept("go")
    await tool.wait_until_started(1)
    await harness.die()
    harness.model = UnleasableModel()
    await harness.start()
    ended = await harness.end_of(accepted)
    assert ended.state is InboxState.FAILED
    assert projection_problems(project(await harness.transcript(session_of(ended)))) == []


async def test_an_ended_turn_is_freed_without_garbage_collection(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """Memory is proportional to running turns: reference cycles would stay by the thousand, and
    collecting them was a thirtieth of the cost of a turn."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    others_before = WeakSet(_turns())
    try:
        harness.model.say([call("safe")], "done", "and again")
        for text in ("with a tool", "without"):
            await harness.end_of(await harness.accept(text))
        await until(lambda: others_before.issuperset(_turns()))
    finally:
        if enabled:
            gc.enable()


def _turns() -> list[Turn]:
    return [each for each in gc.get_objects() if type(each) is Turn]
