"""Background processes: started once, polled, written to, ended and recorded."""

import asyncio
import time

import pytest
from tests.runner.runner_log import SESSION_ID, RunnerLog

from holdfast.core.ids import CallId
from holdfast.core.ports.sandbox import Sandbox, SandboxRefused
from holdfast.runner.runners import Runners


async def test_a_process_is_started_once_per_call(sandbox: Sandbox) -> None:
    first = await sandbox.start_process(CallId("c"), "echo x >>started; sleep 100")
    again = await sandbox.start_process(CallId("c"), "echo x >>started; sleep 100")
    assert first == again == await sandbox.started_process(CallId("c"))
    assert await sandbox.started_process(CallId("other")) is None
    assert [process.id for process in await sandbox.list_processes()] == ["p1"]


async def test_the_end_and_exit_code_of_a_process_are_reported(sandbox: Sandbox) -> None:
    process = await sandbox.start_process(CallId("c"), "echo bye; exit 5")
    part = await sandbox.wait_for_process(process.id, limit=60)
    assert (part.process.exit_code, part.output) == (5, "bye\n")
    assert not part.process.running


async def test_a_wait_for_a_process_ends_at_its_limit(sandbox: Sandbox) -> None:
    process = await sandbox.start_process(CallId("c"), "sleep 100")
    began = time.monotonic()
    part = await sandbox.wait_for_process(process.id, limit=0.2)
    assert part.process.running
    assert time.monotonic() - began < 10


async def test_each_poll_shows_only_what_is_new(sandbox: Sandbox) -> None:
    process = await sandbox.start_process(CallId("c"), "while read line; do echo got $line; done")
    await sandbox.feed_process(process.id, "one\n")
    assert await _next_output(sandbox, process.id) == "got one\n"
    await sandbox.feed_process(process.id, "two\n", eof=True)
    part = await sandbox.wait_for_process(process.id, limit=60)
    assert (part.output, part.process.exit_code) == ("got two\n", 0)
    log = await sandbox.read_process_log(process.id, offset=4)
    assert (log.output, log.size) == ("one\ngot two\n", 16)
    tail = await sandbox.read_process_log(process.id, limit=8)
    assert tail.output == "got two\n"
    with pytest.raises(SandboxRefused, match="takes no more input"):
        await sandbox.feed_process(process.id, "x")


async def test_too_much_output_between_two_polls_is_skipped_with_a_notice(sandbox: Sandbox) -> None:
    process = await sandbox.start_process(CallId("c"), "seq 20000; sleep 0")
    part = await sandbox.wait_for_process(process.id, limit=60)
    assert part.output.endswith("\n20000\n")
    assert part.skipped == part.size - 16384


async def test_killing_a_process_kills_its_descendants(sandbox: Sandbox) -> None:
    script = "setsid sh -c 'trap \"\" TERM; sleep 301; sleep 301' & sleep 302"
    process = await sandbox.start_process(CallId("c"), script)
    await sandbox.run(CallId("look"), "until pgrep -x sleep; do sleep 0.02; done", limit=60)
    ended = await sandbox.kill_process(process.id)
    assert (ended.exit_code, ended.note, ended.running) == (None, "killed", False)
    left = await sandbox.run(CallId("c2"), "pgrep -af 'sleep 30[12]' | grep -v pgrep", limit=60)
    assert left.output == ""


async def test_a_process_starts_in_the_folder_of_the_terminal(sandbox: Sandbox) -> None:
    await sandbox.run(CallId("c1"), "mkdir here; cd here; export WORD=said", limit=60)
    process = await sandbox.start_process(CallId("c2"), "pwd; echo $WORD")
    part = await sandbox.wait_for_process(process.id, limit=60)
    assert part.output == "/workspace/here\nsaid\n"


async def test_an_unknown_process_is_refused_with_the_known_ones(sandbox: Sandbox) -> None:
    await sandbox.start_process(CallId("c"), "sleep 100")
    with pytest.raises(SandboxRefused, match=r"no process 'p9'; known: p1"):
        await sandbox.poll_process("p9")


async def test_a_process_that_does_not_read_takes_only_the_input_that_fits(
    sandbox: Sandbox,
) -> None:
    process = await sandbox.start_process(CallId("c"), "sleep 100")
    with pytest.raises(SandboxRefused, match="does not read"):
        await sandbox.feed_process(process.id, "x" * 200_000)


async def test_an_impossible_request_is_refused_and_does_not_harm_the_process(
    sandbox: Sandbox,
) -> None:
    """The runner is pid 1 of the session: an error of its own would end all that runs."""
    process = await sandbox.start_process(CallId("c"), "sleep 100")
    with pytest.raises(SandboxRefused, match="the runner failed"):
        await sandbox.read_process_log(process.id, offset=10**30)
    with pytest.raises(SandboxRefused, match="NUL byte"):
        await sandbox.start_process(CallId("c2"), "echo a\0b")
    assert [one.running for one in await sandbox.list_processes()] == [True]


async def test_the_processes_of_a_runner_that_died_are_reported_as_ended(
    runners: Runners, runner_log: RunnerLog
) -> None:
    """J2: in a sandbox that goes away they are reported as ended."""
    sandbox = runners.sandbox(SESSION_ID)
    await sandbox.start_process(CallId("c"), "sleep 100")
    done = await sandbox.start_process(CallId("c2"), "exit 4")
    await sandbox.wait_for_process(done.id, limit=60)
    await runners.end_session(SESSION_ID)
    rows = await runners.processes(SESSION_ID)
    assert [(row.id, row.exit_code, row.note) for row in rows] == [
        ("p1", None, "lost: its sandbox ended under it"),
        ("p2", 4, ""),
    ]
    later = await sandbox.start_process(CallId("c3"), "sleep 100")
    assert later.id == "p3"
    assert [process.running for process in await sandbox.list_processes()] == [False, False, True]


async def test_the_usage_of_a_process_includes_its_descendants(runners: Runners) -> None:
    sandbox = runners.sandbox(SESSION_ID)
    await sandbox.start_process(CallId("c"), "sh -c 'while :; do :; done' & wait")
    done = await sandbox.start_process(CallId("c2"), "exit 0")
    await sandbox.wait_for_process(done.id, limit=60)
    async with asyncio.timeout(60):
        while ((row := (await runners.processes(SESSION_ID))[0]).cpu or 0) < 0.05:
            await asyncio.sleep(0.05)
    assert row.ended_at is None and row.memory is not None and row.memory > 100_000
    ended = (await runners.processes(SESSION_ID))[1]
    assert (ended.cpu, ended.memory) == (None, None)


async def _next_output(sandbox: Sandbox, process_id: str) -> str:
    async with asyncio.timeout(60):
        while True:
            part = await sandbox.wait_for_process(process_id, limit=0.05)
            if part.output:
                return part.output
