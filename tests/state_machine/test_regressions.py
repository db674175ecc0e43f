"""What the machine has found, each led to step by step."""

import msgspec
from tests.state_machine.configs import PEACE
from tests.state_machine.machine import Lives
from tests.state_machine.model import Spoken
from tests.state_machine.process_rules import Absence

from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.stop import StopKind
from holdfast.store.sqlite.reads import sessions as reads


def settled_in(machine: type[Lives]) -> Lives:
    lives = machine()
    lives.settle_in(
        idempotent=False,
        edit=True,
        max_length=None,
        typing=False,
        reactions=False,
        talkative=False,
        absence=Absence(said=(), leap=0, config=PEACE, ticks=50),
    )
    return lives


def sessions(lives: Lives) -> list[SessionRow]:
    """The oldest first."""
    assert lives.home.life is not None
    found = lives.home.life.store.look(
        reads.sessions, limit=10, offset=0, q="", platform="", children=False
    )
    return sorted(found, key=lambda row: row.created_at)


def test_a_reply_that_was_about_to_be_shown_stands_still_when_its_turn_is_left(
    machine: type[Lives],
) -> None:
    """H6, I4: it goes on in the successor; whoever left it begins nothing in a store that may be
    closed by then."""
    lives = settled_in(machine)
    lives.write("home", "ann", "hello", 50)
    assert lives.home.life is not None
    [ask] = lives.home.life.voice.asks
    ask.line.set_result(Spoken("one two three", pause=0.2))
    lives.home.loop.wait(0.1)
    lives.leave(kind=StopKind.RESTART, now=True, ticks=50)
    lives.home.loop.wait(5)
    assert lives.home.life.task.done()
    assert lives.home.loop.errors == []
    lives.teardown()


def test_the_prompt_that_another_configuration_makes_of_an_open_turn_is_frozen_too(
    machine: type[Lives],
) -> None:
    """A4: what the turn that goes on is asked with is what the session is asked with ever after,
    on whatever day the next agent of it is built."""
    lives = settled_in(machine)
    lives.write("home", "ann", "hello", 50)
    brief = msgspec.structs.replace(PEACE, instructions="Be brief.")
    lives.die(absence=Absence(said=(), leap=172_800, config=brief, ticks=200))
    assert lives.home.life is not None
    [ask] = lives.home.life.voice.asks
    assert "Be brief." in ask.system
    assert [row.prompt for row in sessions(lives)] == [ask.system]
    lives.teardown()


def test_a_session_that_background_work_opens_in_the_place_of_a_suspended_one_says_so(
    machine: type[Lives],
) -> None:
    """F4: whichever command opens it."""
    lives = settled_in(machine)
    lives.exchange(place=("home", "ann"), line=Spoken("indeed"), seconds=0.7, ticks=50)
    [before] = sessions(lives)
    lives.home.loop.bring(lives.home.gateway.sessions.suspend(before.id), within=5)
    lives.home.loop.wait(1)
    lives.write("home", "ann", "/background count the stars", 50)
    lives.home.loop.wait(1)
    [_, after] = sessions(lives)
    assert (after.was_auto_reset, after.auto_reset_reason) == (True, "suspended")
    lives.teardown()
