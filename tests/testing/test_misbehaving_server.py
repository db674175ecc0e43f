"""Tests the server of the misbehaving model with an OpenAI client."""

import asyncio
import json
import os
import signal
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from holdfast.testing.misbehaving_model.process import ModelProcess

openai = pytest.importorskip("openai", reason="the openai client is not installed")


def ask(model: ModelProcess, text: str, **rest: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **rest}
    headers = {"Authorization": "Bearer sk-the-whole-key"}
    url = f"{model.base_url}/chat/completions"
    with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=10) as response:
        return json.load(response)  # type: ignore[no-any-return]


async def test_the_official_client_understands_it(keyed_model: ModelProcess) -> None:
    async with openai.AsyncOpenAI(
        base_url=keyed_model.base_url, api_key="sk-the-whole-key", max_retries=0
    ) as client:
        spoken: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
        whole = await client.chat.completions.create(model="m", messages=spoken)
        assert whole.choices[0].message.content == "You said: hi"
        asked = [{"role": "user", "content": '[text ok] [tool t {"a": 1}] [fragment 2]'}]
        stream = await client.chat.completions.create(model="m", messages=asked, stream=True)
        chunks = [chunk async for chunk in stream]
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
        assert "".join(delta.content or "" for delta in deltas) == "ok"
        pieces = [call.function.arguments for d in deltas for call in d.tool_calls or ()]
        assert json.loads("".join(pieces)) == {"a": 1}
        assert chunks[-1].usage.prompt_tokens > 0
        broken = [{"role": "assistant", "content": "x"}]
        with pytest.raises(openai.BadRequestError, match="last message"):
            await client.chat.completions.create(model="m", messages=broken)


def test_it_has_its_own_ledger(keyed_model: ModelProcess) -> None:
    for n in range(3):
        ask(keyed_model, f"hi {n}")
    with pytest.raises(HTTPError):
        ask(keyed_model, " ")
    ledger = keyed_model.requests(last=2)
    assert (ledger["count"], ledger["refused"]) == (4, 1)
    assert [r["messages"][0]["content"] for r in ledger["requests"]] == ["hi 2", " "]


def test_an_invalid_script_is_refused(keyed_model: ModelProcess) -> None:
    with pytest.raises(HTTPError) as refused:
        keyed_model.script({"falt": "cut"})
    assert refused.value.code == 400
    assert "falt" in refused.value.read().decode()
    refused.value.close()


async def test_it_ends_with_its_parent_process() -> None:
    program = (
        "import time\n"
        "from holdfast.testing.misbehaving_model.process import ModelProcess\n"
        "print(ModelProcess().pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    server = int(await owner.stdout.readline())
    handle = os.pidfd_open(server)
    owner.send_signal(signal.SIGKILL)
    await owner.wait()
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, gone.set)
    try:
        await asyncio.wait_for(gone.wait(), 20)
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)
