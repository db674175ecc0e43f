"""The tables of transitions of the lanes, the intake, a live feed and a reply stream: their public
methods make each legal change and no other one. Those of a turn are in `test_transitions.py`."""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from itertools import product
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import WallClock

from holdfast.core.errors import InvalidTransition, StoreError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.events import StepEnded, TextStreamed
from holdfast.core.messages.outbox import (
    Address,
    DeliveryKind,
    DeliveryPart,
    DeliveryState,
    NewDelivery,
)
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn_state import LANES_TRANSITIONS
from holdfast.gateway.inbound.intake import INTAKE_TRANSITIONS, GatewayIntake
from holdfast.gateway.live.feeds import PIECE_TRANSITIONS, SessionFeed
from holdfast.gateway.outbound.reply_stream import STREAM_TRANSITIONS, ReplyStream
from holdfast.gateway.turns.lanes import Lanes
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

NOTHING: Any = None  # a collaborator that is not used here
LENGTH = 4  # of the sequences of calls, which pass every change of these tables
Action = Callable[[Any], Awaitable[None] | None]


async def changes_made(
    make: Callable[[], Any], state: Callable[[Any], Enum], *actions: Action
) -> set[tuple[Enum, Enum]]:
    """Which changes the actions make, in any order. An action may refuse an illegal change."""
    found = set()
    for sequence in product(actions, repeat=LENGTH):
        owner = make()
        for action in sequence:
            before = state(owner)
            try:
                if (awaited := action(owner)) is not None:
                    await awaited
            except InvalidTransition:
                assert state(owner) is before
            found.add((before, state(owner)))
    return {(before, after) for before, after in found if before is not after}


def legal(table: Mapping[Any, frozenset[Any]]) -> set[tuple[Enum, Enum]]:
    return {(state, to) for state, others in table.items() for to in others}


def act(method: Callable[..., object], *given: Any, **named: Any) -> Action:
    """Call a method of the owner, whatever it returns."""

    def action(owner: Any) -> None:
        method(owner, *given, **named)

    return action


async def test_a_stop_takes_the_lanes_through_their_table() -> None:
    """C1: in one direction."""
    made = await changes_made(
        lambda: Lanes(NOTHING, agents=NOTHING, new_id=NOTHING, tasks=NOTHING),
        lambda lanes: lanes.state,
        act(Lanes.hold, allow_subagents=True),
        act(Lanes.hold, allow_subagents=False),
        act(Lanes.park),
        act(Lanes.leave, TurnExitReason.RESTART_TIMEOUT),
        act(Lanes.cut, "a restart", detached=False),
        Lanes.close,
    )
    assert made == legal(LANES_TRANSITIONS)


def make_intake() -> GatewayIntake:
    return GatewayIntake(
        NOTHING,
        NOTHING,
        NOTHING,
        policy=NOTHING,
        attach=NOTHING,
        platforms=NOTHING,
        watcher=NOTHING,
        admit=NOTHING,
    )


async def test_a_start_and_a_stop_take_the_intake_through_its_table() -> None:
    """C1: it is not opened again."""
    made = await changes_made(
        make_intake,
        lambda intake: intake._state,
        act(GatewayIntake.open),
        act(GatewayIntake.close),
        act(GatewayIntake.close_to_subagents),
    )
    assert made == legal(INTAKE_TRANSITIONS)


def _add_many(feed: SessionFeed) -> None:
    for _ in range(600):
        feed.add(TextStreamed("x"))


async def test_a_reader_takes_a_live_feed_through_its_table() -> None:
    """One that is too far behind collects nothing until it has the whole step."""
    made = await changes_made(
        SessionFeed,
        lambda feed: feed.state,
        act(SessionFeed.add, TextStreamed("x")),
        _add_many,
        act(SessionFeed.take_pieces),
        act(SessionFeed.mark_stale),
    )
    assert made == legal(PIECE_TRANSITIONS)


class ScriptedSender:
    """Shows every text, or cannot record it."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails

    async def attempt(self, outgoing: Any, part: DeliveryPart, platform: Any) -> DeliveryPart:
        if self._fails:
            raise StoreError("the disk is full")
        return msgspec.structs.replace(part, state=DeliveryState.SENT, platform_message_id="m")


NEW = NewDelivery(
    id=DeliveryId("d"),
    address=Address(platform="simulated", account="default", chat_id="home"),
    kind=DeliveryKind.REPLY,
    text=None,
)


def make_stream() -> ReplyStream:
    return ReplyStream(NEW, interval=1.0, show=lambda _: True, clock=WallClock())


async def test_a_turn_takes_a_reply_stream_through_its_table() -> None:
    """I4: a muted one shows nothing more."""
    platform = SimulatedPlatform(ChatService(edit=True, max_length=10))

    def show(sender: ScriptedSender) -> Action:
        async def action(stream: ReplyStream) -> None:
            stream.update(TextStreamed("more than one message of this chat"))
            await stream.show(sender, platform, NOTHING)  # type: ignore[arg-type]

        return action

    made = await changes_made(
        make_stream,
        lambda stream: stream.state,
        show(ScriptedSender()),
        show(ScriptedSender(fails=True)),
        act(ReplyStream.update, StepEnded("")),
        act(ReplyStream.close),
        act(ReplyStream.reopen, muted=False),
        act(ReplyStream.reopen, muted=True),
    )
    assert made == legal(STREAM_TRANSITIONS)


@pytest.mark.parametrize(
    ("make", "attribute", "move", "table"),
    [
        (make_intake, "_state", GatewayIntake._move, INTAKE_TRANSITIONS),
        (SessionFeed, "state", SessionFeed._set_state, PIECE_TRANSITIONS),
        (make_stream, "state", ReplyStream._move_to, STREAM_TRANSITIONS),
    ],
)
async def test_a_change_that_is_not_in_the_table_is_refused(
    make: Callable[[], Any],
    attribute: str,
    move: Callable[[Any, Any], None],
    table: Mapping[Any, frozenset[Any]],
) -> None:
    """H1, I4, C1: also if a method asks for it by mistake."""
    for state, to in product(table, table):
        if to is state or to in table[state]:
            continue
        owner = make()
        setattr(owner, attribute, state)
        with pytest.raises(InvalidTransition):
            move(owner, to)
        assert getattr(owner, attribute) is state
