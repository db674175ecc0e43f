"""Tests of messages sent during a turn: busy modes, notices, albums, /queue, /steer (B3, G4)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.gateway.turns.turn_helpers import running_turn
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock, Until

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxState
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.ports.store_commands import AcceptMessage
from holdfast.core.ports.store_queries import GetInboxRow, ListDeliveriesForMessage, ListUndelivered
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.turns.lane import Lane
from holdfast.testing.simulated.service import ChatService

SETTLE = 600  # seconds; never waited for: the next message ends the wait


@pytest.fixture
async def notifying(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A harness whose platform sends busy notices."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.service = ChatService(busy_notices=True, max_length=100, settle=SETTLE)
    harness.clock = ManualClock()
    await harness.start()
    yield harness
    await harness.stop()


async def restart_with_mode(harness: GatewayHarness, mode: BusyMode) -> None:
    await harness.stop()
    gateway = GatewaySettings(busy_mode=mode)
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)
    await harness.start()


def manual_clock(harness: GatewayHarness) -> ManualClock:
    assert isinstance(harness.clock, ManualClock)
    return harness.clock


def only_lane(harness: GatewayHarness) -> Lane:
    (lane,) = harness.gateway.lanes
    return lane


async def test_a_busy_decision_is_persisted(harness: GatewayHarness, until: Until) -> None:
    """G4: one persisted decision, before anything follows from it."""
    await harness.accept("one", busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", busy_mode=BusyMode.QUEUE)

    async def decided() -> bool:
        row = await harness.store.read(GetInboxRow(inbox_id=second.row.id))
        return row is not None and row.decision is BusyMode.QUEUE

    await until(decided)


async def test_an_interrupt_by_another_user_is_queued(harness: GatewayHarness) -> None:
    """G4: in a shared thread no one interrupts another user's question."""
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    harness.say("Ann's question", user="ann", **thread)
    await harness.model.wait_for_request(1)
    harness.say("Bob's question", user="bob", **thread)
    await asyncio.wait_for(wait_for_queued(only_lane(harness), 1), 30)
    harness.model.say("for Ann", "for Bob")
    sent = await harness.sent(2)
    assert [one.outgoing.text for one in sent] == ["for Ann", "for Bob"]
    assert await harness.ledger() == {"answered": 2}
    assert sent[0].outgoing.reply_to != sent[1].outgoing.reply_to


async def test_a_steer_by_another_user_is_queued(harness: GatewayHarness, call: Call) -> None:
    """G4: only messages of one route and one person merge."""
    await restart_with_mode(harness, BusyMode.STEER)
    tool = harness.held_tools[ReplayClass.SAFE]
    tool.go.clear()
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    harness.model.say([call("safe")], "for Ann", "for Bob")
    harness.say("Ann's question", user="ann", **thread)
    await tool.wait_until_started(1)
    harness.say("Bob's question", user="bob", **thread)
    await asyncio.wait_for(wait_for_queued(only_lane(harness), 1), 30)
    tool.go.set()
    assert await harness.texts(2) == ["for Ann", "for Bob"]


async def test_an_interrupt_notice_is_sent_at_most_once_in_thirty_seconds(
    notifying: GatewayHarness,
) -> None:
    """At most once per 30 s and session, whatever its text."""
    notifying.say("one")
    await notifying.model.wait_for_request(1)
    notifying.say("two")
    await notifying.model.wait_for_request(2)
    notifying.say("three")
    await notifying.model.wait_for_request(3)
    assert await notifying.texts(1) == ["I stopped what I was doing and am working on this now."]
    manual_clock(notifying).at += 30
    notifying.say("four")
    await notifying.model.wait_for_request(4)
    notifying.model.say("done")
    texts = await notifying.texts(3)
    assert texts == [texts[0], texts[0], "done"]
    assert await notifying.ledger() == {"answered": 1, "merged": 3}


async def test_the_notice_interval_outlives_the_turn(
    notifying: GatewayHarness, until: Until
) -> None:
    """It belongs to the session: a lane that is removed and created again does not restart it."""
    for number in (1, 3):
        notifying.say("one")
        await notifying.model.wait_for_request(number)
        notifying.say("two")
        await notifying.model.wait_for_request(number + 1)
        notifying.model.say("done")
        await notifying.sent(2 if number == 1 else 3)
        await until(lambda: len(notifying.gateway.lanes) == 0)
    assert [t for t in await notifying.texts(3) if t != "done"] == [
        "I stopped what I was doing and am working on this now."
    ]


async def test_a_queued_sender_gets_a_notice(notifying: GatewayHarness) -> None:
    await restart_with_mode(notifying, BusyMode.QUEUE)
    notifying.say("one")
    await notifying.model.wait_for_request(1)
    notifying.say("two")
    (reply,) = await notifying.texts(1)
    assert reply.startswith("I am still busy.")
    notifying.model.say("1", "2")
    assert (await notifying.texts(3))[1:] == ["1", "2"]


async def test_a_sender_who_waits_for_another_user_gets_a_notice(notifying: GatewayHarness) -> None:
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    notifying.say("one", user="ann", **thread)
    await notifying.model.wait_for_request(1)
    notifying.say("two", user="bob", **thread)
    assert await notifying.texts(1) == ["I am answering someone else. Your message is next."]
    notifying.model.say("1", "2")
    await notifying.texts(3)


async def test_a_steer_is_acknowledged_only_when_the_model_has_it(
    notifying: GatewayHarness, call: Call
) -> None:
    """Only when it is in a request; until then no notice is sent."""
    await restart_with_mode(notifying, BusyMode.STEER)
    tool = notifying.held_tools[ReplayClass.SAFE]
    tool.go.clear()
    notifying.model.say([call("safe")])
    notifying.say("paint it")
    await tool.wait_until_started(1)
    notifying.say("in green")
    await asyncio.wait_for(wait_for_steer(only_lane(notifying)), 30)
    assert notifying.service.ledger().sent == ()
    tool.go.set()
    request = await notifying.model.wait_for_request(2)
    assert request.messages[-1] == UserMessage(text="in green")
    assert await notifying.texts(1) == ["Got it, I am taking this into account."]
    notifying.model.say("green it is")
    assert (await notifying.texts(2))[1] == "green it is"


async def wait_for_steer(lane: Lane) -> None:
    while not lane.waiting_messages:
        await asyncio.sleep(0.01)


async def test_a_steer_that_came_too_late_is_an_ordinary_message(notifying: GatewayHarness) -> None:
    """The model had answered before it could read it: it starts a turn of its own."""
    await restart_with_mode(notifying, BusyMode.STEER)
    notifying.say("one")
    await notifying.model.wait_for_request(1)
    notifying.say("two")
    await asyncio.wait_for(wait_for_steer(only_lane(notifying)), 30)
    notifying.model.say("first", "second")
    assert await notifying.texts(2) == ["first", "second"]


async def test_the_page_and_the_api_get_no_busy_notice(notifying: GatewayHarness) -> None:
    """They show the queue themselves; a notice would appear among the answers."""
    first = await notifying.accept("one", busy_mode=BusyMode.QUEUE)
    await notifying.model.wait_for_request(1)
    second = await notifying.accept("two", busy_mode=BusyMode.QUEUE)
    notifying.model.say("1", "2")
    assert [(await notifying.end_of(one)).text for one in (first, second)] == ["1", "2"]
    assert [
        len(await notifying.store.read(ListDeliveriesForMessage(inbox_id=one.row.id)))
        for one in (first, second)
    ] == [1, 1]


async def test_a_busy_notice_expires(notifying: GatewayHarness) -> None:
    """A successor does not send an old one."""
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    notifying.say("one", user="ann", **thread)
    await notifying.model.wait_for_request(1)
    notifying.say("two", user="bob", **thread)
    (sent,) = await notifying.sent(1)
    assert sent.outgoing.thread_id == "t1"
    rows = [
        row for row in await notifying.store.read(ListUndelivered()) if row.expires_at is not None
    ]
    assert all(row.expires_at == manual_clock(notifying).at + 60 for row in rows)
    notifying.model.say("1", "2")
    await notifying.sent(3)


async def test_an_album_is_one_turn(notifying: GatewayHarness) -> None:
    """Parts that arrive one after the other are collected and answered together."""
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    notifying.model.say("nice pictures", "for Bob")
    for number in range(3):
        notifying.say(f"picture {number}", group="album1", **thread)
        await asyncio.wait_for(wait_for_parts(notifying, number + 1), 30)
    notifying.say("Bob's question", user="bob", **thread)  # not a part of the album
    replies = [text for text in await notifying.texts(2) if "message is next" not in text]
    assert replies[0] == "nice pictures"
    request = notifying.model.requests[0]
    assert [m.text for m in request.messages] == ["picture 0", "picture 1", "picture 2"]
    assert (await notifying.ledger())["merged"] == 2


async def test_an_album_without_further_parts_is_answered(tmp_path: Path) -> None:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.service = ChatService(settle=0.05)
    await harness.start()
    harness.model.say("a nice picture")
    harness.say("picture", group="album1")
    assert await harness.texts(1) == ["a nice picture"]
    await harness.stop()


async def test_a_paste_that_the_client_split_is_one_turn(notifying: GatewayHarness) -> None:
    notifying.model.say("a long text")
    notifying.say("x" * 98)
    await asyncio.wait_for(wait_for_parts(notifying, 1), 30)
    notifying.say("and its end")
    assert await notifying.texts(1) == ["a long text"]
    assert len(notifying.model.requests) == 1


async def test_an_album_queued_behind_a_turn_is_one_turn(notifying: GatewayHarness) -> None:
    await restart_with_mode(notifying, BusyMode.QUEUE)
    notifying.say("work")
    await notifying.model.wait_for_request(1)
    for number in range(2):
        notifying.say(f"picture {number}", group="album1")
    notifying.say("and this")
    await asyncio.wait_for(wait_for_queued(only_lane(notifying), 3), 30)
    notifying.model.say("worked", "pictures", "this")
    assert [t for t in await notifying.texts(4) if "busy" not in t] == [
        "worked",
        "pictures",
        "this",
    ]


async def wait_for_queued(lane: Lane, number: int) -> None:
    while lane.queued < number:
        await asyncio.sleep(0.01)


async def test_an_ordinary_message_does_not_wait_for_parts(tmp_path: Path) -> None:
    """Only a message that may have further parts waits for them."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.service = ChatService(max_length=100, settle=600)
    await harness.start()
    harness.model.say("hello")
    harness.say("hi")
    assert await harness.texts(1) == ["hello"]
    await harness.stop()


async def test_a_stop_ends_a_message_whose_parts_are_incomplete(tmp_path: Path) -> None:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.service = ChatService(max_length=100, settle=600)
    await harness.start()
    harness.say("picture", group="g")
    await asyncio.wait_for(wait_for_parts(harness, 1), 30)
    harness.say("/stop")
    assert await harness.texts(1) == ["Stopped."]
    assert await harness.ledger() == {"superseded": 1, "answered": 1}
    await harness.stop()


async def wait_for_parts(harness: GatewayHarness, parts: int) -> None:
    """Wait until so many messages wait for further parts."""
    while sum(lane.queued for lane in harness.gateway.lanes) < parts:
        await asyncio.sleep(0.01)


async def test_a_message_does_not_interrupt_a_running_compaction(
    harness: GatewayHarness,
) -> None:
    """Interrupt becomes queue: the summary would be lost with the turn."""
    harness.say("one")
    await harness.model.wait_for_request(1)
    running_turn(only_lane(harness)).context.compacting = True
    harness.say("two")
    await asyncio.wait_for(wait_for_queued(only_lane(harness), 1), 30)
    harness.model.say("1", "2")
    assert await harness.texts(2) == ["1", "2"]
    assert await harness.ledger() == {"answered": 2}


async def test_the_busy_mode_of_a_session_persists(harness: GatewayHarness) -> None:
    """B3: it outlives the turn, the lane and the process, and ends when its user says so."""
    harness.model.say("hello")
    await harness.end_of(await harness.accept("hi"))
    chosen = await harness.end_of(await harness.accept("/busy queue"))
    assert "waits and is answered afterwards (queue, chosen here)" in chosen.text
    await harness.stop()
    await harness.start()
    shown = await harness.end_of(await harness.accept("/busy"))
    assert shown.text == chosen.text
    first = await harness.accept("one")
    await harness.model.wait_for_request(2)
    second = await harness.accept("two")
    harness.model.say("1", "2")
    assert [(await harness.end_of(one)).text for one in (first, second)] == ["1", "2"]
    cleared = await harness.end_of(await harness.accept("/busy default"))
    assert "(interrupt, the default)" in cleared.text


async def test_the_busy_mode_applies_to_one_session_only(harness: GatewayHarness) -> None:
    """B3: nor that of the next one in the same chat."""
    await harness.end_of(await harness.accept("/busy queue"))
    other = await harness.end_of(await harness.accept("/busy", chat="elsewhere"))
    assert "(interrupt, the default)" in other.text
    await harness.end_of(await harness.accept("/new"))
    fresh = await harness.end_of(await harness.accept("/busy"))
    assert "(interrupt, the default)" in fresh.text


async def test_the_busy_mode_applies_to_messages_from_before_a_crash(
    harness: GatewayHarness, call: Call
) -> None:
    """B3, G4: a message without a decision follows the mode of its session."""
    await harness.end_of(await harness.accept("/busy queue"))
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    source = Source(platform="api", chat_id="one", user_id="owner")
    late = Inbound(source=source, event_id="late", message_id="late", text="two")
    principal = first.row.principal
    at = harness.clock.now()
    accepted = await harness.store.write(
        AcceptMessage(inbound=late, route=first.row.route, principal=principal, at=at)
    )
    await harness.die()
    harness.model.say("1", "2")
    await harness.start()
    assert (await harness.end_of(first)).text == "1"
    assert (await harness.end_of(accepted)).text == "2"


async def test_busy_lists_its_modes(harness: GatewayHarness) -> None:
    reply = await harness.end_of(await harness.accept("/busy sometimes"))
    assert "/busy does not know 'sometimes'." in reply.text
    assert "Usage: /busy [interrupt | queue | steer | default]" in reply.text


async def test_queue_adds_messages_for_later_turns(harness: GatewayHarness) -> None:
    """In order, a turn each, whatever the busy mode; the model reads only the text."""
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    later = [await harness.accept(f"/queue {text}") for text in ("two", "three")]
    harness.model.say("1", "2", "3")
    assert [(await harness.end_of(one)).text for one in (first, *later)] == ["1", "2", "3"]
    assert [m.text for m in harness.model.requests[2].messages] == ["one", "1", "two", "2", "three"]
    assert await harness.ledger() == {"answered": 3}


async def test_queue_with_nothing_running_starts_a_turn(harness: GatewayHarness) -> None:
    harness.model.say("hello")
    ended = await harness.end_of(await harness.accept("/q hi"))
    assert (ended.text, harness.model.requests[0].messages[0].text) == ("hello", "hi")


async def test_a_message_queued_by_command_is_answered_after_a_crash(
    harness: GatewayHarness,
) -> None:
    """G4: its inbox row is enough."""
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    later = await harness.accept("/queue two")
    await harness.die()
    harness.model.say("1", "2")
    await harness.start()
    assert (await harness.end_of(first)).text == "1"
    assert (await harness.end_of(later)).text == "2"
    assert harness.model.requests[-1].messages[-1] == UserMessage(text="two")


async def test_steer_adds_to_the_running_turn(harness: GatewayHarness, call: Call) -> None:
    tool = harness.held_tools[ReplayClass.SAFE]
    tool.go.clear()
    harness.model.say([call("safe")], "done, in green")
    first = await harness.accept("paint it")
    await tool.wait_until_started(1)
    steer = await harness.accept("/steer in green")
    tool.go.set()
    assert (await harness.end_of(first)).text == "done, in green"
    assert harness.model.requests[1].messages[-1] == UserMessage(text="in green")
    row = await harness.store.read(GetInboxRow(inbox_id=steer.row.id))
    assert row is not None
    assert row.state is InboxState.MERGED


async def test_queue_and_steer_need_a_text(harness: GatewayHarness) -> None:
    for name in ("queue", "steer"):
        reply = await harness.end_of(await harness.accept(f"/{name}"))
        assert f"/{name} needs an argument. Usage: /{name} TEXT" in reply.text
