"""Tests of the timeline of a turn that was interrupted or parked (H2, H6)."""

import pytest
from tests.gateway.turns.turn_helpers import LONG_TIMEOUT, start_parking
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock
from tests.support.stops import (
    open_turn,
    set_stop_timeouts,
    start_gateway,
    stop_gateway,
    wait_for_open_turns,
)
from tests.support.stores import open_store

from holdfast.core.ids import TurnId
from holdfast.core.messages.transcript import CallRecovery, ToolOutcome
from holdfast.core.ports.store_queries import GetTurnDetails
from holdfast.core.turns.stop import StopKind
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.lifecycle.process_history import ProcessHistory
from holdfast.server.api.v1.turns import TimelineSpan, TimelineSpanKind, TurnExitState, build_spans


async def timeline_spans(harness: GatewayHarness, turn_id: TurnId) -> list[TimelineSpan]:
    details = await harness.store.read(GetTurnDetails(turn_id=turn_id, after=0, limit=100))
    assert details is not None
    return build_spans(details, prices={}, running=False)


async def record_crash(harness: GatewayHarness) -> None:
    """Record the crash of the previous process, as a start does first."""
    async with open_store(harness.path) as store:
        await ProcessHistory(clock=harness.clock, new_id=harness.new_id).record_crash(
            store, ran=True
        )


@pytest.mark.parametrize(
    ("replay", "settled"),
    [
        (ReplayClass.ATTACH, (CallRecovery.ATTACHED, ToolOutcome.OK)),
        (ReplayClass.SAFE, (CallRecovery.REPLAYED, ToolOutcome.OK)),
        (ReplayClass.NEVER, (None, ToolOutcome.UNKNOWN)),
    ],
)
async def test_a_crash_is_shown_with_how_the_interrupted_call_was_settled(
    harness: GatewayHarness,
    call: Call,
    replay: ReplayClass,
    settled: tuple[CallRecovery | None, ToolOutcome],
) -> None:
    """H2: attached, replayed or unknown, by its class; and the downtime."""
    tool = harness.held_tools[replay]
    tool.go.clear()
    harness.model.say([call(replay, '{"command": "pull"}')])
    accepted = await harness.accept("go")
    await tool.wait_until_started(1)
    turn_id = (await open_turn(harness)).turn.id
    await harness.die()
    tool.known[tool.started[0]] = "the true result"
    tool.go.set()
    harness.model.say("done")
    await record_crash(harness)
    await start_gateway(harness)
    await harness.end_of(accepted)

    spans = await timeline_spans(harness, turn_id)
    (called,) = [span for span in spans if span.kind is TimelineSpanKind.TOOL]
    assert (called.recovery, called.outcome, called.summary) == (*settled, "pull")
    (downtime,) = [span for span in spans if span.kind is TimelineSpanKind.DOWNTIME]
    assert (downtime.name, downtime.exit_state) == ("crash", TurnExitState.INTERRUPTED)
    assert downtime.ended_at is not None and downtime.started_at <= downtime.ended_at
    # It was interrupted in its call: no request to the model was lost.
    assert [span.outcome for span in spans if span.kind is TimelineSpanKind.MODEL] == [None, None]


async def test_an_interrupted_request_and_a_parked_turn_are_shown(
    harness: GatewayHarness, call: Call
) -> None:
    """H6: the first stop interrupts a request; the second one parks the turn after its call."""
    await harness.stop()
    set_stop_timeouts(harness)
    harness.clock = clock = ManualClock()
    await harness.start()
    accepted = await harness.accept("go")
    await wait_for_open_turns(harness)
    await harness.model.wait_for_request(1)
    turn_id = (await open_turn(harness)).turn.id
    clock.at += 10
    await stop_gateway(harness, StopKind.RESTART)
    clock.at += 10
    set_stop_timeouts(harness, park=LONG_TIMEOUT)
    await start_gateway(harness)
    await harness.model.wait_for_request(2)
    tool = harness.held_tools[ReplayClass.NEVER]
    tool.go.clear()
    harness.model.say([call("never")])
    await tool.wait_until_started(1)
    clock.at += 10
    stopping = await start_parking(harness)
    tool.go.set()
    await stopping
    clock.at += 10
    harness.model.say("done")
    await start_gateway(harness)
    await harness.end_of(accepted)

    spans = await timeline_spans(harness, turn_id)
    kinds = [span.kind for span in spans]
    lost = [span for span in spans if span.outcome is ToolOutcome.CANCELLED]
    assert [(span.kind, duration(span)) for span in lost] == [(TimelineSpanKind.MODEL, 11)]
    downtime = [span for span in spans if span.kind is TimelineSpanKind.DOWNTIME]
    assert [(span.exit_state, duration(span)) for span in downtime] == [
        (TurnExitState.INTERRUPTED, 9),
        (TurnExitState.PARKED, 9),
    ]
    assert kinds.count(TimelineSpanKind.NOTE) == 1, "a parked turn gets no note"
    assert [duration(span) for span in spans if span.kind is TimelineSpanKind.DRAIN] == [1]


def duration(span: TimelineSpan) -> float:
    assert span.ended_at is not None
    return span.ended_at - span.started_at
