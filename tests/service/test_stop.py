"""How a real process stops: by signals, phase by phase, whatever fails or hangs on the way."""

import signal

import pytest
from tests.faults.standalone_gateway import MakeGateway, StandaloneGateway

from holdfast.config import load
from holdfast.core.turns.stop import StopKind, StopRequester
from holdfast.service.main import run
from holdfast.service.start import LaunchOptions
from holdfast.system import exit_codes
from holdfast.system.lock import HomeLock, read_holder

C1_PHASES = (
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
PROCESS_PHASES = (
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


def test_the_stop_phases_run_in_order_and_the_signal_is_recorded_as_the_reason(
    gateway: StandaloneGateway,
) -> None:
    """C1: by name, each once. C7: the store is whole in its file. E4: nothing is left behind.
    E3: an unplanned signal leaves `running`, an operator's Ctrl-C `stopped`. Both exit 0."""
    for which, state, kind in (
        (signal.SIGTERM, "running", StopKind.SIGNAL),
        (signal.SIGINT, "stopped", StopKind.STOP),
    ):
        assert gateway.start().intent()["state"] == "running"
        assert gateway.stop(which) == exit_codes.OK
        phases = gateway.phases()
        assert [phase for phase in phases if phase in C1_PHASES] == list(C1_PHASES)
        assert len(set(phases)) == len(phases)
        assert not gateway.paths.db.with_name("state.db-wal").exists()
        assert read_holder(gateway.home) is None and not list(gateway.paths.run.iterdir())
        assert gateway.intent()["state"] == state
        last, *before = gateway.stop_rows()
        assert (last.order.kind, last.order.by) == (kind, StopRequester.SIGNAL)
        assert last.stopped_at is not None and last.ready_at is None
        assert all(stop.ready_at is not None for stop in before)
    assert len(gateway.stop_rows()) == 2


@pytest.mark.parametrize("how", ["fail", "hang"])
def test_a_phase_that_fails_or_hangs_skips_no_other(make_gateway: MakeGateway, how: str) -> None:
    """C1: every second phase of the process does not do its work; all the others do theirs, and
    the next start finds nothing amiss."""
    gateway = make_gateway(supervisor="s6")
    for broken in (PROCESS_PHASES[0::2], PROCESS_PHASES[1::2]):
        gateway.start(",".join(f"{phase}:{how}" for phase in broken))
        assert gateway.answer(gateway.say("hello", id=broken[0]))["state"] == "answered"
        code = gateway.stop(signal.SIGUSR1)
        assert [phase for phase in gateway.phases() if phase in PROCESS_PHASES] == list(
            PROCESS_PHASES
        )
        logged = str(gateway.log_records("phase_failed" if how == "fail" else "phase_late"))
        assert all(f"Shutdown phase '{phase}'" in logged for phase in broken)
        asked = "ask for a successor" not in broken
        assert code == (exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE if asked else exit_codes.OK)
        recorded = "record intent" not in broken
        assert gateway.intent()["state"] == ("stopped" if recorded else "running")


START_PHASES = (
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


@pytest.mark.parametrize("point", START_PHASES)
def test_a_stop_works_at_any_point_of_a_start(gateway: StandaloneGateway, point: str) -> None:
    """C1: the signal comes in that very instant. Parts that were never entered are skipped."""
    assert run_here(gateway, f"{point}:term") == exit_codes.OK
    assert gateway.intent()["state"] == "running"
    assert not gateway.log_records("phase_failed"), gateway.log()
    assert gateway.phases()[0] == "record intent" and gateway.phases()[-1] == "ask for a successor"
    assert read_holder(gateway.home) is None


def run_here(gateway: StandaloneGateway, stall: str) -> int:
    """Run a gateway in the test's own process, which starts faster."""
    config = load(gateway.home, gateway.environment(HOLDFAST_STALL_AT=stall))
    return run(config, LaunchOptions(lock=HomeLock(gateway.home)))


def test_a_start_that_hangs_can_be_stopped(gateway: StandaloneGateway) -> None:
    """C1: in a process, by a signal from outside."""
    gateway.launch("opening the listeners:hang")
    gateway.wait_for_phase("opening the listeners")
    assert gateway.stop() == exit_codes.OK
    assert gateway.phases()[:2] == ["record intent", "leave the start"]
    assert "close intake" not in gateway.phases() and "close the store" in gateway.phases()


def test_a_second_signal_ends_the_drain_and_interrupts_the_running_turns(
    make_gateway: MakeGateway,
) -> None:
    """C1, C2, F5: the drain of a minute ends with the second signal; the turn is marked,
    interrupted, and resumed by the next start."""
    gateway = make_gateway(drain=60).start()
    message = gateway.say("run sleep 600")
    gateway.wait_for_running_turns()
    gateway.send_signal()
    gateway.wait_for_phase("drain")
    assert gateway.stop() == exit_codes.OK
    (stop,) = gateway.stop_rows()
    assert (stop.parked, stop.interrupted) == (0, 1)
    gateway.start().wait_for_running_turns()
    assert gateway.ask("GET", f"/messages/{message}")["state"] == "running"
    assert [stop.ready_at is not None for stop in gateway.stop_rows()] == [True]


def test_a_third_signal_ends_the_process_at_once_even_if_the_loop_is_blocked(
    gateway: StandaloneGateway,
) -> None:
    """The phase blocks the event loop, so that nothing but the kernel's signal is heard."""
    gateway.start("drain:block")
    gateway.send_signal()
    gateway.wait_for_phase("drain")
    gateway.send_signal()
    gateway.wait_until_signals_delivered()
    assert gateway.stop(signal.SIGINT) == exit_codes.FAILED
    assert not gateway.log_records("stop_timed_out")  # it was not the watchdog
    assert read_holder(gateway.home) is None


@pytest.mark.parametrize(
    ("how", "expected"), [("block", "MainThread"), ("hang", "phase 'flush outbox'")]
)
def test_a_stop_that_hangs_is_ended_with_the_stack_of_every_task_and_thread(
    gateway: StandaloneGateway, how: str, expected: str
) -> None:
    """The watchdog is outside of the event loop; the deadline is short here."""
    gateway.start(f"flush outbox:{how},1")
    assert gateway.stop() == exit_codes.FAILED
    (line,) = gateway.log_records("stop_timed_out")
    assert expected in line["message"]
    assert "in enter" in line["message"] or "in inside" in line["message"]  # where it stood
    assert "Thread 'status'" in line["message"] and "Task " in line["message"]


def test_a_frozen_interpreter_is_ended_too(gateway: StandaloneGateway) -> None:
    """No thread of Python's can run, so that only the backstop in C is left."""
    gateway.start("flush outbox:freeze,0.5")
    assert gateway.stop() == exit_codes.FAILED
    assert not gateway.log_records("stop_timed_out")


def test_the_next_start_records_a_crash(gateway: StandaloneGateway) -> None:
    """D4, F8: every end of a process is a row, also one that it could not write itself."""
    gateway.start().say("run touch began; sleep 600")
    # A lane runs a moment before its turn is in the store; a command that runs comes after that.
    gateway.until(lambda: any(gateway.paths.workspaces.glob("*/began")))
    gateway.stop(signal.SIGKILL)
    assert gateway.stop_rows() == []
    gateway.start()
    (crash,) = gateway.stop_rows()
    assert (crash.order.kind, crash.order.by) == (StopKind.CRASH, StopRequester.NONE)
    assert crash.interrupted == 1 and crash.ready_at is not None
    assert gateway.stop() == exit_codes.OK
    assert [stop.order.kind for stop in gateway.stop_rows()] == [StopKind.SIGNAL, StopKind.CRASH]
