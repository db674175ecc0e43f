"""Tests of compaction: a long session continues under the same id and loses nothing."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.long_conversations import ask, fill_window, long_text
from tests.support.memory_provider import RecordingMemoryProvider
from tests.support.two_models import auxiliary_model, small_harness, with_auxiliary

from holdfast.core.config.settings import AuxiliarySettings
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.transcript import (
    CompactionMessage,
    Message,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.people.memory import MemoryHook
from holdfast.core.ports.store_queries import (
    GetAuxiliaryUsage,
    GetContext,
    GetTranscript,
    ListSteps,
)
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import (
    AuxiliaryTask,
    ModelFailed,
    ModelFault,
    ModelRequest,
    ToolSchema,
)
from holdfast.core.turns.projection import RESULT_OMITTED, projection_problems
from holdfast.core.turns.tool import Arguments, Danger, ReplayClass, ToolContext, ToolOutput
from holdfast.core.turns.turn import StepKind


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = small_harness(tmp_path, auxiliary=AuxiliarySettings(model="helper", titles=False))
    await harness.start()
    yield harness
    await harness.stop()


def request_text(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


async def compaction_records(harness: GatewayHarness) -> list[CompactionMessage]:
    messages = await harness.transcript(await harness.only_session())
    return [message for message in messages if isinstance(message, CompactionMessage)]


async def test_older_messages_are_summarised_before_the_window_is_full(
    harness: GatewayHarness,
) -> None:
    """Law 2: the session keeps its id and its transcript, and the last messages stay verbatim."""
    await fill_window(harness)
    auxiliary_model(harness).say("They talked about three questions.")
    assert await ask(harness, long_text("question4"), "the answer") == "the answer"
    (record,) = await compaction_records(harness)
    request = harness.model.requests[-1]
    assert isinstance(request.messages[0], NoteMessage)
    assert "They talked about three questions." in request.messages[0].text
    assert "question1" not in request_text(request)
    assert long_text("question4") in request_text(request)
    assert projection_problems(request.messages) == []
    transcript = await harness.transcript(await harness.only_session())
    assert sum("question1" in message.text for message in transcript) >= 1
    assert record.covers < len(transcript)


async def test_a_summary_is_a_step_of_its_turn_with_its_usage(harness: GatewayHarness) -> None:
    await fill_window(harness)
    auxiliary_model(harness).say("short")
    harness.model.say("ok")
    ended = await harness.end_of(await harness.accept(long_text("question4")))
    assert ended.turn_id is not None
    steps = await harness.store.read(ListSteps(turn_id=ended.turn_id))
    assert [step.kind for step in steps] == [StepKind.COMPACTION, StepKind.MODEL]
    assert steps[0].usage.input_tokens > 500
    assert ended.usage.input_tokens == sum(step.usage.input_tokens for step in steps)


async def test_a_summarised_history_stays_byte_identical(
    harness: GatewayHarness,
) -> None:
    """A4: across turns, eviction and a restart, so that the provider's cache keeps hitting."""
    await fill_window(harness)
    auxiliary_model(harness).say("the summary")
    await ask(harness, long_text("question4"), "ok")
    seen: list[tuple[Message, ...]] = [harness.model.requests[-1].messages]
    await ask(harness, "next", "ok")
    seen.append(harness.model.requests[-1].messages)
    harness.gateway.cache.drop(await harness.only_session())
    await ask(harness, "evicted", "ok")
    seen.append(harness.model.requests[-1].messages)
    await harness.stop()
    await harness.start()
    await ask(harness, "restarted", "ok")
    seen.append(harness.model.requests[-1].messages)
    for before, after in itertools.pairwise(seen):
        assert after[: len(before)] == before
    assert len(auxiliary_model(harness).requests) == 1


async def test_an_agent_is_built_without_the_messages_its_summary_covers(
    harness: GatewayHarness,
) -> None:
    await fill_window(harness)
    auxiliary_model(harness).say("the summary")
    await ask(harness, long_text("question4"), "ok")
    session_id = await harness.only_session()
    skipped, left = await harness.store.read(GetContext(session_id=session_id))
    whole = await harness.store.read(GetTranscript(session_id=session_id))
    assert skipped > 0
    assert left == whole[skipped:]


async def test_a_kill_in_the_middle_of_a_summary_leaves_the_history_as_it_was(
    harness: GatewayHarness,
) -> None:
    """H1, H3: nothing of it is stored, and the turn resumes in the next process."""
    await fill_window(harness)
    accepted = await harness.accept(long_text("question4"))
    await auxiliary_model(harness).wait_for_request(1)
    await harness.die()
    await harness.start()
    assert await compaction_records(harness) == []
    await auxiliary_model(harness).wait_for_request(2)
    auxiliary_model(harness).say("the summary")
    harness.model.say("answered after all")
    assert (await harness.end_of(accepted)).text == "answered after all"
    assert "question1" not in request_text(harness.model.requests[-1])


BAD_SUMMARIES: dict[str, str | ModelFailed] = {
    "failing": ModelFailed("no", fault=ModelFault.AUTH),
    "empty": "   ",
    "too long": "x" * 40_000,
}


@pytest.mark.parametrize("kind", BAD_SUMMARIES)
async def test_a_bad_summary_is_requested_again_and_then_skipped(
    harness: GatewayHarness, kind: str
) -> None:
    """A failing summary never loses history."""
    await fill_window(harness)
    auxiliary_model(harness).say(BAD_SUMMARIES[kind], BAD_SUMMARIES[kind])
    assert await ask(harness, long_text("question4"), "answered") == "answered"
    assert await compaction_records(harness) == []
    assert long_text("question1") in request_text(harness.model.requests[-1])
    assert len(auxiliary_model(harness).requests) == 2
    used = await harness.store.read(GetAuxiliaryUsage(session_id=await harness.only_session()))
    assert (AuxiliaryTask.SUMMARY in used) is (kind != "failing"), "also if it is rejected"


async def test_a_second_attempt_at_a_summary_can_succeed(harness: GatewayHarness) -> None:
    await fill_window(harness)
    auxiliary_model(harness).say("", "good")
    await ask(harness, long_text("question4"), "ok")
    (record,) = await compaction_records(harness)
    assert record.text == "good"


async def test_a_summary_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    auxiliary = AuxiliarySettings(model="helper", titles=False, timeout=0.05)
    harness = small_harness(tmp_path, auxiliary=auxiliary)
    await harness.start()
    try:
        await fill_window(harness)
        assert await ask(harness, long_text("question4"), "answered") == "answered"
        assert await compaction_records(harness) == []
    finally:
        await harness.stop()


class LongResultTool:
    """A tool whose result is long."""

    toolset = "test"
    danger = Danger.NONE
    replay = ReplayClass.SAFE
    schema = ToolSchema(name="long_result", description="x", parameters={"type": "object"})

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        return ToolOutput(text=f"result of {context.call_id} ".ljust(3_000, "!"))

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return None


async def test_the_oldest_tool_results_are_omitted_if_summaries_are_off(
    harness: GatewayHarness, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    """The model and the log are told; the transcript keeps the results."""
    await harness.stop()
    harness.settings = with_auxiliary(harness.settings, summaries=False)
    harness.extra_tools = [LongResultTool()]
    await harness.start()
    for _ in range(6):
        harness.model.say([call("long_result")])
    harness.model.say("done")
    ended = await harness.end_of(await harness.accept("make long results"))
    assert ended.text == "done"
    results = [m for m in harness.model.requests[-1].messages if isinstance(m, ToolMessage)]
    left_out = [message.text == RESULT_OMITTED for message in results]
    assert left_out[0]
    assert not left_out[-1]
    assert left_out == sorted(left_out, reverse=True)
    assert projection_problems(harness.model.requests[-1].messages) == []
    transcript = await harness.transcript(await harness.only_session())
    assert not any(message.text == RESULT_OMITTED for message in transcript)
    assert any("left out" in record.message for record in caplog.records)


async def test_a_request_refused_as_too_long_is_shortened_and_sent_again(
    harness: GatewayHarness,
) -> None:
    """Once, whatever the configured window."""
    await fill_window(harness, exchanges=2)
    auxiliary_model(harness).say("the summary")
    harness.model.say(ModelFailed("too long", fault=ModelFault.CONTEXT_TOO_LONG))
    assert await ask(harness, "and now?", "answered") == "answered"
    assert len(await compaction_records(harness)) == 1
    refused, taken = harness.model.requests[-2:]
    assert len(request_text(taken)) < len(request_text(refused))
    assert "and now?" in request_text(taken)


async def test_a_request_that_stays_too_long_fails(
    harness: GatewayHarness,
) -> None:
    await fill_window(harness, exchanges=2)
    auxiliary_model(harness).say("the summary")
    too_long = ModelFailed("still too long", fault=ModelFault.CONTEXT_TOO_LONG)
    harness.model.say(too_long, too_long)
    ended = await harness.end_of(await harness.accept("and now?"))
    assert ended.state is InboxState.FAILED
    assert "still too long" in ended.text


async def test_the_next_summary_includes_the_earlier_one(harness: GatewayHarness) -> None:
    await fill_window(harness)
    auxiliary_model(harness).say("FIRST SUMMARY")
    await ask(harness, long_text("question4"))
    auxiliary_model(harness).say("SECOND SUMMARY")
    for number in range(5, 9):
        await ask(harness, long_text(f"question{number}"))
        if len(auxiliary_model(harness).requests) == 2:
            break
    assert "FIRST SUMMARY" in request_text(auxiliary_model(harness).requests[1])
    shown = request_text(harness.model.requests[-1])
    assert "SECOND SUMMARY" in shown
    assert "FIRST SUMMARY" not in shown


async def test_a_long_turn_is_summarised_between_its_steps_and_keeps_its_request_verbatim(
    harness: GatewayHarness, call: Call
) -> None:
    """H1: no call is separated from its result."""
    auxiliary_model(harness).say("first steps done", "more steps done", "still more")
    steps = 14
    for _ in range(steps):
        harness.model.say([call("never", f'{{"note": "{"y" * 900}"}}')])
    harness.model.say("finished")
    ended = await harness.end_of(await harness.accept("count all the stars, please"))
    assert ended.text == "finished"
    assert len(await compaction_records(harness)) >= 1
    assert len(harness.held_tools[ReplayClass.NEVER].started) == steps
    for request in harness.model.requests:
        assert projection_problems(request.messages) == []
        assert "count all the stars, please" in request_text(request)


async def test_a_message_during_compaction_is_queued(harness: GatewayHarness, until: Until) -> None:
    """G4: interrupt becomes queue while compaction runs."""
    for number in range(1, 4):
        harness.model.say(long_text(f"re{number}"))
        harness.say(long_text(f"question{number}"))
        await harness.sent(number)
        await until(lambda: len(harness.gateway.lanes) == 0)
    harness.say(long_text("question4"))
    await auxiliary_model(harness).wait_for_request(1)
    harness.say("impatient")
    await until(lambda: sum(lane.queued for lane in harness.gateway.lanes) == 1)
    auxiliary_model(harness).say("the summary")
    harness.model.say("answer to four", "answer to impatient")
    await until(lambda: has_sent(harness, "answer to impatient"))
    texts = [sent.outgoing.text for sent in await harness.sent(5)]
    assert "answer to four" in texts
    assert len(await compaction_records(harness)) == 1


async def has_sent(harness: GatewayHarness, text: str) -> bool:
    return any(sent.outgoing.text == text for sent in await harness.sent(0))


async def test_compact_reports_what_it_saved_and_follows_its_instructions(
    harness: GatewayHarness,
) -> None:
    """G5: its record commits with the end of its row."""
    await fill_window(harness, exchanges=2)
    auxiliary_model(harness).say("on demand")
    answer = (await harness.end_of(await harness.accept("/compact the port numbers"))).text
    assert answer.startswith("Summarised ")
    assert "tokens" in answer
    assert "Above all, keep: the port numbers" in request_text(auxiliary_model(harness).requests[0])
    await ask(harness, "go on", "ok")
    assert "on demand" in request_text(harness.model.requests[-1])
    assert "question1" not in request_text(harness.model.requests[-1])
    used = await harness.store.read(GetAuxiliaryUsage(session_id=await harness.only_session()))
    assert used[AuxiliaryTask.SUMMARY].input_tokens > 0


async def test_a_message_during_compact_is_answered_after_it_and_not_covered_by_it(
    harness: GatewayHarness,
) -> None:
    await fill_window(harness, exchanges=2)
    asked = await harness.accept("/compact")
    await auxiliary_model(harness).wait_for_request(1)
    during = await harness.accept("sent meanwhile")
    harness.model.say("understood")
    auxiliary_model(harness).say("on demand")
    await harness.end_of(asked)
    assert (await harness.end_of(during)).text == "understood"
    await ask(harness, "go on", "ok")
    shown = request_text(harness.model.requests[-1])
    assert "sent meanwhile" in shown
    assert "understood" in shown
    assert "question1" not in shown


async def test_undo_is_refused_while_compact_runs(harness: GatewayHarness) -> None:
    """G5: otherwise its summary would contain what was undone."""
    await fill_window(harness, exchanges=2)
    asked = await harness.accept("/compact")
    await auxiliary_model(harness).wait_for_request(1)
    assert "not possible" in (await harness.end_of(await harness.accept("/undo"))).text
    auxiliary_model(harness).say("on demand")
    assert "Summarised" in (await harness.end_of(asked)).text


async def test_compact_is_refused_during_a_turn(harness: GatewayHarness) -> None:
    working = await harness.accept("work")
    await harness.model.wait_for_request(1)
    text = (await harness.end_of(await harness.accept("/compact"))).text
    assert "not possible" in text
    harness.model.say("done")
    assert (await harness.end_of(working)).text == "done"


async def test_compact_changes_nothing_if_it_fails_or_the_history_is_short(
    harness: GatewayHarness,
) -> None:
    assert "too little" in (await harness.end_of(await harness.accept("/compact"))).text
    await fill_window(harness, exchanges=2)
    auxiliary_model(harness).say("", "")
    text = (await harness.end_of(await harness.accept("/compact"))).text
    assert "nothing was changed" in text
    assert await compaction_records(harness) == []


async def test_compact_is_refused_if_summaries_are_off(harness: GatewayHarness) -> None:
    harness.settings = with_auxiliary(harness.settings, summaries=False)
    await harness.stop()
    await harness.start()
    assert "summaries" in (await harness.end_of(await harness.accept("/compact"))).text


async def test_a_summary_never_holds_a_secret(harness: GatewayHarness) -> None:
    """Law 13: the auxiliary model may have read one in a message."""
    harness.secrets.append(Secret("sk-very-secret-value"))
    await harness.stop()
    await harness.start()
    await fill_window(harness)
    auxiliary_model(harness).say("the key is sk-very-secret-value")
    await ask(harness, long_text("question4"), "ok")
    (record,) = await compaction_records(harness)
    assert "sk-very-secret-value" not in record.text


async def test_an_undone_summary_covers_nothing(harness: GatewayHarness) -> None:
    """/undo removes a summary with its turn; the messages it covered are shown again."""
    await fill_window(harness)
    auxiliary_model(harness).say("the summary")
    await ask(harness, long_text("question4"), "ok")
    await harness.end_of(await harness.accept("/undo"))
    auxiliary_model(harness).say("", "")  # the history is long again: a summary is requested
    await ask(harness, "short", "ok")
    shown = request_text(harness.model.requests[-1])
    assert "the summary" not in shown
    assert "question1" in shown
    assert "question4" not in shown


async def test_a_forked_session_continues_with_the_summary(harness: GatewayHarness) -> None:
    """/fork, after an /undo that left a gap in the numbers."""
    await ask(harness, "a slip", "ok")
    await harness.end_of(await harness.accept("/undo"))
    await fill_window(harness)
    auxiliary_model(harness).say("the summary")
    await ask(harness, long_text("question4"), "ok")
    before = harness.model.requests[-1].messages
    await harness.end_of(await harness.accept("/fork"))
    await ask(harness, "in the copy", "ok")
    after = harness.model.requests[-1].messages
    assert after[: len(before)] == before
    assert "a slip" not in request_text(harness.model.requests[-1])


async def test_usage_includes_auxiliary_usage(harness: GatewayHarness) -> None:
    await fill_window(harness, exchanges=2)
    auxiliary_model(harness).say("on demand")
    await harness.end_of(await harness.accept("/compact"))
    assert "for summaries: " in (await harness.end_of(await harness.accept("/usage"))).text


async def test_memory_providers_are_called_before_a_summary(harness: GatewayHarness) -> None:
    """In a turn and by command; each time before the summary is asked for."""
    provider = RecordingMemoryProvider(
        wants=frozenset({MemoryHook.ON_PRE_COMPACT, MemoryHook.ON_SESSION_END})
    )
    await harness.stop()
    harness.memory = [provider]
    await harness.start()
    await fill_window(harness)
    asked = await harness.accept(long_text("question4"))
    await auxiliary_model(harness).wait_for_request(1)
    (call,) = provider.calls_to("on_pre_compact")
    auxiliary_model(harness).say("the summary", "on demand")
    harness.model.say("ok")
    await harness.end_of(asked)
    (record,) = await compaction_records(harness)
    assert call == (await harness.only_session(), str(record.covers))
    await ask(harness, "and more")
    assert (await harness.end_of(await harness.accept("/compact"))).text.startswith("Summarised")
    assert len(provider.calls_to("on_pre_compact")) == 2


async def test_two_sessions_can_be_summarised_concurrently(harness: GatewayHarness) -> None:
    for chat in ("one", "two"):
        for number in range(1, 4):
            await ask(harness, long_text(f"{chat}{number}"), chat=chat)
    first = asyncio.create_task(ask(harness, long_text("one4"), "done", chat="one"))
    second = asyncio.create_task(ask(harness, long_text("two4"), "done", chat="two"))
    await auxiliary_model(harness).wait_for_request(2)
    auxiliary_model(harness).say("summary", "summary")
    assert [await first, await second] == ["done", "done"]
    for request in harness.model.requests[-2:]:
        users = [m.text for m in request.messages if isinstance(m, UserMessage)]
        assert len({text[:3] for text in users}) == 1
