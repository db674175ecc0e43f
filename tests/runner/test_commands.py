"""Commands in the terminal: state, output, limits, and once per call id."""

import asyncio
import signal
from collections.abc import Iterator

import pytest
from tests.runner.runner_log import SESSION_ID, OpenRunners

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ids import CallId
from holdfast.core.ports.sandbox import Sandbox, SandboxRefused
from holdfast.runner.runners import Runners


async def test_output_and_exit_code_come_back_in_order(sandbox: Sandbox) -> None:
    result = await sandbox.run(CallId("c"), "echo out; echo err >&2; echo more; (exit 7)", limit=60)
    assert (result.exit_code, result.output) == (7, "out\nerr\nmore\n")


@pytest.mark.parametrize(
    "ending",
    ["true", "exit 3", "set -e; false; echo never", "set -C; set -u", "trap 'echo bye' EXIT"],
)
async def test_folder_and_variables_survive_whatever_way_a_command_ends(
    sandbox: Sandbox, ending: str
) -> None:
    """J1: cwd and exported variables after each command."""
    await sandbox.run(
        CallId("c1"), f"mkdir -p 'a b' && cd 'a b' && export WORD=$'x\\ny=\"z'; {ending}", limit=60
    )
    result = await sandbox.run(CallId("c2"), 'pwd; printf "%s" "$WORD"', limit=60)
    assert result.output == '/workspace/a b\nx\ny="z'


async def test_variables_that_are_not_exported_do_not_stay(sandbox: Sandbox) -> None:
    await sandbox.run(CallId("c1"), "secret=1; unset LANG", limit=60)
    result = await sandbox.run(CallId("c2"), 'echo "$secret,$LANG"', limit=60)
    assert result.output == ",\n"


async def test_shell_settings_of_the_runner_do_not_reach_the_command(sandbox: Sandbox) -> None:
    await sandbox.run(CallId("c1"), "set -a; set -x", limit=60)
    result = await sandbox.run(CallId("c2"), "env; set -x; echo hi; echo $#", limit=60)
    assert "holdfast" not in result.output.replace("HOSTNAME=holdfast", "")
    assert result.output.endswith("++ echo hi\nhi\n++ echo 0\n0\n")


async def test_a_deleted_working_folder_is_reported_and_left(sandbox: Sandbox) -> None:
    await sandbox.run(CallId("c1"), "mkdir gone && cd gone && rmdir ../gone", limit=60)
    result = await sandbox.run(CallId("c2"), "pwd", limit=60)
    assert result.output == "[/workspace/gone is gone; working in /workspace]\n/workspace\n"


async def test_a_variable_too_large_to_pass_on_is_dropped(sandbox: Sandbox) -> None:
    await sandbox.run(CallId("c1"), 'export BIG=$(head -c 600000 /dev/zero | tr "\\0" x)', limit=60)
    result = await sandbox.run(CallId("c2"), "echo ${#BIG}", limit=60)
    assert (result.exit_code, result.output) == (0, "0\n")


async def test_a_call_runs_once_however_often_it_is_requested(sandbox: Sandbox) -> None:
    first, second = await asyncio.gather(
        *(
            sandbox.run(CallId("c"), "echo once >>log; sleep 0.3; cat log", limit=60)
            for _ in range(2)
        )
    )
    again = await sandbox.run(CallId("c"), "echo other", limit=60)
    assert first == second == again
    assert first.output == "once\n"


async def test_call_ids_that_are_no_file_names_are_kept_apart(sandbox: Sandbox) -> None:
    odd = ["../../x", "a/b", "é\n", "x" * 500, "a\0b"]
    results = [await sandbox.run(CallId(call), f"echo {n}", limit=60) for n, call in enumerate(odd)]
    assert [result.output for result in results] == [f"{n}\n" for n in range(len(odd))]


async def test_long_output_keeps_head_and_tail_and_says_where_the_rest_is(
    open_runners: OpenRunners,
) -> None:
    sandbox = open_runners(RunnerSettings(output_kb=1)).sandbox(SESSION_ID)
    result = await sandbox.run(CallId("c"), "seq 100000", limit=60)
    assert result.truncated
    assert len(result.output) < 1400
    assert result.output.startswith("1\n2\n") and result.output.endswith("\n99999\n100000\n")
    path = result.output.partition("all of it is in ")[2].split()[0]
    whole = await sandbox.run(CallId("c2"), f"wc -l <{path}; tail -n 1 {path}", limit=60)
    assert whole.output == "100000\n100000\n"


async def test_binary_output_does_no_harm(sandbox: Sandbox) -> None:
    result = await sandbox.run(CallId("c"), r"printf '\xff\x00\xfe ok'", limit=60)
    assert result.output == "\ufffd\ufffd\ufffd ok"


async def test_a_time_limit_kills_the_whole_tree_and_only_that(sandbox: Sandbox) -> None:
    """setsid, nohup and a double fork do not save a child of the command; a process does."""
    process = await sandbox.start_process(CallId("p"), "sleep 300")
    await sandbox.run(CallId("look"), "until pgrep -x sleep; do sleep 0.02; done", limit=60)
    script = """
        setsid nohup sleep 301 &
        ( ( trap '' TERM; setsid sh -c 'trap "" TERM; sleep 302; sleep 302' ) & ) &
        sleep 303
    """
    result = await sandbox.run(CallId("c"), script, limit=0.5)
    assert result.timed_out and result.exit_code is None
    left = await sandbox.run(CallId("c2"), "pgrep -a sleep", limit=60)
    assert left.output.split()[1:] == ["sleep", "300"]
    assert (await sandbox.poll_process(process.id)).process.running


async def test_a_child_process_that_holds_the_output_does_not_delay_the_call(
    sandbox: Sandbox,
) -> None:
    result = await sandbox.run(CallId("c"), "sleep 300 & echo started", limit=60)
    assert (result.output, result.timed_out) == ("started\n", False)
    there = "until pgrep -x sleep >/dev/null; do sleep 0.02; done; pgrep -c sleep"
    assert (await sandbox.run(CallId("c2"), there, limit=60)).output == "1\n"


async def test_cancelling_the_wait_kills_the_command(sandbox: Sandbox) -> None:
    task = asyncio.create_task(sandbox.run(CallId("c"), "sleep 300", limit=400))
    await _until_running(sandbox, "sleep")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await sandbox.attach(CallId("c"))
    assert result is not None and result.cancelled and result.exit_code is None
    assert (await sandbox.run(CallId("c2"), "pgrep sleep", limit=60)).exit_code == 1


async def test_output_streams_while_the_command_runs(sandbox: Sandbox) -> None:
    parts: list[str] = []
    streamed = asyncio.Event()

    def on_output(text: str) -> None:
        parts.append(text)
        streamed.set()

    script = "echo first; until [ -e go ]; do sleep 0.05; done; printf 'caf\\303'; printf '\\251'"
    running = asyncio.create_task(sandbox.run(CallId("c"), script, limit=60, on_output=on_output))
    await asyncio.wait_for(streamed.wait(), 20)
    assert parts == ["first\n"]
    await sandbox.write_file(CallId("w"), "go", "")
    result = await running
    assert "".join(parts) == result.output == "first\ncafé"


async def test_many_commands_run_at_once(sandbox: Sandbox) -> None:
    all_there = "until [ $(ls at* | wc -l) = 8 ]; do sleep 0.05; done"
    results = await asyncio.gather(
        *(
            sandbox.run(CallId(f"c{n}"), f"touch at{n}; {all_there}; echo {n}", limit=60)
            for n in range(8)
        )
    )
    assert [result.output for result in results] == [f"{n}\n" for n in range(8)]


async def test_a_command_that_cannot_be_given_to_a_shell_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxRefused, match="too long"):
        await sandbox.run(CallId("c1"), "x" * 200_000, limit=60)
    with pytest.raises(SandboxRefused, match="NUL"):
        await sandbox.run(CallId("c2"), "echo \0", limit=60)


async def test_a_shell_syntax_error_is_an_exit_code(sandbox: Sandbox) -> None:
    result = await sandbox.run(CallId("c"), "if then fi (", limit=60)
    assert result.exit_code not in (0, None)
    assert "syntax error" in result.output


async def test_killing_every_process_inside_does_not_harm_the_runner(sandbox: Sandbox) -> None:
    result = await sandbox.run(CallId("c"), "kill -9 -1; sleep 5", limit=60)
    assert result.exit_code == 137
    assert (await sandbox.run(CallId("c2"), "echo well", limit=60)).output == "well\n"


@pytest.fixture
def parent_that_ignores_signals() -> Iterator[None]:
    """As `nohup`, `cron` and some shells start a gateway."""
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTTOU)
    before = [(each, signal.signal(each, signal.SIG_IGN)) for each in ignored]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGWINCH})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for each, handler in before:
        signal.signal(each, handler)


@pytest.mark.usefixtures("parent_that_ignores_signals")
async def test_signals_and_input_are_those_of_a_fresh_process(sandbox: Sandbox) -> None:
    result = await sandbox.run(
        CallId("c"), "yes | head -n 1; cat; grep -E 'Sig(Ign|Blk)' /proc/self/status", limit=60
    )
    text, *sets = result.output.split()
    assert text == "y"
    # 32 and 33 are the C library's own: no program can reset them.
    found = dict(zip(sets[::2], (int(each, 16) & ~(3 << 31) for each in sets[1::2]), strict=True))
    assert found == {"SigBlk:": 0, "SigIgn:": 0}


async def test_an_unknown_call_is_reported_as_never_seen(sandbox: Sandbox) -> None:
    assert await sandbox.attach(CallId("c")) is None
    await sandbox.run(CallId("other"), "true", limit=60)
    assert await sandbox.attach(CallId("c")) is None


async def _until_running(sandbox: Sandbox, name: str) -> None:
    for n in range(200):
        if (await sandbox.run(CallId(f"look{n}"), f"pgrep {name}", limit=60)).exit_code == 0:
            return
    raise AssertionError(f"{name} never ran")


async def test_shells_of_one_workspace_do_not_disturb_each_other(runners: Runners) -> None:
    """Children share the workspace, and each has a folder and variables of its own."""
    own, one, other = (runners.sandbox(SESSION_ID, shell=name) for name in ("", "one", "other"))
    await own.run(CallId("c1"), "mkdir a b; export WHO=own; cd a", limit=60)
    await one.run(CallId("c2"), "export WHO=one; cd ../b", limit=60)
    await other.write_file(CallId("c3"), "note", "from other")
    for number, sandbox in enumerate((own, one, other)):
        result = await sandbox.run(CallId(f"d{number}"), 'echo "$PWD $WHO"', limit=60)
        folder, who = result.output.split()
        assert (folder, who) == [
            ("/workspace/a", "own"),
            ("/workspace/b", "one"),
            ("/workspace/a", "own"),  # a new one begins where the session's own is
        ][number]
    assert (await own.read_file("note")).text == "from other"


async def test_a_shell_is_found_again_by_the_next_runner(runners: Runners) -> None:
    """J1: also that of a child."""
    await runners.sandbox(SESSION_ID, shell="one").run(
        CallId("c1"), "mkdir a; cd a; export WHO=one", limit=60
    )
    await runners.end_session(SESSION_ID)
    result = await runners.sandbox(SESSION_ID, shell="one").run(
        CallId("c2"), 'echo "$PWD $WHO"', limit=60
    )
    assert result.output == "/workspace/a one\n"
