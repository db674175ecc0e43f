"""`kill -9` during an HTTP request: a repeated request with the same id gets the answer."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.faults.conservation import check_invariants, effect_message
from tests.support.process_harness import ProcessHarness

from holdfast.core.crash_points import CrashPoint

POINTS = (CrashPoint.REPLY_COMMITTED, CrashPoint.CALL_RETURNED, CrashPoint.END_COMMITTED)


async def ask(process_harness: ProcessHarness, text: str, *, stream: bool, message_id: str) -> str:
    """The answer's text; raises `ClientError` where the gateway went away meanwhile."""
    headers = {
        "Authorization": f"Bearer {process_harness.token}",
        "X-Holdfast-Session": "me",
        "X-Holdfast-Message-Id": message_id,
    }
    body = {"model": "holdfast", "stream": stream, "messages": [{"role": "user", "content": text}]}
    url = f"{process_harness.address}/v1/chat/completions"
    async with process_harness.http.post(url, json=body, headers=headers) as response:
        response.raise_for_status()
        answer = await response.read()
    return _streamed(answer) if stream else _whole(msgspec.json.decode(answer))


def _whole(answer: dict[str, Any]) -> str:
    text: str = answer["choices"][0]["message"]["content"]
    return text


def _streamed(answer: bytes) -> str:
    events = [line[6:] for line in answer.splitlines() if line.startswith(b"data: ")]
    assert events[-1] == b"[DONE]"
    chunks = [msgspec.json.decode(event) for event in events[:-1]]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_request_repeated_after_a_kill_attaches_and_gets_the_answer(
    process_harness: ProcessHarness, point: CrashPoint, stream: bool
) -> None:
    """G2, H3, I2: one message, one turn, one effect, however often it is asked for."""
    await process_harness.start(point)
    asking = asyncio.create_task(
        ask(process_harness, effect_message("a"), stream=stream, message_id="m-1")
    )
    await process_harness.wait_for_crash()
    with pytest.raises(aiohttp.ClientError):
        await asking
    await process_harness.start()
    for _ in range(2):
        answer = await ask(process_harness, effect_message("a"), stream=stream, message_id="m-1")
        assert answer == "answer to a"
    contents = await check_invariants(process_harness)
    assert [row.state for row in contents.inbox.values()] == ["answered"]
    assert process_harness.effects() == ["a"]


async def test_a_request_repeated_while_its_turn_is_resumed_waits_for_that_turn(
    process_harness: ProcessHarness,
) -> None:
    """G2, H2: attached to a turn that is attached to its command."""
    await process_harness.start()
    command = "echo a >> effects.log; until test -e go; do sleep 0.05; done"
    text = f'run [tool terminal {{"command": "{command}"}}] [then] [text ran]'
    asking = asyncio.create_task(ask(process_harness, text, stream=False, message_id="m-1"))
    await process_harness.until(lambda: process_harness.effects() == ["a"])
    await process_harness.kill()
    with pytest.raises(aiohttp.ClientError):
        await asking
    await process_harness.start()
    both = [ask(process_harness, text, stream=stream, message_id="m-1") for stream in (False, True)]
    asking_again = asyncio.gather(*both)
    await asyncio.wait([asking_again], timeout=0.3)  # by which they are attached, mostly
    assert not asking_again.done()
    [workspace] = process_harness.paths.workspaces.iterdir()
    (workspace / "go").touch()
    assert await asking_again == ["ran", "ran"]
    await check_invariants(process_harness)
    assert process_harness.effects() == ["a"]
