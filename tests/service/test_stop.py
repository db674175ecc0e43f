"""How a real process stops: by signals, phase by phase, whatever fails or hangs on the way."""

import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.faults.lone_gateway import Lone
from tests.support.store_file import open_read_only

from holdfast.config import load
from holdfast.core.turns.stop import StopKind, StopRequester, StopRow
from holdfast.service.main import run
from holdfast.service.start import LaunchOptions
from holdfast.store.sqlite.writes import gateway_stops
from holdfast.system import exit_codes
from holdfast.system.lock import HomeLock, read_holder

C1 = (
    "record intent",
    "close intake",
    "notify",
    "drain",
    "mark",
    "interrupt",
    "kill tools",
    "finalise agents",
    "empty the cache",
    "flush outbox",
    "disconnect platforms",
    "cancel tasks",
    "kill tools again",
    "close auxiliary clients",
    "close the store",
    "record state",
    "release the lock",
)
OURS = (
    "record intent",
    "stop accepting",
    "close the listeners",
    "close the models",
    "complete the record",
    "close the store",
    "record state",
    "release the lock",
    "ask for a successor",
)

Lones = Callable[..., Lone]


@pytest.fixture
async def lones(tmp_path: Path) -> AsyncIterator[Lones]:
    made: list[Lone] = []

    def make(**options: Any) -> Lone:
        made.append(Lone(tmp_path / f"home{len(made)}", **options))
        return made[-1]

    yield make
    for lone in made:
        lone.leave()
        await lone.sweep()


@pytest.fixture
def lone(lones: Lones) -> Lone:
    return lones()


def stops(lone: Lone) -> list[StopRow]:
    """The ends of this home's processes, the last first."""
    with open_read_only(lone.paths.db) as db:
        return gateway_stops.last_stops(db, 50)


def test_the_phases_come_in_their_order_and_a_signal_is_a_reason(lone: Lone) -> None:
    """C1: by name, each once. C7: the store is whole in its file. E4: nothing is left behind.
    E3: what nobody planned leaves `running`, an operator's Ctrl-C `stopped`. Both exit 0."""
    for which, state, kind in (
        (signal.SIGTERM, "running", StopKind.SIGNAL),
        (signal.SIGINT, "stopped", StopKind.STOP),
    ):
        assert lone.start().intent()["state"] == "running"
        assert lone.stop(which) == exit_codes.OK
        went = lone.phases()
        assert [phase for phase in went if phase in C1] == list(C1)
        assert len(set(went)) == len(went)
        assert not lone.paths.db.with_name("state.db-wal").exists()
        assert read_holder(lone.home) is None and not list(lone.paths.run.iterdir())
        assert lone.intent()["state"] == state
        last, *before = stops(lone)
        assert (last.order.kind, last.order.by) == (kind, StopRequester.SIGNAL)
        assert last.stopped_at is not None and last.ready_at is None
        assert all(stop.ready_at is not None for stop in before)
    assert len(stops(lone)) == 2


@pytest.mark.parametrize("how", ["fail", "hang"])
def test_a_phase_that_fails_or_hangs_skips_no_other(lones: Lones, how: str) -> None:
    """C1: every second phase of the process does not do its work; all the others do theirs, and
    the next start finds nothing amiss."""
    lone = lones(kept_by="s6")
    for broken in (OURS[0::2], OURS[1::2]):
        lone.start(",".join(f"{phase}:{how}" for phase in broken))
        assert lone.answer(lone.say("hello", id=broken[0]))["state"] == "answered"
        code = lone.stop(signal.SIGUSR1)
        assert [phase for phase in lone.phases() if phase in OURS] == list(OURS)
        told = str(lone.lines("phase_failed" if how == "fail" else "phase_late"))
        assert all(f"Stopping: '{phase}'" in told for phase in broken)
        asked = "ask for a successor" not in broken
        assert code == (exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE if asked else exit_codes.OK)
        recorded = "record intent" not in broken
        assert lone.intent()["state"] == ("stopped" if recorded else "running")


STARTING = (
    "opening the store",
    "looking back",
    "choosing a model",
    "trying the sandbox",
    "opening the listeners",
    "recovering",
    "connecting",
    "telling who waits",
    "running",
)


@pytest.mark.parametrize("point", STARTING)
def test_a_stop_works_at_any_point_of_a_start(lone: Lone, point: str) -> None:
    """C1: the signal comes in that very instant. Parts that were never entered are skipped."""
    assert live(lone, f"{point}:term") == exit_codes.OK
    assert lone.intent()["state"] == "running"
    assert not lone.lines("phase_failed"), lone.log()
    assert lone.phases()[0] == "record intent" and lone.phases()[-1] == "ask for a successor"
    assert read_holder(lone.home) is None


def live(lone: Lone, stall: str) -> int:
    """One life in this very process: its signals are its own, and it starts the quicker."""
    config = load(lone.home, lone.environment(HOLDFAST_STALL_AT=stall))
    return run(config, LaunchOptions(lock=HomeLock(lone.home)))


def test_a_start_that_never_ends_is_left(lone: Lone) -> None:
    """C1: in a process, by a signal from outside."""
    lone.launch("opening the listeners:hang")
    lone.until_in("opening the listeners")
    assert lone.stop() == exit_codes.OK
    assert lone.phases()[:2] == ["record intent", "leave the start"]
    assert "close intake" not in lone.phases() and "close the store" in lone.phases()


def test_a_second_signal_hurries_and_a_stop_cuts_and_counts_what_runs(lones: Lones) -> None:
    """C1, C2, F5: the drain of a minute ends with the second signal; the turn is marked, cut, and
    goes on when the gateway does."""
    lone = lones(drain=60).start()
    message = lone.say("run sleep 600")
    lone.until_runs()
    lone.tell()
    lone.until_in("drain")
    assert lone.stop() == exit_codes.OK
    (stop,) = stops(lone)
    assert (stop.parked, stop.interrupted) == (0, 1)
    lone.start().until_runs()
    assert lone.ask("GET", f"/messages/{message}")["state"] == "running"
    assert [stop.ready_at is not None for stop in stops(lone)] == [True]


def test_a_third_signal_ends_it_at_once_even_where_the_loop_stands_still(lone: Lone) -> None:
    """The phase blocks the event loop, so that nothing but the kernel's signal is heard."""
    lone.start("drain:block")
    lone.tell()
    lone.until_in("drain")
    lone.tell()
    lone.until_heard()
    assert lone.stop(signal.SIGINT) == exit_codes.FAILED
    assert not lone.lines("stop_timed_out")  # it was not the watchdog
    assert read_holder(lone.home) is None


@pytest.mark.parametrize(
    ("how", "told"), [("block", "MainThread"), ("hang", "phase 'flush outbox'")]
)
def test_a_stop_that_hangs_is_ended_with_the_stack_of_every_task_and_thread(
    lone: Lone, how: str, told: str
) -> None:
    """The watchdog is outside of the event loop; the deadline is short here."""
    lone.start(f"flush outbox:{how},1")
    assert lone.stop() == exit_codes.FAILED
    (line,) = lone.lines("stop_timed_out")
    assert told in line["message"]
    assert "in enter" in line["message"] or "in inside" in line["message"]  # where it stood
    assert "Thread 'status'" in line["message"] and "Task " in line["message"]


def test_an_interpreter_that_stands_still_is_ended_too(lone: Lone) -> None:
    """No thread of Python's can run, so that only the backstop in C is left."""
    lone.start("flush outbox:freeze,0.5")
    assert lone.stop() == exit_codes.FAILED
    assert not lone.lines("stop_timed_out")


def test_a_crash_is_found_out_by_the_next_start(lone: Lone) -> None:
    """D4, F8: every end of a process is a row, also one that nobody could write."""
    lone.start().say("run touch began; sleep 600")
    # A lane runs a moment before its turn is in the store; a command that runs comes after that.
    lone.until(lambda: any(lone.paths.workspaces.glob("*/began")))
    lone.stop(signal.SIGKILL)
    assert stops(lone) == []
    lone.start()
    (crash,) = stops(lone)
    assert (crash.order.kind, crash.order.by) == (StopKind.CRASH, StopRequester.NONE)
    assert crash.interrupted == 1 and crash.ready_at is not None
    assert lone.stop() == exit_codes.OK
    assert [stop.order.kind for stop in stops(lone)] == [StopKind.SIGNAL, StopKind.CRASH]
