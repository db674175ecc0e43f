"""`Runners` starts runners lazily, detaches, adopts, and kills only processes it can identify."""

import asyncio
import os
import sys
import threading

import pytest

from holdfast.core.errors import RunnerError
from holdfast.core.sessions.session import RunnerRow
from holdfast.runner.paths import SessionPaths
from holdfast.runner.program.process_tree import living_descendants
from holdfast.runner.program.process_tree import start_time as process_start_time


async def test_a_sandbox_starts_no_runner_until_it_is_used(runners, runner_log, home):
    runners.sandbox("s_1")
    assert await runners.sandbox("s_1").attach("c") is None
    assert await runners.processes("s_1") == []
    assert (runner_log.rows, list(home.iterdir()), runners.sandboxed) == ({}, [], None)


async def test_concurrent_calls_start_one_runner(runners, runner_log):
    results = await asyncio.gather(
        *(runners.sandbox("s_1").run(f"c{n}", "echo hi", limit=60) for n in range(8))
    )
    assert {result.output for result in results} == {"hi\n"}
    assert len(runner_log.started_pids) == 1


async def test_a_concurrent_lookup_and_start_share_one_connection(runners, runner_log):
    sandbox = runners.sandbox("s_1")
    looks = [sandbox.attach(f"c{n}") for n in range(3)] + [runners.processes("s_1")]
    *_, result = await asyncio.gather(*looks, sandbox.run("c", "echo hi", limit=60))
    assert result.output == "hi\n"
    assert len(runner_log.started_pids) == 1


async def test_starting_a_runner_does_not_block_the_loop(runners):
    """Held against a thread beside it: what stops the whole process holds up both."""
    ticks, longest, over = 0, 0, threading.Event()

    def tick():
        nonlocal ticks
        while not over.wait(0.001):
            ticks += 1

    async def beat():
        nonlocal longest
        last = ticks
        while True:
            await asyncio.sleep(0.001)
            longest, last = max(longest, ticks - last), ticks

    beside = threading.Thread(target=tick)
    beside.start()
    heart = asyncio.create_task(beat())
    began = ticks
    await runners.sandbox("s_1").run("c", "true", limit=60)
    took = ticks - began
    heart.cancel()
    over.set()
    beside.join()
    assert longest < took / 2


async def test_cancelling_one_wait_for_the_start_does_not_cancel_the_others(runners):
    impatient = asyncio.create_task(runners.sandbox("s_1").run("c1", "echo x >>log", limit=60))
    await asyncio.sleep(0.005)
    impatient.cancel()
    result = await runners.sandbox("s_1").run("c2", "cat log; echo here", limit=60)
    assert result.output.endswith("here\n")


async def test_detaching_leaves_everything_running_for_the_next_gateway(open_runners, runner_log):
    """H6, J2: a command under way is not killed by cancelling its wait after `detach`."""
    first = open_runners()
    command = "touch began; until [ -e go ]; do sleep 0.05; done; echo finished; exit 9"
    waiting = asyncio.create_task(first.sandbox("s_1").run("c", command, limit=60))
    await first.sandbox("s_1").start_process("p", "sleep 100")
    await first.sandbox("s_1").run("l", "until [ -e began ]; do sleep 0.02; done", limit=60)
    row = runner_log.rows["s_1"]
    await first.detach()
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(RunnerError, match="is stopping"):
        await first.sandbox("s_1").run("c2", "true", limit=5)
    second = open_runners()
    assert await second.adopt([row], needed={"s_1"}) == ["s_1"]
    assert runner_log.rows["s_1"] == row
    await second.sandbox("s_1").write_file("w", "go", "")
    result = await second.sandbox("s_1").attach("c")
    assert (result.exit_code, result.output) == (9, "finished\n")
    assert [process.ended_at for process in await second.processes("s_1")] == [None]


async def test_ending_is_idempotent_and_keeps_results_unless_forgotten(runners, home):
    sandbox = runners.sandbox("s_1")
    await sandbox.run("c", "echo kept", limit=60)
    for _ in range(3):
        await runners.end_session("s_1")
    assert (await sandbox.attach("c")).output == "kept\n"
    await runners.end_session("s_1", forget=True)
    assert await sandbox.attach("c") is None
    await runners.end_session("never seen")
    assert SessionPaths(home, "s_1").workspace.exists()


async def test_waiting_calls_are_notified_when_the_session_ends(runners):
    sandbox = runners.sandbox("s_1")
    waiting = asyncio.create_task(sandbox.run("c", "touch began; sleep 100", limit=200))
    await sandbox.start_process("p", "sleep 100")
    await sandbox.run("look", "until [ -e began ]; do sleep 0.02; done", limit=60)
    await runners.end_session("s_1")
    result = await waiting
    assert result.lost and result.exit_code is None
    assert (await sandbox.attach("c")).lost
    again = await sandbox.run("c", "touch began; sleep 100", limit=200)
    assert again.lost, "a command whose end nobody knows is not run again"


async def test_a_runner_that_no_session_needs_is_killed_and_its_terminal_state_stays(
    open_runners, runner_log, home
):
    first = open_runners()
    for name in ("wanted", "ended", "forgotten"):
        await first.sandbox(name).run("c", "sleep 3000 & true", limit=60)
    rows = dict(runner_log.rows)
    await first.detach()
    known = [rows["wanted"], rows["ended"]]  # the crash came before the third row's commit
    second = open_runners()
    assert await second.adopt(known, needed={"wanted"}) == ["wanted"]
    assert process_start_time(rows["wanted"].pid) == rows["wanted"].start_time
    assert process_start_time(rows["ended"].pid) is None
    assert process_start_time(rows["forgotten"].pid) is None
    await second.end_session("ended", forget=True)
    assert not SessionPaths(home, "ended").run_folder.exists()
    assert SessionPaths(home, "forgotten").run_folder.exists()  # the session may only be asleep


async def test_another_process_with_the_same_pid_is_not_killed(runners, runner_log):
    """A dead runner's pid may be anybody's by now: the start time proves it is not the runner."""
    innocent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    row = RunnerRow(
        session_id="s_1",
        pid=innocent.pid,
        start_time=(process_start_time(innocent.pid) or 0) - 1,
        outer_pid=innocent.pid,
        sandboxed=True,
        started_at=0.0,
    )
    assert await runners.adopt([row], needed=set()) == []
    await innocent.communicate(b"\n")
    assert innocent.returncode == 0
    assert runner_log.ended == ["s_1"]


async def test_a_dead_runner_of_a_needed_session_keeps_its_spool(open_runners, runner_log):
    first = open_runners()
    await first.sandbox("s_1").run("c", "echo kept; cd /tmp", limit=60)
    row = runner_log.rows["s_1"]
    await first.end_session("s_1")
    second = open_runners()
    assert await second.adopt([row], needed={"s_1"}) == []
    assert (await second.sandbox("s_1").attach("c")).output == "kept\n"
    assert (await second.sandbox("s_1").run("c2", "pwd", limit=60)).output == "/tmp\n"


async def test_a_home_with_a_long_path_works(open_runners, home):
    deep = home / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    result = await open_runners(at=deep).sandbox("s_1").run("c", "echo hi", limit=60)
    assert result.output == "hi\n"


async def test_odd_session_ids_stay_inside_the_home(runners, home):
    for name in ("../../x", "a/b", "", "é" * 200, "."):
        result = await runners.sandbox(name).run("c", f"echo {len(name)} >id; cat id", limit=60)
        assert result.output == f"{len(name)}\n"
    assert len(list((home / "workspaces").iterdir())) == 5
    assert sorted(path.name for path in home.parent.iterdir()) == ["home"]


async def test_no_descriptor_of_the_gateway_is_inherited(runners, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("sk-secret")
    with secret.open() as file:
        os.set_inheritable(file.fileno(), True)
        result = await runners.sandbox("s_1").run("c", "ls -l /proc/self/fd", limit=60)
        os.set_inheritable(file.fileno(), False)
    assert "secret" not in result.output
    assert len(result.output.splitlines()) == 5  # a heading, 0, 1, 2 and the folder being listed


async def test_a_required_sandbox_that_is_missing_says_how_to_get_it(open_runners):
    runners = open_runners(sandbox="required", bwrap="no-such-bwrap")
    with pytest.raises(RunnerError, match=r"not installed.*apt install bubblewrap"):
        await runners.sandbox("s_1").run("c", "true", limit=5)


async def test_a_sandbox_that_does_not_work_is_detected_by_running_it(
    open_runners, tmp_path, caplog
):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    runners = open_runners(sandbox="auto", bwrap=str(broken))
    await runners.sandbox("a").run("c", "true", limit=60)
    await runners.sandbox("b").run("c", "true", limit=60)
    assert runners.sandboxed is False
    assert "No permissions" in runners.why_unsandboxed
    assert caplog.text.count("COMMANDS RUN WITHOUT A SANDBOX") == 1


async def test_without_bubblewrap_everything_else_works(open_runners, runner_log, home):
    runners = open_runners(sandbox="off")
    sandbox = runners.sandbox("s_1")
    script = "cd /tmp; export WORD=kept; setsid sleep 3231 & ( setsid nohup sleep 3232 & ) ; exit 3"
    result = await sandbox.run("c", script, limit=60)
    assert (result.exit_code, result.cwd) == (3, "/tmp")
    result = await sandbox.run(
        "c2", "pwd; echo $WORD; env | cut -d= -f1 | sort | tr '\\n' ' '", limit=60
    )
    assert result.output.startswith("/tmp\nkept\nHOME LANG LOGNAME OLDPWD PATH PWD SHELL")
    await sandbox.start_process("p", "sleep 3233")
    await sandbox.write_file("w", "~/x", "text")
    assert (SessionPaths(home, "s_1").workspace / "x").read_text() == "text"
    row = runner_log.rows["s_1"]
    async with asyncio.timeout(60):
        # Three sleepers and a keeper; what a shell put into the background may not be there yet.
        while (
            len(below := {pid: process_start_time(pid) for pid in living_descendants(row.pid)}) < 4
        ):
            await asyncio.sleep(0.01)
    assert (row.sandboxed, runners.sandboxed) == (False, False)
    await runners.end_session("s_1")
    assert [pid for pid, began in below.items() if process_start_time(pid) == began] == []
    assert process_start_time(row.pid) is None
