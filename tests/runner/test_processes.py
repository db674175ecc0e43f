"""Background processes: started once, watched, fed, ended, and remembered."""

import asyncio
import time

import pytest

from holdfast.core.ports.sandbox import SandboxRefused


@pytest.fixture
def bench(runners):
    return runners.bench("s_1")


async def test_a_process_is_started_once_per_call(bench):
    first = await bench.start_process("c", "echo x >>started; sleep 100")
    again = await bench.start_process("c", "echo x >>started; sleep 100")
    assert first == again == await bench.started_process("c")
    assert await bench.started_process("other") is None
    assert [process.id for process in await bench.list_processes()] == ["p1"]


async def test_its_end_and_exit_code_are_told(bench):
    process = await bench.start_process("c", "echo bye; exit 5")
    part = await bench.wait_for_process(process.id, limit=60)
    assert (part.process.exit_code, part.output) == (5, "bye\n")
    assert not part.process.running


async def test_a_wait_is_over_when_its_limit_is(bench):
    process = await bench.start_process("c", "sleep 100")
    began = time.monotonic()
    part = await bench.wait_for_process(process.id, limit=0.2)
    assert part.process.running
    assert time.monotonic() - began < 10


async def test_each_poll_shows_only_what_is_new(bench):
    process = await bench.start_process("c", "while read line; do echo got $line; done")
    await bench.feed_process(process.id, "one\n")
    assert await _next_output(bench, process.id) == "got one\n"
    await bench.feed_process(process.id, "two\n", eof=True)
    part = await bench.wait_for_process(process.id, limit=60)
    assert (part.output, part.process.exit_code) == ("got two\n", 0)
    log = await bench.read_process_log(process.id, offset=4)
    assert (log.output, log.size) == ("one\ngot two\n", 16)
    tail = await bench.read_process_log(process.id, limit=8)
    assert tail.output == "got two\n"
    with pytest.raises(SandboxRefused, match="takes no more input"):
        await bench.feed_process(process.id, "x")


async def test_a_flood_between_two_polls_is_skipped_with_a_word(bench):
    process = await bench.start_process("c", "seq 20000; sleep 0")
    part = await bench.wait_for_process(process.id, limit=60)
    assert part.output.endswith("\n20000\n")
    assert part.skipped == part.size - 16384


async def test_killing_takes_everything_below_with_it(bench):
    script = "setsid sh -c 'trap \"\" TERM; sleep 301; sleep 301' & sleep 302"
    process = await bench.start_process("c", script)
    await bench.run("look", "until pgrep -x sleep; do sleep 0.02; done", limit=60)
    ended = await bench.kill_process(process.id)
    assert (ended.exit_code, ended.note, ended.running) == (None, "killed", False)
    left = await bench.run("c2", "pgrep -af 'sleep 30[12]' | grep -v pgrep", limit=60)
    assert left.output == ""


async def test_it_begins_where_the_terminal_is(bench):
    await bench.run("c1", "mkdir here; cd here; export WORD=said", limit=60)
    process = await bench.start_process("c2", "pwd; echo $WORD")
    part = await bench.wait_for_process(process.id, limit=60)
    assert part.output == "/workspace/here\nsaid\n"


async def test_a_process_nobody_started_is_named_with_those_that_are(bench):
    await bench.start_process("c", "sleep 100")
    with pytest.raises(SandboxRefused, match=r"no process 'p9'; known: p1"):
        await bench.poll_process("p9")


async def test_one_that_does_not_read_takes_only_what_fits(bench):
    process = await bench.start_process("c", "sleep 100")
    with pytest.raises(SandboxRefused, match="does not read"):
        await bench.feed_process(process.id, "x" * 200_000)


async def test_what_cannot_be_asked_of_it_is_refused_and_costs_it_nothing(bench):
    """The runner is pid 1 of the session: an error of its own would end all that runs."""
    process = await bench.start_process("c", "sleep 100")
    with pytest.raises(SandboxRefused, match="could not"):
        await bench.read_process_log(process.id, offset=10**30)
    with pytest.raises(SandboxRefused, match="NUL byte"):
        await bench.start_process("c2", "echo a\0b")
    assert [one.running for one in await bench.list_processes()] == [True]


async def test_those_of_a_runner_that_died_are_reported_as_ended(runners, ledger):
    """J2: in a sandbox that goes away they are reported as ended."""
    bench = runners.bench("s_1")
    await bench.start_process("c", "sleep 100")
    done = await bench.start_process("c2", "exit 4")
    await bench.wait_for_process(done.id, limit=60)
    await runners.end("s_1")
    rows = await runners.processes("s_1")
    assert [(row.id, row.exit_code, row.note) for row in rows] == [
        ("p1", None, "lost: its sandbox ended under it"),
        ("p2", 4, ""),
    ]
    later = await bench.start_process("c3", "sleep 100")
    assert later.id == "p3"
    assert [process.running for process in await bench.list_processes()] == [False, False, True]


async def test_one_that_runs_says_what_it_takes_with_all_that_it_started(runners):
    bench = runners.bench("s_1")
    await bench.start_process("c", "sh -c 'while :; do :; done' & wait")
    done = await bench.start_process("c2", "exit 0")
    await bench.wait_for_process(done.id, limit=60)
    async with asyncio.timeout(60):
        while (row := (await runners.processes("s_1"))[0]).cpu < 0.05:
            await asyncio.sleep(0.05)
    assert row.ended_at is None and row.memory > 100_000
    ended = (await runners.processes("s_1"))[1]
    assert (ended.cpu, ended.memory) == (None, None)


async def _next_output(bench, process_id):
    async with asyncio.timeout(60):
        while True:
            part = await bench.wait_for_process(process_id, limit=0.05)
            if part.output:
                return part.output
