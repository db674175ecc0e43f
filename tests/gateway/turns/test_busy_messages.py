"""Busy: what is said while a turn runs is admitted by one kept decision, and people are told."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock, Until

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxState
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.turns.lane import Lane
from holdfast.testing.simulated.service import ChatService

SETTLE = 600  # seconds that nobody waits for: what comes behind a message ends it


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A gateway whose platform tells people what becomes of their messages."""
    harness = GatewayHarness(tmp_path / "state.db")
    harness.service = ChatService(busy_notices=True, max_length=100, settle=SETTLE)
    harness.clock = ManualClock()
    await harness.start()
    yield harness
    await harness.stop()


async def with_mode(harness: GatewayHarness, mode: BusyMode) -> None:
    await harness.stop()
    gateway = GatewaySettings(busy_mode=mode)
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)
    await harness.start()


def only_lane(harness: GatewayHarness) -> Any:
    (lane,) = harness.gateway.lanes
    return lane


async def test_a_busy_decision_is_persisted(harness: GatewayHarness, until: Until) -> None:
    """G4: one persisted decision, before anything follows from it."""
    await harness.accept("one", busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", busy_mode=BusyMode.QUEUE)

    async def decided() -> bool:
        row = await harness.store.inbox_row(second.row.id)
        return row is not None and row.decision is BusyMode.QUEUE

    await until(decided)


async def test_an_interrupt_by_another_user_is_queued(harness: GatewayHarness) -> None:
    """G4: in a shared thread nobody's question is cut or answered away by another's."""
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    harness.say("Ann's question", user="ann", **thread)
    await harness.model.wait_for_request(1)
    harness.say("Bob's question", user="bob", **thread)
    await asyncio.wait_for(_queued(only_lane(harness), 1), 30)
    harness.model.say("for Ann", "for Bob")
    sent = await harness.sent(2)
    assert [one.outgoing.text for one in sent] == ["for Ann", "for Bob"]
    assert await harness.ledger() == {"answered": 2}
    assert sent[0].outgoing.reply_to != sent[1].outgoing.reply_to


async def test_a_steer_by_another_user_is_queued(harness: GatewayHarness, call: Call) -> None:
    """G4: only messages of one route and one person merge."""
    await with_mode(harness, BusyMode.STEER)
    lever = harness.held_tools[ReplayClass.SAFE]
    lever.go.clear()
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    harness.model.say([call("safe")], "for Ann", "for Bob")
    harness.say("Ann's question", user="ann", **thread)
    await lever.wait_until_started(1)
    harness.say("Bob's question", user="bob", **thread)
    await asyncio.wait_for(_queued(only_lane(harness), 1), 30)
    lever.go.set()
    assert await harness.texts(2) == ["for Ann", "for Bob"]


async def test_an_interrupt_notice_is_sent_at_most_once_in_thirty_seconds(
    chat: GatewayHarness,
) -> None:
    """At most once per 30 s and session, whichever the words."""
    chat.say("one")
    await chat.model.wait_for_request(1)
    chat.say("two")
    await chat.model.wait_for_request(2)
    chat.say("three")
    await chat.model.wait_for_request(3)
    assert await chat.texts(1) == ["I stopped what I was doing and turn to this."]
    chat.clock.at += 30
    chat.say("four")
    await chat.model.wait_for_request(4)
    chat.model.say("done")
    texts = await chat.texts(3)
    assert texts == [texts[0], texts[0], "done"]
    assert await chat.ledger() == {"answered": 1, "merged": 3}


async def test_the_notice_interval_outlives_the_turn(chat: GatewayHarness, until: Until) -> None:
    """They are the session's: a lane that has gone and come back does not begin them anew."""
    for number in (1, 3):
        chat.say("one")
        await chat.model.wait_for_request(number)
        chat.say("two")
        await chat.model.wait_for_request(number + 1)
        chat.model.say("done")
        await chat.sent(2 if number == 1 else 3)
        await until(lambda: len(chat.gateway.lanes) == 0)
    assert [t for t in await chat.texts(3) if t != "done"] == [
        "I stopped what I was doing and turn to this."
    ]


async def test_a_queued_sender_gets_a_notice(chat: GatewayHarness) -> None:
    await with_mode(chat, BusyMode.QUEUE)
    chat.say("one")
    await chat.model.wait_for_request(1)
    chat.say("two")
    (told,) = await chat.texts(1)
    assert told.startswith("I am still busy.")
    chat.model.say("1", "2")
    assert (await chat.texts(3))[1:] == ["1", "2"]


async def test_a_sender_who_waits_for_another_user_gets_a_notice(chat: GatewayHarness) -> None:
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    chat.say("one", user="ann", **thread)
    await chat.model.wait_for_request(1)
    chat.say("two", user="bob", **thread)
    assert await chat.texts(1) == ["I am answering somebody else. You are next in line."]
    chat.model.say("1", "2")
    await chat.texts(3)


async def test_a_steer_is_acknowledged_only_when_the_model_has_it(
    chat: GatewayHarness, call: Call
) -> None:
    """As such only when it is in a request; until then nobody says so."""
    await with_mode(chat, BusyMode.STEER)
    lever = chat.held_tools[ReplayClass.SAFE]
    lever.go.clear()
    chat.model.say([call("safe")])
    chat.say("paint it")
    await lever.wait_until_started(1)
    chat.say("in green")
    await asyncio.wait_for(_has_steer(only_lane(chat)), 30)
    assert chat.service.ledger().sent == ()
    lever.go.set()
    request = await chat.model.wait_for_request(2)
    assert request.messages[-1] == UserMessage(text="in green")
    assert await chat.texts(1) == ["Noted: I am taking this into account."]
    chat.model.say("green it is")
    assert (await chat.texts(2))[1] == "green it is"


async def _has_steer(lane: Lane) -> None:
    while not lane.waiting_messages:
        await asyncio.sleep(0.01)


async def test_a_steer_that_came_too_late_is_an_ordinary_message(chat: GatewayHarness) -> None:
    """The model had answered before it could be told: it is a message of its own."""
    await with_mode(chat, BusyMode.STEER)
    chat.say("one")
    await chat.model.wait_for_request(1)
    chat.say("two")
    await asyncio.wait_for(_has_steer(only_lane(chat)), 30)
    chat.model.say("first", "second")
    assert await chat.texts(2) == ["first", "second"]


async def test_the_page_and_the_api_get_no_busy_notice(chat: GatewayHarness) -> None:
    """What waits is shown there; a notice would stand in the answers."""
    first = await chat.accept("one", busy_mode=BusyMode.QUEUE)
    await chat.model.wait_for_request(1)
    second = await chat.accept("two", busy_mode=BusyMode.QUEUE)
    chat.model.say("1", "2")
    assert [(await chat.end_of(one)).text for one in (first, second)] == ["1", "2"]
    assert [
        len(await chat.store.deliveries_for_message(one.row.id)) for one in (first, second)
    ] == [1, 1]


async def test_a_busy_notice_expires(chat: GatewayHarness) -> None:
    """It speaks of a moment: a successor that finds it old lets it be."""
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    chat.say("one", user="ann", **thread)
    await chat.model.wait_for_request(1)
    chat.say("two", user="bob", **thread)
    (sent,) = await chat.sent(1)
    assert sent.outgoing.thread_id == "t1"
    rows = [row for row in await chat.store.undelivered_rows() if row.expires_at is not None]
    assert all(row.expires_at == chat.clock.at + 60 for row in rows)
    chat.model.say("1", "2")
    await chat.sent(3)


async def test_an_album_is_one_turn(chat: GatewayHarness) -> None:
    """Parts that come one after the other are waited for, and answered together."""
    thread = {"chat_type": ChatType.THREAD, "thread": "t1"}
    chat.model.say("nice pictures", "for Bob")
    for number in range(3):
        chat.say(f"picture {number}", group="album1", **thread)
        await asyncio.wait_for(_put_together(chat, number + 1), 30)
    chat.say("Bob's question", user="bob", **thread)  # which is no part of it
    said = [text for text in await chat.texts(2) if "next in line" not in text]
    assert said[0] == "nice pictures"
    request = chat.model.requests[0]
    assert [m.text for m in request.messages] == ["picture 0", "picture 1", "picture 2"]
    assert (await chat.ledger())["merged"] == 2


async def test_an_album_without_further_parts_is_answered(tmp_path: Path) -> None:
    harness = GatewayHarness(tmp_path / "state.db")
    harness.service = ChatService(settle=0.05)
    await harness.start()
    harness.model.say("a nice picture")
    harness.say("picture", group="album1")
    assert await harness.texts(1) == ["a nice picture"]
    await harness.stop()


async def test_a_paste_that_the_client_split_is_one_turn(chat: GatewayHarness) -> None:
    chat.model.say("a long text")
    chat.say("x" * 98)
    await asyncio.wait_for(_put_together(chat, 1), 30)
    chat.say("and its end")
    assert await chat.texts(1) == ["a long text"]
    assert len(chat.model.requests) == 1


async def test_an_album_queued_behind_a_turn_is_one_turn(chat: GatewayHarness) -> None:
    await with_mode(chat, BusyMode.QUEUE)
    chat.say("work")
    await chat.model.wait_for_request(1)
    for number in range(2):
        chat.say(f"picture {number}", group="album1")
    chat.say("and this")
    await asyncio.wait_for(_queued(only_lane(chat), 3), 30)
    chat.model.say("worked", "pictures", "this")
    assert [t for t in await chat.texts(4) if "busy" not in t] == [
        "worked",
        "pictures",
        "this",
    ]


async def _queued(lane: Any, number: int) -> None:
    while lane.queued < number:
        await asyncio.sleep(0.01)


async def test_an_ordinary_message_does_not_wait_for_parts(tmp_path: Path) -> None:
    """Only what may be a part of something is waited for, however long the platform asks."""
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
    await asyncio.wait_for(_put_together(harness, 1), 30)
    harness.say("/stop")
    assert await harness.texts(1) == ["Stopped."]
    assert await harness.ledger() == {"superseded": 1, "answered": 1}
    await harness.stop()


async def _put_together(harness: GatewayHarness, parts: int) -> None:
    """Until so many wait for the rest of their message."""
    while sum(lane.queued for lane in harness.gateway.lanes) < parts:
        await asyncio.sleep(0.01)


async def test_a_message_does_not_interrupt_a_running_compaction(
    harness: GatewayHarness,
) -> None:
    """Interrupt becomes queue: the summary would be lost with the turn."""
    harness.say("one")
    await harness.model.wait_for_request(1)
    only_lane(harness).running_turn.context.compacting = True
    harness.say("two")
    await asyncio.wait_for(_queued(only_lane(harness), 1), 30)
    harness.model.say("1", "2")
    assert await harness.texts(2) == ["1", "2"]
    assert await harness.ledger() == {"answered": 2}


async def test_the_busy_mode_of_a_session_persists(harness: GatewayHarness) -> None:
    """B3: it outlives the turn, the lane and the process, and ends when its user says so."""
    harness.model.say("hello")
    await harness.end_of(await harness.accept("hi"))
    chosen = await harness.end_of(await harness.accept("/busy queue"))
    assert "waits, and is answered after it (queue, chosen here)" in chosen.text
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
    """B3, G4: a message that nobody decided about yet is decided by its session's choice."""
    await harness.end_of(await harness.accept("/busy queue"))
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    source = Source(platform="api", chat_id="one", user_id="owner")
    late = Inbound(source=source, event_id="late", message_id="late", text="two")
    principal = first.row.principal
    at = harness.clock.now()
    kept = await harness.store.accept(late, route=first.row.route, principal=principal, at=at)
    await harness.die()
    harness.model.say("1", "2")
    await harness.start()
    assert (await harness.end_of(first)).text == "1"
    assert (await harness.end_of(kept)).text == "2"


async def test_busy_lists_its_modes(harness: GatewayHarness) -> None:
    told = await harness.end_of(await harness.accept("/busy sometimes"))
    assert "There is no mode 'sometimes'." in told.text
    assert "Usage: /busy [interrupt | queue | steer | default]" in told.text


async def test_queue_adds_messages_for_later_turns(harness: GatewayHarness) -> None:
    """In order, a turn each, whatever the session's mode; and the model reads the text alone."""
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
    """G4: its row is all there is to it."""
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
    lever = harness.held_tools[ReplayClass.SAFE]
    lever.go.clear()
    harness.model.say([call("safe")], "done, in green")
    first = await harness.accept("paint it")
    await lever.wait_until_started(1)
    steer = await harness.accept("/steer in green")
    lever.go.set()
    assert (await harness.end_of(first)).text == "done, in green"
    assert harness.model.requests[1].messages[-1] == UserMessage(text="in green")
    row = await harness.store.inbox_row(steer.row.id)
    assert row.state is InboxState.MERGED


async def test_queue_and_steer_need_a_text(harness: GatewayHarness) -> None:
    for name in ("queue", "steer"):
        told = await harness.end_of(await harness.accept(f"/{name}"))
        assert f"/{name} needs something after it. Usage: /{name} TEXT" in told.text
