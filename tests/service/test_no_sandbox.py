"""A gateway on a machine where no command may run: it starts, answers, and offers no such tools."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.gateway_process import SpawnedGateway

from holdfast.agent.prompt import SANDBOX_PROMPT
from holdfast.testing.misbehaving_model.process import ModelProcess

RUNNER_TOOLS = {"terminal", "process", "read", "write", "edit", "search"}
REFUSED = {"HOLDFAST_RUNNER_SANDBOX": "off"}  # as root, without the second key

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused commands")


@pytest.fixture
def model() -> Iterator[ModelProcess]:
    with ModelProcess() as model:
        yield model


async def ask(gateway: SpawnedGateway, text: str) -> str:
    async with gateway.async_client(max_retries=0) as client:
        reply = await client.chat.completions.create(
            model="holdfast",
            messages=[{"role": "user", "content": text}],
            extra_headers={"X-Holdfast-Session": "me"},
        )
    return str(reply.choices[0].message.content)


@pytest.mark.parametrize("allowed", [False, True])
async def test_tools_that_run_commands_are_offered_only_where_they_may_run(
    tmp_path: Path, model: ModelProcess, allowed: bool
) -> None:
    second_key = {"HOLDFAST_RUNNER_SANDBOX_OFF_AS_ROOT": "true"} if allowed else {}
    gateway = SpawnedGateway(tmp_path / "home", model=model, **REFUSED, **second_key)
    await asyncio.to_thread(gateway.start)
    try:
        assert await ask(gateway, "hi") == "You said: hi"
        (request,) = gateway.model_requests("hi")
        offered = {tool["function"]["name"] for tool in request["tools"]}
        assert offered & RUNNER_TOOLS == (RUNNER_TOOLS if allowed else set())
        assert {"todo", "fetch", "memory"} <= offered
        assert (SANDBOX_PROMPT in request["messages"][0]["content"]) is allowed
        shown = gateway.status()
        assert shown["sandboxed"] is False
        assert ("sandbox_off_as_root" in shown["sandbox_remedy"]) is not allowed
        log = gateway.paths.log_file.read_text()
        assert ("so agents have no terminal, processes and files" in log) is not allowed
        assert ("COMMANDS RUN WITHOUT A SANDBOX" in log) is allowed
    finally:
        await asyncio.to_thread(gateway.end)


async def test_a_call_of_a_tool_that_is_not_offered_does_nothing(
    tmp_path: Path, model: ModelProcess
) -> None:
    """A model may call what it remembers from an earlier prompt, or was told of."""
    gateway = SpawnedGateway(tmp_path / "home", model=model, **REFUSED)
    await asyncio.to_thread(gateway.start)
    try:
        victim = tmp_path / "victim"
        arguments = {"path": str(victim), "content": "x"}
        model.script({"calls": [{"name": "write", "arguments": arguments}]})
        await ask(gateway, "write it")
        last = model.requests()["requests"][-1]["messages"][-1]
        assert "there is no tool 'write'" in last["content"]
        assert not victim.exists()
    finally:
        await asyncio.to_thread(gateway.end)
