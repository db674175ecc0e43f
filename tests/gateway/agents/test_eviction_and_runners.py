"""Agents with real runners: eviction keeps terminals and processes, and the end of a session ends
them (A10 to A13)."""

import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.gateway_harness import Call, GatewayHarness, Until, WallClock

from holdfast.agent.agent import Agent
from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import RunnerRow
from holdfast.runner.runners import Runners
from holdfast.system.egress import EgressPolicy
from holdfast.tools.terminal import ProcessTool, TerminalTool

# A unique argument, by which the process is found among all processes of this machine.
MARK = f"86400.{os.getpid()}"


async def _nothing(_: object) -> None:
    return


class RunnerHarness(GatewayHarness):
    """A gateway whose agents have a real terminal."""

    def __init__(self, path: Path, home: Path) -> None:
        super().__init__(path)
        self.started_runners: list[RunnerRow] = []
        self.real_runners = Runners(
            home,
            RunnerSettings(),
            clock=WallClock(),
            on_started=self._record,
            on_ended=_nothing,
            egress=EgressPolicy,
        )
        self.runners = self.real_runners  # type: ignore[assignment]  # instead of none
        self.extra_tools = [TerminalTool(limit=60), ProcessTool()]

    async def _record(self, row: RunnerRow) -> None:
        self.started_runners.append(row)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[RunnerHarness]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: apt install bubblewrap")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    harness = RunnerHarness(tmp_path / "state.db", home)
    await harness.start()
    yield harness
    await harness.stop()


async def run(harness: GatewayHarness, call: Call, command: str, *, tool: str = "terminal") -> str:
    """The result of a command that the agent runs."""
    arguments = {"command": command}
    if tool == "process":
        arguments["action"] = "start"
    harness.model.say([call(tool, json.dumps(arguments))], "done")
    await harness.end_of(await harness.accept("go"))
    return harness.model.requests[-1].messages[-1].text


def is_running(mark: str) -> bool:
    """Whether a `sleep` with this argument runs on this machine."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if words[:2] == ["sleep", mark]:
                return True
    return False


async def prepare(harness: GatewayHarness, call: Call, until: Until) -> SessionId:
    await run(harness, call, "mkdir -p deep/er && cd deep/er && export COLOUR=green")
    await run(harness, call, f"exec sleep {MARK}", tool="process")
    await until(lambda: is_running(MARK))
    return await harness.only_session()


async def evict(harness: GatewayHarness, until: Until) -> Agent:
    await until(lambda: len(harness.gateway.lanes) == 0)
    cache = harness.gateway.cache
    agent = next(iter(cache._entries.values())).agent
    due = cache.next_sweep()
    assert due is not None and cache.sweep(due) == 1
    await until(lambda: agent.client is None)
    return agent


async def test_eviction_leaves_terminal_and_processes_and_the_user_notices_nothing(
    harness: RunnerHarness, call: Call, until: Until
) -> None:
    """A10, A12: the next message builds a fresh agent for the same session, which finds the same
    directory, variables and running processes. Only the client is new."""
    session_id = await prepare(harness, call, until)
    evicted = await evict(harness, until)
    assert is_running(MARK)
    assert (evicted.client, evicted.messages) == (None, [])
    assert await run(harness, call, "basename $PWD; echo $COLOUR") == "er\ngreen"
    assert await harness.only_session() == session_id
    (process,) = await harness.real_runners.processes(session_id)
    assert process.exit_code is None and process.ended_at is None
    assert len(harness.started_runners) == 1, "the runner itself was not restarted"


@pytest.mark.parametrize("how", ["/new", "/reset", "agent.close", "closing, nothing cached"])
async def test_the_end_of_a_session_ends_its_processes(
    harness: RunnerHarness, call: Call, until: Until, how: str
) -> None:
    """A5, A11: whether an agent is cached or not, and after `release_clients()` too."""
    session_id = await prepare(harness, call, until)
    gateway = harness.gateway
    if how.startswith("/"):
        await harness.end_of(await harness.accept(how))
    else:
        agent = await evict(harness, until)
        await (agent.close() if how == "agent.close" else gateway.teardown.close(session_id))
    await until(lambda: not is_running(MARK))
    assert session_id not in gateway.cache
    await gateway.teardown.close(session_id)  # idempotent


async def test_a_cached_agent_is_closed_with_all_that_its_session_holds(
    harness: RunnerHarness, call: Call, until: Until
) -> None:
    """A11, A13: agent closed, client released, entry removed; a second close does nothing."""
    session_id = await prepare(harness, call, until)
    await until(lambda: len(harness.gateway.lanes) == 0)
    agent = next(iter(harness.gateway.cache._entries.values())).agent
    for _ in range(2):
        await agent.close()
        assert agent.client is None
        assert session_id not in harness.gateway.cache
    assert not is_running(MARK)
    assert harness.model.leased == 0
