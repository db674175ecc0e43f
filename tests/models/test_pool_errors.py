"""Every call ends in one complete reply or in one fault with a reason."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.config.settings import ApiMode
from holdfast.core.messages.transcript import AssistantMessage, StopReason, ToolMessage, UserMessage
from holdfast.core.turns.model import Completed, ModelFailed, ModelFault, Retrying, TextDelta
from holdfast.testing.misbehaving_model.process import ModelProcess
from holdfast.testing.misbehaving_model.script import sign

Lease = Callable[..., Any]
CollectEvents = Callable[..., Any]


async def test_a_reply_streams_and_is_complete(
    lease: Lease, collect_events: CollectEvents, model: ModelProcess
) -> None:
    *deltas, last = await collect_events(lease(), "hi [cached 40]")
    assert "".join(delta.text for delta in deltas) == "You said: hi [cached 40]"
    assert isinstance(last, Completed)
    assert last.message.text == "You said: hi [cached 40]"
    assert last.message.model == "scripted"
    assert last.usage.cached_tokens == 40
    assert model.requests()["count"] == 1


@pytest.mark.parametrize("split", [1, 2, 3, 7])
async def test_characters_split_by_chunk_boundaries_arrive_whole(
    lease: Lease, collect_events: CollectEvents, split: int
) -> None:
    text = "zwölf Boxkämpfer 🎉 日本語"
    events = await collect_events(lease(), f"[text {text}] [split {split}]")
    assert events[-1].message.text == text
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == text


async def test_parallel_calls_in_fragments_arrive_whole_and_the_tool_loop_closes(
    lease: Lease, collect_events: CollectEvents
) -> None:
    commands = [{"command": 'echo "ü"'}, {"command": "ls"}]
    tools = " ".join(f"[tool terminal {json.dumps(each)}]" for each in commands)
    asked = UserMessage(text=f"{tools} [fragment 2] [split 3] [reasoning let me see]")
    message = (await collect_events(lease(), asked))[-1].message
    assert message.stop is StopReason.TOOL_CALLS
    assert [json.loads(call.arguments) for call in message.calls] == commands
    assert [thought.text for thought in message.reasoning] == ["let me see"]
    results = [ToolMessage(call_id=c.id, name=c.name, text=f"out {c.id}") for c in message.calls]
    last = (await collect_events(lease(), asked, message, *results))[-1]
    assert last.message.text == f"Done: out {message.calls[1].id}"


async def test_reasoning_is_sent_back_as_it_was_received(
    lease: Lease, collect_events: CollectEvents, model: ModelProcess, mode: ApiMode
) -> None:
    reply = (await collect_events(lease(), "[reasoning hmm] [text 4]"))[-1].message
    await collect_events(lease(), "what is 2+2?", reply, "sure?")
    body = model.requests(last=1)["requests"][0]
    signed = sign("hmm")
    match mode:
        case ApiMode.CHAT_COMPLETIONS:
            sent = {"role": "assistant", "content": "4", "reasoning_content": "hmm"}
            assert body["messages"][2] == sent
        case ApiMode.RESPONSES:
            summary = [{"type": "summary_text", "text": "hmm"}]
            assert body["input"][1:3] == [
                {"type": "reasoning", "summary": summary, "encrypted_content": signed},
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "4"}],
                },
            ]
        case ApiMode.ANTHROPIC_MESSAGES:
            thought = {"type": "thinking", "thinking": "hmm", "signature": signed}
            assert body["messages"][1]["content"] == [thought, {"type": "text", "text": "4"}]


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("[fault cut]", ModelFault.MALFORMED),
        ("[fault half_json]", ModelFault.MALFORMED),
        ("[fault html]", ModelFault.MALFORMED),
        ("[fault json_error]", ModelFault.SERVER),
        ("[fault error_event]", None),  # each API says it differently
        ("[fault drop]", ModelFault.NETWORK),
        ("[status 500]", ModelFault.SERVER),
        ("[status 503]", ModelFault.OVERLOADED),
        ("[status 529]", ModelFault.OVERLOADED),
        ("[status 429]", ModelFault.RATE_LIMIT),
        ("[status 400]", ModelFault.BAD_REQUEST),
        ("[status 401]", ModelFault.AUTH),
        ("[status 302]", ModelFault.BAD_REQUEST),
    ],
)
async def test_a_fault_is_classified_and_the_next_call_succeeds(
    lease: Lease, collect_events: CollectEvents, script: str, fault: ModelFault | None
) -> None:
    client = lease()
    with pytest.raises(ModelFailed) as failed:
        await collect_events(client, script)
    expected = {fault} if fault else {ModelFault.SERVER, ModelFault.OVERLOADED}
    assert failed.value.fault in expected
    assert "scripted" in str(failed.value)
    assert (await collect_events(client, "hi"))[-1].message.text == "You said: hi"


@pytest.mark.parametrize("fault", ["no_finish", "no_done", "unstreamed", "misnamed"])
async def test_a_server_that_is_merely_sloppy_is_understood(
    lease: Lease, collect_events: CollectEvents, fault: str
) -> None:
    script = f"[fault {fault}]"
    assert (await collect_events(lease(), script))[-1].message.text == f"You said: {script}"


async def test_an_invalid_request_is_refused_with_the_rule_it_breaks(
    lease: Lease, collect_events: CollectEvents
) -> None:
    with pytest.raises(ModelFailed, match=r"the last (message|item) must be") as failed:
        await collect_events(lease(), "x", AssistantMessage(text="y"))
    assert failed.value.fault is ModelFault.BAD_REQUEST


async def test_a_refused_key_is_never_shown_even_by_a_provider_that_quotes_it(
    lease: Lease, collect_events: CollectEvents
) -> None:
    with pytest.raises(ModelFailed) as failed:
        await collect_events(lease(key="sk-a-wrong-key"), "hi")
    assert failed.value.fault is ModelFault.AUTH
    assert "env:THE_KEY" in str(failed.value)
    assert "sk-a-wrong-key" not in repr(failed.value) + str(failed.value)


async def test_an_address_without_a_listener_is_a_network_fault(
    lease: Lease, collect_events: CollectEvents
) -> None:
    with pytest.raises(ModelFailed, match="refused") as failed:
        await collect_events(lease(base_url="http://127.0.0.1:1/v1"), "hi")
    assert failed.value.fault is ModelFault.NETWORK


async def test_a_call_that_fails_twice_is_answered_the_third_time(
    lease: Lease, collect_events: CollectEvents, waits: list[float], model: ModelProcess
) -> None:
    events = await collect_events(lease(retries=4), "[fault cut] [times 2] hi")
    retries = [event for event in events if isinstance(event, Retrying)]
    assert [(event.attempt, event.delay) for event in retries] == [(1, 0.5), (2, 1.0)]
    assert waits == [0.5, 1.0]
    after = events[events.index(retries[-1]) + 1 : -1]
    assert "".join(event.text for event in after) == events[-1].message.text
    assert model.requests()["count"] == 3


async def test_retry_after_is_obeyed_and_a_bad_request_is_sent_once(
    lease: Lease, collect_events: CollectEvents, waits: list[float], model: ModelProcess
) -> None:
    await collect_events(lease(retries=4), "[status 429 7] [times 1]")
    assert waits == [7.5]
    model.reset()
    with pytest.raises(ModelFailed):
        await collect_events(lease(retries=4), "[status 400]")
    assert model.requests()["count"] == 1


async def test_a_posted_script_answers_its_requests_in_order(
    lease: Lease, collect_events: CollectEvents, model: ModelProcess
) -> None:
    model.script({"match": "weather", "text": "rain"}, {"text": "first"}, {"text": "second"})
    client = lease()
    texts = [
        (await collect_events(client, text))[-1].message.text
        for text in ("a", "weather?", "b", "c")
    ]
    assert texts == ["first", "rain", "second", "You said: c"]


async def test_steps_of_a_conversation_follow_each_other_without_any_state(
    lease: Lease, collect_events: CollectEvents
) -> None:
    asked = UserMessage(text='[tool a {"n": 1}] [then] [tool b {"n": 2}] [then] [text the end]')
    history: list[Any] = [asked]
    names = []
    while True:
        message = (await collect_events(lease(), *history))[-1].message
        history.append(message)
        if not message.calls:
            break
        names += [call.name for call in message.calls]
        history += [ToolMessage(call_id=c.id, name=c.name, text="ok") for c in message.calls]
    assert (names, message.text) == (["a", "b"], "the end")
