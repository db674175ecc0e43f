"""The limits of a runner: disk, processes, memory, file size, idle time."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.runner.runner_log import SESSION_ID, OpenRunners, RunnerLog

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ids import CallId, SessionId
from holdfast.core.ports.sandbox import SandboxRefused
from holdfast.runner.bubblewrap import make_plan
from holdfast.runner.launch import launch_runner
from holdfast.runner.paths import SessionPaths, connect_socket
from holdfast.runner.program.process_tree import start_time as process_start_time


async def test_a_full_workspace_kills_the_command_that_filled_it_and_says_so(
    open_runners: OpenRunners,
) -> None:
    sandbox = open_runners(RunnerSettings(workspace_mb=20)).sandbox(SESSION_ID)
    innocent = await sandbox.start_process(CallId("p"), "while sleep 0.1; do echo tick; done")
    fill = "for i in $(seq 3000); do head -c 1000000 /dev/zero >f$i; done; echo done"
    result = await sandbox.run(CallId("c"), fill, limit=60)
    assert result.exit_code is None
    assert "the workspace is full" in result.output and "done" not in result.output
    with pytest.raises(SandboxRefused, match="the workspace is full"):
        await sandbox.write_file(CallId("w"), "more", "x")
    assert (await sandbox.poll_process(innocent.id)).process.running
    await sandbox.run(CallId("c2"), "rm f*", limit=60)
    await sandbox.write_file(CallId("w2"), "more", "x")


async def test_a_process_that_a_command_left_behind_cannot_fill_the_workspace(
    open_runners: OpenRunners,
) -> None:
    sandbox = open_runners(RunnerSettings(workspace_mb=20)).sandbox(SESSION_ID)
    fill = "for i in $(seq 4000); do head -c 1000000 /dev/zero >f$i; sleep 0.005; done; sleep 3000"
    await sandbox.run(CallId("c"), f"nohup sh -c '{fill}' >/dev/null 2>&1 & true", limit=60)
    async with asyncio.timeout(80):
        while (
            await sandbox.run(CallId(f"l{os.urandom(4).hex()}"), "pgrep -f '[s]eq 4000'", limit=60)
        ).exit_code == 0:
            await asyncio.sleep(0.3)


async def test_a_single_file_has_a_size_limit(open_runners: OpenRunners) -> None:
    sandbox = open_runners(RunnerSettings(file_mb=2)).sandbox(SESSION_ID)
    result = await sandbox.run(
        CallId("c"), "head -c 5000000 /dev/zero >big; stat -c %s big", limit=60
    )
    assert str(2 * 1024 * 1024) in result.output
    result = await sandbox.run(CallId("c2"), "ulimit -f unlimited || echo held", limit=60)
    assert "held" in result.output


async def test_writing_too_large_a_file_is_refused_and_leaves_nothing(
    open_runners: OpenRunners,
) -> None:
    sandbox = open_runners(RunnerSettings(file_mb=1)).sandbox(SESSION_ID)
    with pytest.raises(SandboxRefused, match="File too large"):
        await sandbox.write_file(CallId("w"), "big", "x" * (2 << 20))
    assert (await sandbox.run(CallId("c"), "ls", limit=60)).output == ""


async def test_endless_output_is_stopped_by_the_size_of_its_file(open_runners: OpenRunners) -> None:
    sandbox = open_runners(RunnerSettings(file_mb=2, output_kb=1)).sandbox(SESSION_ID)
    result = await sandbox.run(CallId("c"), "yes", limit=60)
    assert result.truncated and not result.timed_out
    assert (await sandbox.run(CallId("c2"), "echo well", limit=60)).output == "well\n"


async def test_a_fork_bomb_reaches_its_limit_and_can_be_killed(open_runners: OpenRunners) -> None:
    sandbox = open_runners(RunnerSettings(processes=40)).sandbox(SESSION_ID)
    bomb = "f() { sleep 50 & f; }; f 2>/dev/null & sleep 60"
    result = await sandbox.run(CallId("c"), bomb, limit=1)
    assert result.timed_out
    left = await sandbox.run(CallId("c2"), "pgrep -c sleep", limit=60)
    assert left.output == "0\n"
    result = await sandbox.run(CallId("c3"), FORK.format(80), limit=60)
    assert "Resource temporarily unavailable" in result.output


FORK = """python3 -c '
import os, time
for n in range({0}):
    if not os.fork(): time.sleep(20); os._exit(0)
print("forked", n + 1)'"""


async def test_the_limit_on_processes_is_each_sessions_own(open_runners: OpenRunners) -> None:
    runners = open_runners(RunnerSettings(processes=30))
    results = [
        await runners.sandbox(SessionId(name)).run(CallId("c"), FORK.format(20), limit=60)
        for name in ("a", "b", "d")
    ]
    assert [result.output for result in results] == ["forked 20\n"] * 3


async def test_memory_has_a_limit(open_runners: OpenRunners) -> None:
    sandbox = open_runners(RunnerSettings(memory_mb=200)).sandbox(SESSION_ID)
    result = await sandbox.run(CallId("c"), "python3 -c 'x = bytearray(400 << 20)'", limit=60)
    assert "MemoryError" in result.output
    result = await sandbox.run(
        CallId("c2"), "python3 -c 'x = bytearray(100 << 20); print(len(x))'", limit=60
    )
    assert result.exit_code == 0


async def test_an_idle_runner_ends_itself_and_its_terminal_is_found_again(
    open_runners: OpenRunners, runner_log: RunnerLog
) -> None:
    """J1: a new runner of the same session restores cwd and variables."""
    sandbox = open_runners(RunnerSettings(idle_timeout=0.3)).sandbox(SESSION_ID)
    await sandbox.run(CallId("c"), "cd /tmp; export WORD=kept", limit=60)
    async with asyncio.timeout(60):
        while not runner_log.ended or process_start_time(runner_log.started_pids[-1]) is not None:
            await asyncio.sleep(0.05)
    before = list(runner_log.started_pids)
    result = await sandbox.run(CallId("c2"), "pwd; echo $WORD", limit=60)
    assert result.output == "/tmp\nkept\n"
    assert runner_log.started_pids[-1] not in before


async def test_a_runner_is_not_idle_before_its_first_request(
    open_runners: OpenRunners, home: Path
) -> None:
    """Also if it is started for a command on a slow machine."""
    settings, place, runs = (
        RunnerSettings(idle_timeout=0.1),
        SessionPaths(home, SESSION_ID),
        home / "runs",
    )
    open_runners()
    runs.mkdir()
    await asyncio.to_thread(launch_runner, place, make_plan(settings, runs=runs), settings)
    await asyncio.sleep(0.6)
    link = connect_socket(place)
    assert link is not None, "it has gone"
    link.close()


async def test_a_runner_with_a_process_is_not_idle(
    open_runners: OpenRunners, runner_log: RunnerLog
) -> None:
    sandbox = open_runners(RunnerSettings(idle_timeout=0.2)).sandbox(SESSION_ID)
    await sandbox.start_process(CallId("p"), "sleep 100")
    await asyncio.sleep(1.5)
    assert runner_log.ended == []
    assert (await sandbox.poll_process("p1")).process.running
