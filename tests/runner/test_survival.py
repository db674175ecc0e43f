"""J1, J2: terminals, commands and background processes survive the gateway."""

import asyncio
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.runner.runner_log import SESSION_ID, attach_known

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ids import CallId
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.sessions.session import RunnerRow
from holdfast.runner.program.process_tree import start_time as process_start_time
from holdfast.runner.runners import Runners
from holdfast.system.clock import SystemClock
from holdfast.system.egress import EgressPolicy

# A gateway in a process of its own: it does some work, prints "ready", and is then killed.
GATEWAY = """
import asyncio, sys, time
from pathlib import Path
import msgspec
from holdfast.core.config.settings import RunnerSettings
from holdfast.runner.runners import Runners
from holdfast.system.egress import EgressPolicy

class Clock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

async def started(row):
    print(msgspec.json.encode(row).decode(), flush=True)

async def ended(session_id):
    print("ended", session_id, flush=True)

async def main():
    runners = Runners(
        Path(sys.argv[1]),
        RunnerSettings(),
        clock=Clock(),
        on_started=started,
        on_ended=ended,
        egress=EgressPolicy,
    )
    sandbox = runners.sandbox("s_1")
{work}

asyncio.run(main())
"""


async def _ignore(_: object) -> None: ...


@pytest.fixture
async def next_runners(tmp_path: Path) -> AsyncIterator[Runners]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: apt install bubblewrap")
    runners = Runners(
        tmp_path,
        RunnerSettings(),
        clock=SystemClock(),
        on_started=_ignore,
        on_ended=_ignore,
        egress=EgressPolicy,
    )
    yield runners
    await runners.end_all()


async def run_gateway_and_kill_it(home: Path, work: str) -> RunnerRow:
    """Run a gateway until its work prints "ready", and kill it with SIGKILL."""
    source = GATEWAY.format(work=textwrap.indent(textwrap.dedent(work), "    "))
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, str(home), stdout=asyncio.subprocess.PIPE
    )
    assert gateway.stdout is not None
    row = msgspec.json.decode(await gateway.stdout.readline(), type=RunnerRow)
    assert await gateway.stdout.readline() == b"ready\n"
    gateway.send_signal(signal.SIGKILL)
    await gateway.communicate()
    return row


async def test_the_terminal_survives_a_kill_of_the_gateway(
    tmp_path: Path, next_runners: Runners
) -> None:
    """J1: cwd and exported variables after each command."""
    work = """
    await sandbox.run("c1", "mkdir deep; cd deep; export WORD='two words'", limit=20)
    print("ready", flush=True)
    await asyncio.sleep(60)
    """
    row = await run_gateway_and_kill_it(tmp_path, work)
    assert await next_runners.adopt([row], needed={SESSION_ID}) == ["s_1"]
    result = await next_runners.sandbox(SESSION_ID).run(CallId("c2"), "pwd; echo $WORD", limit=20)
    assert result.output == "/workspace/deep\ntwo words\n"


async def test_the_terminal_survives_its_runner(tmp_path: Path, next_runners: Runners) -> None:
    """J1: a new runner of the same session restores what the old one wrote down."""
    work = """
    await sandbox.run("c1", "mkdir deep; cd deep; export WORD='two words'", limit=20)
    print("ready", flush=True)
    await asyncio.sleep(60)
    """
    row = await run_gateway_and_kill_it(tmp_path, work)
    os.kill(row.pid, signal.SIGKILL)
    result = await next_runners.sandbox(SESSION_ID).run(CallId("c2"), "pwd; echo $WORD", limit=20)
    assert result.output == "/workspace/deep\ntwo words\n"


async def test_a_command_interrupted_by_a_kill_reports_its_real_result_to_the_next_gateway(
    tmp_path: Path, next_runners: Runners
) -> None:
    """H2, J2: a foreground command is attached to; it is neither lost nor run twice."""
    work = """
    script = "echo ran >>count; until [ -e go ]; do sleep 0.02; done; cat count; exit 7"
    running = asyncio.create_task(sandbox.run("c", script, limit=60))
    await sandbox.run("look", "until [ -e count ]; do sleep 0.02; done", limit=20)
    print("ready", flush=True)
    await running
    """
    row = await run_gateway_and_kill_it(tmp_path, work)
    await next_runners.adopt([row], needed={SESSION_ID})
    sandbox = next_runners.sandbox(SESSION_ID)
    attached = asyncio.create_task(attach_known(sandbox, CallId("c")))
    again = asyncio.create_task(sandbox.run(CallId("c"), "echo ran >>count", limit=60))
    await sandbox.write_file(CallId("w"), "go", "")
    for result in await asyncio.gather(attached, again):
        assert (result.exit_code, result.output) == (7, "ran\n")


async def test_a_command_that_ended_while_no_gateway_ran_has_its_result(
    tmp_path: Path, next_runners: Runners
) -> None:
    """H2: the result was recorded by the runner, not by the gateway."""
    work = """
    script = "touch began; sleep 0.5; echo done; exit 4"
    running = asyncio.create_task(sandbox.run("c", script, limit=60))
    await sandbox.run("look", "until [ -e began ]; do sleep 0.02; done", limit=20)
    print("ready", flush=True)
    await running
    """
    row = await run_gateway_and_kill_it(tmp_path, work)
    await asyncio.sleep(1)
    assert process_start_time(row.pid) == row.start_time
    result = await attach_known(next_runners.sandbox(SESSION_ID), CallId("c"))
    assert (result.exit_code, result.output) == (4, "done\n")


async def test_a_command_whose_runner_died_is_reported_as_lost(
    tmp_path: Path, next_runners: Runners
) -> None:
    """H2: its outcome is unknown, and it is not run again."""
    work = """
    running = asyncio.create_task(sandbox.run("c", "echo ran >>count; sleep 60", limit=90))
    await sandbox.run("look", "until [ -e count ]; do sleep 0.02; done", limit=20)
    print("ready", flush=True)
    await running
    """
    row = await run_gateway_and_kill_it(tmp_path, work)
    os.kill(row.pid, signal.SIGKILL)
    assert (await attach_known(next_runners.sandbox(SESSION_ID), CallId("c"))).lost
    assert (
        await next_runners.sandbox(SESSION_ID).run(CallId("c"), "echo ran >>count", limit=20)
    ).lost
    count = await next_runners.sandbox(SESSION_ID).run(CallId("c2"), "cat count", limit=20)
    assert count.output == "ran\n"


async def test_background_processes_are_adopted(tmp_path: Path, next_runners: Runners) -> None:
    """J2: identity, output since, and the end of one that ended meanwhile."""
    work = """
    await sandbox.start_process("p1", "n=0; while sleep 0.05; do n=$((n+1)); echo tick $n; done")
    await sandbox.start_process("p2", "sleep 0.4; echo over; exit 6")
    await sandbox.poll_process("p1")
    print("ready", flush=True)
    await asyncio.sleep(60)
    """
    row = await run_gateway_and_kill_it(tmp_path, work)
    assert process_start_time(row.pid) == row.start_time
    assert await next_runners.adopt([row], needed={SESSION_ID}) == ["s_1"]
    sandbox = next_runners.sandbox(SESSION_ID)
    ended = await sandbox.wait_for_process("p2", limit=20)
    assert (ended.process.exit_code, ended.output) == (6, "over\n")
    for _ in range(2):  # what it said by now, and what it says from now on
        await _ticks(sandbox)
    assert (await sandbox.start_process(CallId("p1"), "echo twice")).id == "p1"
    rows = await next_runners.processes(SESSION_ID)
    assert [(one.id, one.exit_code) for one in rows] == [("p1", None), ("p2", 6)]


async def _ticks(sandbox: Sandbox) -> None:
    async with asyncio.timeout(30):
        while "tick" not in (polled := await sandbox.poll_process("p1")).output:
            await asyncio.sleep(0.05)
    assert polled.process.running


async def test_a_runner_that_no_session_needs_is_killed_by_the_next_gateway(
    tmp_path: Path, next_runners: Runners
) -> None:
    """J2: also where the row of the runner was never committed."""
    work = """
    await sandbox.start_process("p1", "setsid sleep 100 & sleep 100")
    print("ready", flush=True)
    await asyncio.sleep(60)
    """
    row = await run_gateway_and_kill_it(tmp_path, work)
    assert await next_runners.adopt([], needed=set()) == []
    assert process_start_time(row.pid) is None


async def test_a_runner_whose_gateway_was_killed_during_the_start_ends_itself(
    tmp_path: Path, next_runners: Runners
) -> None:
    """J2: its start was not reported, so it could not be killed."""
    work = '    await sandbox.run("c", "true", limit=20)\n    await asyncio.sleep(60)'
    source = GATEWAY.format(work=work)
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, str(tmp_path), stdout=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(20):
        while not list((tmp_path / "runs").glob("*/sock")):
            await asyncio.sleep(0.001)
    gateway.send_signal(signal.SIGKILL)
    await gateway.communicate()
    await next_runners.adopt([], needed=set())
    async with asyncio.timeout(20):
        while _runners_below(tmp_path):
            await asyncio.sleep(0.05)


def _runners_below(home: Path) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(home / "runs") in command and b"bwrap" in command:
            found.append(name)
    return found
