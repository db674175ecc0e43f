"""The timeline of a turn that lives of the gateway have cut, as it is shown afterwards."""

from typing import Any

from tests.contract.conftest import World
from tests.contract.stops import begun, come_back, leave, open_turn, windows

from holdfast.control.v1.turn_views import Parting, Span, SpanKind
from holdfast.control.v1.waterfall import waterfall
from holdfast.core.ids import TurnId
from holdfast.core.message import Outcome, TakenUp
from holdfast.core.stopping import StopKind
from holdfast.core.tool import Replay
from holdfast.gateway.lives import Lives
from holdfast.store.sqlite import SqliteStore


async def shown(world: World, turn_id: TurnId) -> list[Span]:
    course = await world.store.course(turn_id, after=0, limit=100)
    assert course is not None
    return waterfall(course, prices={}, asks=False)


async def found_out(world: World) -> None:
    """What a start does first of all: the life before this one ended without a word."""
    async with SqliteStore(world.path) as store:
        await Lives(clock=world.clock, new_id=world.new_id).look_back(store, ran=True)


async def test_what_a_crash_cut_is_shown_with_how_each_call_was_settled(
    world: World, call: Any
) -> None:
    """H2: attached, replayed or unknown, by its class; and when nobody was there."""
    for lever in world.levers.values():
        lever.go.clear()
    world.model.say([call(replay, '{"command": "pull"}') for replay in Replay])
    accepted = await world.accept("go")
    for lever in world.levers.values():
        await lever.was_pulled(1)
    turn_id = (await open_turn(world)).turn.id
    await world.die()
    attach = world.levers[Replay.ATTACH]
    attach.known[attach.pulled[0]] = "the true result"
    for lever in world.levers.values():
        lever.go.set()
    world.model.say("done")
    await found_out(world)
    await come_back(world)
    await world.end_of(accepted)

    spans = await shown(world, turn_id)
    calls = {span.name: span for span in spans if span.kind is SpanKind.TOOL}
    assert calls["attach"].taken_up is TakenUp.ATTACHED
    assert calls["safe"].taken_up is TakenUp.REPLAYED
    assert (calls["never"].taken_up, calls["never"].outcome) == (None, Outcome.UNKNOWN)
    assert {span.about for span in calls.values()} == {"pull"}
    (away,) = [span for span in spans if span.kind is SpanKind.AWAY]
    assert (away.name, away.parting) == ("crash", Parting.CUT)
    assert away.ended_at is not None and away.started_at <= away.ended_at
    # It was cut inside of its calls: no request to the model was lost.
    assert [span.outcome for span in spans if span.kind is SpanKind.MODEL] == [None, None]


async def test_a_request_that_a_restart_cut_is_shown_and_a_turn_that_was_parked_stood_still(
    world: World, call: Any
) -> None:
    """H6: one is cut amidst a request and says so; the next life's is parked behind its call."""
    accepted = await world.accept("go")
    await begun(world)
    await world.model.asked(1)
    turn_id = (await open_turn(world)).turn.id
    await leave(world, StopKind.RESTART)
    windows(world, park=10)
    await come_back(world)
    await world.model.asked(2)
    lever = world.levers[Replay.NEVER]
    lever.go.clear()
    world.model.say([call("never")])
    await lever.was_pulled(1)
    lever.go.set()
    await leave(world, StopKind.RESTART)
    world.model.say("done")
    await come_back(world)
    await world.end_of(accepted)

    spans = await shown(world, turn_id)
    kinds = [span.kind for span in spans]
    lost = [span for span in spans if span.outcome is Outcome.CANCELLED]
    assert [span.kind for span in lost] == [SpanKind.MODEL]
    partings = [span.parting for span in spans if span.kind is SpanKind.AWAY]
    assert partings == [Parting.CUT, Parting.PARKED]
    assert kinds.count(SpanKind.NOTE) == 1, "what was parked is told nothing"
    assert kinds.index(SpanKind.DRAIN) > kinds.index(SpanKind.TOOL)
