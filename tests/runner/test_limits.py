"""The limits of a runner: disk, processes, memory, file size, idle time."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.runner.runner_log import SESSION_ID, OpenRunners, RunnerLog

from holdfast.core.config.settings import RunnerSettings, SandboxMode
from holdfast.core.ids import CallId, SessionId
from holdfast.core.ports.sandbox import SandboxRefused
from holdfast.runner.bubblewrap import make_plan
from holdfast.runner.cgroups import (
    PROCESS_RESERVE,
    Hierarchy,
    find_cgroups,
    own_folders,
    runner_cgroup,
)
from holdfast.runner.launch import launch_runner
from holdfast.runner.paths import SessionPaths, connect_socket
from holdfast.runner.program.process_tree import start_time as process_start_time
from holdfast.runner.runners import kill_runner


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


FILES = """python3 -c '
import os, time
for n in range({0}):
    os.close(os.open(f"f{{n}}", os.O_CREAT))
print("made", {0})
time.sleep({1})'"""


async def test_files_count_towards_the_limits_of_a_workspace_however_small(
    open_runners: OpenRunners,
) -> None:
    """Empty files use no blocks, and can use up the inodes of the whole disk."""
    sandbox = open_runners(RunnerSettings(workspace_files=2000)).sandbox(SESSION_ID)
    innocent = await sandbox.start_process(CallId("p"), "while sleep 0.1; do echo tick; done")
    result = await sandbox.run(CallId("c"), FILES.format(3000, 60), limit=60)
    assert result.exit_code is None
    assert "the workspace is full" in result.output
    with pytest.raises(SandboxRefused, match="the workspace is full"):
        await sandbox.write_file(CallId("w"), "more", "x")
    assert (await sandbox.poll_process(innocent.id)).process.running
    await sandbox.run(CallId("c2"), "find . -name 'f*' -delete", limit=60)
    await sandbox.write_file(CallId("w2"), "more", "x")
    result = await sandbox.run(CallId("c3"), FILES.format(1500, 0), limit=60)
    assert result.output == "made 1500\n"


def needs_cgroups(*controllers: str) -> None:
    if not find_cgroups().controllers >= set(controllers):
        pytest.skip(f"no cgroup can be created here for {controllers}")


SHARED = """python3 -c '
import os, time
for n in range({0}):
    fd = os.memfd_create("shared")
    os.write(fd, bytes(50 << 20))
print("kept", {0})'"""


async def test_shared_memory_has_a_limit(open_runners: OpenRunners) -> None:
    """It belongs to no process, so only a cgroup can limit it."""
    needs_cgroups("memory")
    sandbox = open_runners(RunnerSettings(memory_mb=200)).sandbox(SESSION_ID)
    result = await sandbox.run(CallId("c"), SHARED.format(8), limit=60)
    assert result.exit_code != 0 and "kept" not in result.output
    result = await sandbox.run(CallId("c2"), SHARED.format(2), limit=60)
    assert result.output == "kept 2\n"


async def test_processes_of_a_session_share_its_memory_limit(open_runners: OpenRunners) -> None:
    needs_cgroups("memory")
    sandbox = open_runners(RunnerSettings(memory_mb=200)).sandbox(SESSION_ID)
    hungry = "python3 -c 'x = bytearray(90 << 20); print(len(x)); import time; time.sleep(5)' & "
    result = await sandbox.run(CallId("c"), f"{hungry * 4} wait", limit=60)
    assert result.output.count(str(90 << 20)) < 4
    assert (await sandbox.run(CallId("c2"), "echo well", limit=60)).output == "well\n"


def cgroups_of(home: Path) -> list[Path]:
    """Of the runners of this home, in all hierarchies."""
    mark = runner_cgroup(home, SESSION_ID, moment=0).rpartition("-")[0].rpartition("-")[0]
    folders = (Path(each.folder) for each in find_cgroups().hierarchies)
    return [found for folder in folders for found in folder.glob(f"{mark}-*")]


async def test_processes_and_cpu_of_a_session_are_limited_by_its_cgroups(
    open_runners: OpenRunners, home: Path
) -> None:
    needs_cgroups("pids", "cpu")
    settings = RunnerSettings(processes=50, cpus=0.05)
    sandbox = open_runners(settings).sandbox(SESSION_ID)
    spin = "timeout 1 sh -c 'while :; do :; done'"
    await sandbox.run(CallId("c"), spin, limit=60)
    files = [each / name for each in cgroups_of(home) for name in ("pids.max", "cpu.stat")]
    values = {file.name: file.read_text() for file in files if file.exists()}
    assert values.get("pids.max") == f"{50 + PROCESS_RESERVE}\n"
    throttled = dict(line.split() for line in values["cpu.stat"].splitlines())
    assert int(throttled["nr_throttled"]) > 0


async def test_the_cgroups_of_a_runner_end_with_it(open_runners: OpenRunners, home: Path) -> None:
    needs_cgroups("memory")
    runners = open_runners()
    await runners.sandbox(SESSION_ID).start_process(CallId("p"), "sleep 3331")
    folders = cgroups_of(home)
    assert {name for each in find_cgroups().hierarchies for name in each.controllers} and folders
    assert all((folder / "cgroup.procs").read_text().split() for folder in folders)
    await runners.end_session(SESSION_ID)
    assert cgroups_of(home) == []


async def test_a_start_removes_the_cgroups_that_a_killed_gateway_left(
    open_runners: OpenRunners, runner_log: RunnerLog, home: Path
) -> None:
    """The runner ended while no gateway ran."""
    needs_cgroups("memory")
    before = open_runners()
    await before.sandbox(SESSION_ID).run(CallId("c"), "true", limit=60)
    row = runner_log.rows[SESSION_ID]
    await before.detach()  # as a killed gateway leaves it: running, and without a connection
    await kill_runner(row.pid, started=row.start_time, sandboxed=True)
    assert cgroups_of(home)
    await open_runners().adopt([row], needed=set())
    assert cgroups_of(home) == []


async def test_a_runner_that_ends_by_itself_leaves_no_cgroup(
    open_runners: OpenRunners, home: Path
) -> None:
    needs_cgroups("memory")
    runners = open_runners(RunnerSettings(idle_timeout=0.2))
    await runners.sandbox(SESSION_ID).run(CallId("c"), "true", limit=60)
    async with asyncio.timeout(60):
        while cgroups_of(home):
            await asyncio.sleep(0.05)


async def test_without_a_sandbox_no_process_escapes_the_end_of_its_session(
    open_runners: OpenRunners, home: Path, tmp_path: Path
) -> None:
    """A process that leaves the runner's tree is still in its cgroup."""
    needs_cgroups("memory")
    settings = RunnerSettings(sandbox=SandboxMode.OFF, sandbox_off_as_root=True)
    runners = open_runners(settings)
    await runners.sandbox(SESSION_ID).start_process(CallId("p"), "sleep 3332")
    (folder, *_) = cgroups_of(home)
    stray = await asyncio.create_subprocess_exec("sleep", "3333")
    (folder / "cgroup.procs").write_text(str(stray.pid))
    await runners.end_session(SESSION_ID)
    assert await stray.wait() == -signal.SIGKILL
    assert cgroups_of(home) == []


MOUNTS = """\
25 1 0:24 / /sys/fs/cgroup rw - tmpfs tmpfs rw
30 25 0:26 / {v1}/memory rw - cgroup cgroup rw,memory
31 25 0:27 / {v1}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 /docker/abc {v2} rw - cgroup2 cgroup2 rw
"""


def test_the_own_cgroup_is_found_in_both_versions(tmp_path: Path) -> None:
    own = "5:memory:/user\n4:cpu,cpuacct:/\n3:pids:/elsewhere\n0::/docker/abc/child\n"
    folder = tmp_path / "v2" / "child"
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text("io memory pids\n")
    (folder / "cgroup.subtree_control").write_text("memory pids\n")
    mounts = MOUNTS.format(v1="/v1", v2=tmp_path / "v2")
    assert own_folders(mounts, own) == [
        Hierarchy("/v1/memory/user", ("memory",), 1),
        Hierarchy("/v1/cpu,cpuacct", ("cpu",), 1),
        Hierarchy(str(folder), ("memory", "pids"), 2),
    ]
