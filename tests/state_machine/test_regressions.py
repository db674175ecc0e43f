"""Bugs that the state machine has found, each reproduced step by step."""

import msgspec
from tests.state_machine.configs import DEFAULT_CONFIG
from tests.state_machine.machine import GatewayStateMachine
from tests.state_machine.model import TextReply
from tests.state_machine.process_rules import BeforeStart

from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.stop import StopKind
from holdfast.store.sqlite.reads import sessions as reads


def started_machine(machine_type: type[GatewayStateMachine]) -> GatewayStateMachine:
    machine = machine_type()
    machine.initialise(
        idempotent=False,
        edit=True,
        max_length=None,
        typing=False,
        reactions=False,
        status_notices=False,
        before_start=BeforeStart(senders=(), clock_shift=0, config=DEFAULT_CONFIG, ticks=50),
    )
    return machine


def sessions(machine: GatewayStateMachine) -> list[SessionRow]:
    """All sessions, oldest first."""
    assert machine.home.current_run is not None
    found = machine.home.current_run.store.look(
        reads.sessions, limit=10, offset=0, q="", platform="", include_subagents=False
    )
    return sorted(found, key=lambda row: row.created_at)


def test_a_reply_stops_streaming_when_its_turn_is_left(
    machine_type: type[GatewayStateMachine],
) -> None:
    """H6, I4: it continues in the next process; the stopping one starts nothing in a store that may
    be closed by then."""
    machine = started_machine(machine_type)
    machine.write("home", "ann", "hello", 50)
    assert machine.home.current_run is not None
    [request] = machine.home.current_run.model.pending
    request.output.set_result(TextReply("one two three", pause=0.2))
    machine.home.loop.wait(0.1)
    machine.initiate_stop(kind=StopKind.RESTART, now=True, ticks=50)
    machine.home.loop.wait(5)
    assert machine.home.current_run.task.done()
    assert machine.home.loop.errors == []
    machine.teardown()


def test_the_prompt_that_another_configuration_gives_an_open_turn_is_frozen_too(
    machine_type: type[GatewayStateMachine],
) -> None:
    """A4: the prompt of the resumed turn stays the prompt of the session, on whatever day its next
    agent is built."""
    machine = started_machine(machine_type)
    machine.write("home", "ann", "hello", 50)
    brief = msgspec.structs.replace(DEFAULT_CONFIG, instructions="Be brief.")
    machine.die(before_start=BeforeStart(senders=(), clock_shift=172_800, config=brief, ticks=200))
    assert machine.home.current_run is not None
    [request] = machine.home.current_run.model.pending
    assert "Be brief." in request.system
    assert [row.prompt for row in sessions(machine)] == [request.system]
    machine.teardown()


def test_a_session_that_background_work_opens_after_a_suspended_one_is_marked_as_reset(
    machine_type: type[GatewayStateMachine],
) -> None:
    """F4: whichever command opens the session."""
    machine = started_machine(machine_type)
    machine.exchange(posted_by=("home", "ann"), output=TextReply("indeed"), seconds=0.7, ticks=50)
    [before] = sessions(machine)
    machine.home.loop.run_with_timeout(machine.home.gateway.sessions.suspend(before.id), timeout=5)
    machine.home.loop.wait(1)
    machine.write("home", "ann", "/background count the stars", 50)
    machine.home.loop.wait(1)
    [_, after] = sessions(machine)
    assert (after.was_auto_reset, after.auto_reset_reason) == (True, "suspended")
    machine.teardown()
