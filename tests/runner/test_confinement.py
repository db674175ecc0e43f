"""Confinement: an agent that tries to get out of its sandbox."""

import asyncio
import os
import platform
import signal
import sys
from pathlib import Path

import pytest
from tests.runner.runner_log import SESSION_ID, RunnerLog

from holdfast.core.errors import RunnerError
from holdfast.core.ids import CallId, SessionId
from holdfast.core.ports.sandbox import Sandbox
from holdfast.runner.launch import PROXY_VARIABLES
from holdfast.runner.paths import SessionPaths
from holdfast.runner.program.confinement import ARCHITECTURES, DENIED_CALLS, filter_program
from holdfast.runner.program.process_tree import living_descendants, start_time
from holdfast.runner.runners import Runners


async def test_the_gateways_home_cannot_be_seen(sandbox: Sandbox, home: Path) -> None:
    (home / ".env").write_text("KEY=sk-very-secret")
    (home / "state.db").write_text("sk-very-secret")
    attempts = f"""
        cat {home}/.env {home}/state.db; ls {home}; ls {home.parent}
        cat /proc/1/root{home}/.env; cat ../../.env; ls /root /home
        grep -r sk-very-secret / --include=.env --include=state.db -s
        find / -xdev -name state.db 2>/dev/null
    """
    result = await sandbox.run(CallId("c"), attempts, limit=60)
    assert "sk-very-secret" not in result.output
    assert str(home / "state.db") not in result.output.replace("cat: " + str(home), "")


async def test_nothing_of_the_hosts_environment_is_inherited(sandbox: Sandbox) -> None:
    result = await sandbox.run(CallId("c"), "env | cut -d= -f1 | sort | tr '\\n' ' '", limit=60)
    assert result.output.split() == sorted(
        [
            *("HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "SHLVL", "TERM", "TMPDIR", "USER"),
            *("_", *PROXY_VARIABLES),
        ]
    )


async def test_no_process_outside_can_be_seen_or_signalled(sandbox: Sandbox) -> None:
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    attempts = f"kill -9 {os.getpid()} {victim.pid}; ls -d /proc/[0-9]* | wc -l"
    result = await sandbox.run(CallId("c"), attempts, limit=60)
    await victim.communicate(b"\n")
    assert victim.returncode == 0
    assert "No such process" in result.output
    assert int(result.output.splitlines()[-1]) < 10


async def test_the_runner_cannot_be_killed_stopped_or_looked_into(sandbox: Sandbox) -> None:
    attempts = """
        kill -9 1; kill -STOP 1; kill -TERM 1; kill -CHLD 1
        ls /proc/1/fd; cat /proc/1/environ; cat /proc/1/mem | head -c 1; echo x >/proc/1/fd/2
        python3 -c 'import os; os.pidfd_open(1)' && echo "pidfd is no secret"
    """
    result = await sandbox.run(CallId("c"), attempts, limit=60)
    assert result.output.count("ermission denied") >= 4, result.output
    assert (await sandbox.run(CallId("c2"), "echo well", limit=60)).output == "well\n"


async def test_a_command_has_no_privileges(sandbox: Sandbox) -> None:
    wanted = "grep -E 'Cap|NoNewPrivs|^Uid|^Groups' /proc/self/status | tr '\\t' ' '"
    lines = (await sandbox.run(CallId("c"), wanted, limit=60)).output.splitlines()
    facts = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert {value for name in facts if name[:3] == "Cap" for value in facts[name]} == {"0" * 16}
    assert facts["NoNewPrivs"] == ["1"]
    assert "0" not in facts["Uid"] and len(set(facts["Uid"])) == 1
    assert "0" not in facts["Groups"]


async def test_nothing_but_the_workspace_can_be_written(sandbox: Sandbox) -> None:
    places = "/ /usr /usr/local/bin /etc /opt /opt/holdfast/program /dev /run /var /proc /sys /root"
    script = f"for p in {places}; do touch $p/x 2>/dev/null && echo wrote $p; done"
    result = await sandbox.run(CallId("c"), f"{script}; mount -t tmpfs x /usr", limit=60)
    assert "wrote" not in result.output
    assert result.exit_code != 0
    script = "touch x /tmp/x /dev/shm/x && df --output=size -m /tmp /dev/shm | tail -n 2"
    sizes = (await sandbox.run(CallId("c2"), script, limit=60)).output.split()
    assert [int(size) for size in sizes] == [512, 64]


async def test_no_user_namespace_can_be_made(sandbox: Sandbox) -> None:
    """Inside one a command is root again: it could mount a tmpfs of any size, or a /proc."""
    script = """
        unshare -Ur true; unshare -Urm mount -t tmpfs x /tmp && echo mounted
        python3 -c 'import ctypes, threading
libc = ctypes.CDLL(None, use_errno=True)
print("unshare", libc.unshare(0x10000000), "clone", libc.syscall(56, 0x10000011, 0, 0, 0, 0))
threading.Thread(target=print, args=("threads still start",)).start()'
    """
    result = await sandbox.run(CallId("c"), script, limit=60)
    assert "mounted" not in result.output
    assert result.output.count("not permitted") == 2, result.output
    assert "unshare -1" in result.output and "threads still start" in result.output
    if platform.machine() == "x86_64":
        assert "clone -1" in result.output


async def test_no_other_namespace_can_be_made_either(sandbox: Sandbox) -> None:
    """Not even with the capabilities that bubblewrap gave its first process."""
    script = """python3 -c '
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000):
    print("unshare", libc.unshare(flag), ctypes.get_errno())
print("harmless", libc.unshare(0x400))'
    """
    result = await sandbox.run(CallId("c"), script, limit=60)
    assert result.output == "unshare -1 1\n" * 7 + "harmless 0\n"


async def test_calls_that_lead_out_of_a_sandbox_are_denied(sandbox: Sandbox) -> None:
    """With arguments for which the kernel itself would give another error than EPERM, or none."""
    if platform.machine() != "x86_64":
        pytest.skip("the numbers in this test are those of x86_64")
    attempts = {
        "io_uring_setup": (425, 1, 0),
        "add_key": (248, 0, 0),
        "keyctl": (250, 0, -3, 1),  # the id of the session keyring
        "request_key": (249, 0, 0),
        "perf_event_open": (298, 0, 0, -1, -1, 0),
        "get_mempolicy": (239, 0, 0, 0, 0, 0),
        "move_pages": (279, 0, 0, 0, 0, 0, 0),
        "userfaultfd": (323, 1),  # its mode for user memory alone needs no right
        "clock_adjtime": (305, 0, 0),
        "fsopen": (430, 0, 0),
        "open_tree": (428, -100, 0, 0),
        "AF_VSOCK": (41, 40, 1, 0),
        "AF_ALG": (41, 38, 5, 0),
        "x32 io_uring_setup": (425 | 0x40000000, 1, 0),
    }
    script = f"""python3 - <<'END'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for name, call in {attempts!r}.items():
    result = libc.syscall(*map(ctypes.c_long, call))
    print(name, "denied" if (result, ctypes.get_errno()) == (-1, 1) else result)
print("ptrace", libc.ptrace(0, 0, 0, 0))
END"""
    result = await sandbox.run(CallId("c"), script, limit=60)
    lines = result.output.splitlines()
    assert lines == [*(f"{name} denied" for name in attempts), "ptrace 0"], result.output


def filtered(architecture: int, number: int, argument: int = 0) -> int:
    """What the filter returns for a call: an interpreter of its few instructions."""
    words = {0: number, 4: architecture, 16: argument}
    program, at, value = filter_program(), 0, 0
    while True:
        code, if_so, if_not, operand = program[at]
        at += 1
        if code == 0x20:
            value = words[operand]
        elif code == 0x54:
            value &= operand
        elif code == 0x05:
            at += operand
        elif code in (0x15, 0x45):
            holds = value == operand if code == 0x15 else bool(value & operand)
            at += if_so if holds else if_not
        else:
            return operand


@pytest.mark.parametrize("column", range(4), ids=["x86_64", "i386", "aarch64", "arm"])
def test_the_filter_has_the_same_effect_on_every_architecture(column: int) -> None:
    architecture, clone, unshare, new_socket, socketcall = ARCHITECTURES[column]
    allowed, denied = 0x7FFF0000, 0x00050001
    numbers = {calls[column] for calls in DENIED_CALLS.values()} - {None}
    assert {filtered(architecture, number) for number in numbers if number} == {denied}
    assert filtered(architecture, 435) == 0x00050026  # clone3: ENOSYS
    decided = {clone, unshare, new_socket, socketcall, 435, *numbers}
    others = [number for number in range(500) if number not in decided]
    assert {filtered(architecture, number) for number in others} == {allowed}
    assert filtered(architecture, clone, 0x01200011) == allowed  # fork
    assert filtered(architecture, clone, 0x003D0F00) == allowed  # a thread
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert filtered(architecture, clone, flag | 17) == denied
        assert filtered(architecture, unshare, flag) == denied
    for family, expected in ((1, allowed), (2, allowed), (16, allowed), (38, denied), (40, denied)):
        assert filtered(architecture, new_socket, family) == expected
    if socketcall is not None:
        assert filtered(architecture, socketcall, 1) == denied
        assert filtered(architecture, socketcall, 3) == allowed


def test_the_filter_fits_into_the_kernels_limits() -> None:
    program = filter_program()
    assert len(program) < 4096
    assert max(max(if_so, if_not) for _, if_so, if_not, _ in program) < 256


async def test_sessions_cannot_see_each_other(runners: Runners) -> None:
    mine, yours = runners.sandbox(SessionId("mine")), runners.sandbox(SessionId("yours"))
    await mine.run(CallId("c"), "echo private >note; sleep 100 &", limit=60)
    result = await yours.run(CallId("c"), "ls -A /workspace; pgrep sleep; id -u", limit=60)
    own = await mine.run(CallId("c2"), "id -u", limit=60)
    assert "note" not in result.output
    if os.getuid() == 0:
        assert own.output != result.output


@pytest.mark.parametrize("plant", ["link", "pipe", "folder", "nonsense", "deep", "forged"])
async def test_files_planted_in_the_spool_are_not_trusted(
    runners: Runners, home: Path, plant: str
) -> None:
    """The gateway reads the spool of a dead runner; a command could have written to it."""
    (home / "secret.json").write_text('{"result": {"exit_code": 0, "output": "sk-very-secret"}}')
    sandbox = runners.sandbox(SESSION_ID)
    await sandbox.run(CallId("c"), "true", limit=60)
    record = "/run/holdfast/calls/*.json"
    ways = {
        "link": f"for f in {record}; do ln -sf {home}/secret.json $f; done",
        "pipe": f"for f in {record}; do rm $f; mkfifo $f; done",
        "folder": f"rm -r /run/holdfast/calls; ln -s {home} /run/holdfast/calls",
        "nonsense": f"for f in {record}; do head -c 5000 /dev/urandom >$f; done",
        "deep": f"for f in {record}; do printf '%0.s[' $(seq 100000) >$f; done",
        "forged": f"""for f in {record}; do echo '{{"result": {{"exit_code": "x"}}}}' >$f; done""",
    }
    process = await sandbox.start_process(CallId("p"), ways[plant])
    await sandbox.wait_for_process(process.id, limit=60)
    await runners.end_session(SESSION_ID)
    try:
        result = await sandbox.attach(CallId("c"))
    except RunnerError as error:
        assert plant == "forged" and "record is invalid" in str(error)
    else:
        assert result is None


async def test_planted_processes_are_left_out(runners: Runners, home: Path) -> None:
    (home / "secret.json").write_text('{"id": "p2", "command": "sk-secret", "started_at": 1}')
    sandbox = runners.sandbox(SESSION_ID)
    process = await sandbox.start_process(CallId("p"), "true")
    await sandbox.wait_for_process(process.id, limit=60)
    plants = f"""
        cd /run/holdfast/processes
        echo '{{"id": "p1"}}' >p1.json; ln -s {home}/secret.json p2.json; mkdir p3.json
        echo '{{"id": "../x", "command": "", "started_at": 1}}' >p4.json; mkfifo p5.json
    """
    await sandbox.run(CallId("c"), plants, limit=60)
    await runners.end_session(SESSION_ID)
    assert await runners.processes(SESSION_ID) == []
    assert (await sandbox.run(CallId("c2"), "echo well", limit=60)).output == "well\n"


async def test_an_invalid_terminal_state_is_ignored(runners: Runners) -> None:
    sandbox = runners.sandbox(SESSION_ID)
    forged = [
        '{"environment": 5, "cwd": 7}',
        '{"environment": {"A=": "x", "B": "\\u0000", "C": 1}}',
    ]
    for number, state in enumerate(forged):
        await sandbox.start_process(
            CallId(f"p{number}"), f"echo '{state}' >/run/holdfast/terminal.json"
        )
        await sandbox.wait_for_process(f"p{number + 1}", limit=60)
        await runners.end_session(SESSION_ID)
        result = await sandbox.run(CallId(f"c{number}"), "pwd; echo well", limit=60)
        assert result.output.splitlines()[-2:] == ["/workspace", "well"]


async def test_a_deleted_spool_does_not_harm_the_runner(sandbox: Sandbox) -> None:
    result = await sandbox.run(CallId("c"), "rm -rf /run/holdfast/*; echo swept", limit=60)
    assert result.exit_code == 0
    assert (await sandbox.run(CallId("c2"), "echo well", limit=60)).output == "well\n"
    assert (await sandbox.start_process(CallId("p"), "true")).id == "p1"


async def test_no_process_outlives_the_end_of_its_session(
    sandbox: Sandbox, runners: Runners, runner_log: RunnerLog
) -> None:
    script = """
        setsid nohup sleep 3131 >/dev/null 2>&1 &
        ( ( setsid sh -c 'trap "" TERM HUP INT; sleep 3132; sleep 3132' & ) & )
        python3 -c 'import os
if not os.fork():
    os.setsid()
    if not os.fork(): os.execlp("sleep", "sleep", "3133")'
    """
    await sandbox.run(CallId("c"), script, limit=60)
    await sandbox.start_process(CallId("p"), "sleep 3134")
    row = runner_log.rows[SESSION_ID]
    asleep = "until [ $(pgrep -c -f '^sleep 313[1-4]$') = 4 ]; do sleep 0.02; done"
    await sandbox.run(CallId("look"), asleep, limit=60)
    below = {pid: start_time(pid) for pid in living_descendants(row.pid)}
    assert len(below) >= 6  # four sleepers, the shell of one, and a keeper
    await runners.end_session(SESSION_ID)
    assert [pid for pid, began in below.items() if start_time(pid) == began] == []
    assert start_time(row.pid) is None


async def test_a_workspace_link_cannot_make_us_give_files_away(
    runners: Runners, home: Path
) -> None:
    """The workspace is given to the session's user when a runner starts: links are not followed."""
    if os.getuid():
        pytest.skip("only root gives files away")
    place = SessionPaths(home, SESSION_ID)
    place.workspace.mkdir(parents=True)
    kept = home / "kept"
    kept.write_text("mine")
    (place.workspace / "link").symlink_to(kept)
    (place.workspace / "theirs").write_text("x")
    await runners.sandbox(SESSION_ID).run(CallId("c"), "echo more >>theirs", limit=60)
    assert kept.stat().st_uid == 0
    assert (place.workspace / "theirs").read_text() == "xmore\n"


async def test_the_socket_is_for_the_gateway_alone(sandbox: Sandbox, home: Path) -> None:
    await sandbox.run(CallId("c"), "true", limit=60)
    folder = SessionPaths(home, SESSION_ID).run_folder
    for private in (folder, folder.parent, home / "workspaces"):
        assert private.stat().st_mode & 0o777 == 0o700
    result = await sandbox.run(CallId("c2"), "find / -type s 2>/dev/null", limit=60)
    assert result.output == "/run/egress/sock\n"  # of the egress proxy


async def test_killing_the_outer_process_does_not_stop_the_runner(
    sandbox: Sandbox, runner_log: RunnerLog
) -> None:
    await sandbox.run(CallId("c"), "cd /tmp", limit=60)
    os.kill(runner_log.rows[SESSION_ID].outer_pid, signal.SIGKILL)
    assert (await sandbox.run(CallId("c2"), "pwd", limit=60)).output == "/tmp\n"
