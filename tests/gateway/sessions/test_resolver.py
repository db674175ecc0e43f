"""Tests of session resolution: who shares a session, when it is reset, and the notices about it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import GatewayHarness, ManualClock, NoRunners, Until

from holdfast.core.config.settings import SessionSettings
from holdfast.core.errors import RunnerError
from holdfast.core.ids import SessionId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.ports.store_queries import (
    CountOutbox,
    GetRouteTarget,
    GetSession,
    ListDeliveriesForMessage,
    ListQueuedMessages,
    ListSessions,
)
from holdfast.core.sessions.reset import ResetMode, ResetReason, ResetRule
from holdfast.core.sessions.session import ProcessRow, SessionRow

HOUR = 3600.0
IDLE = SessionSettings(reset=ResetMode.IDLE, idle_minutes=60)


class ProcessQueryRunners(NoRunners):
    """Runners that record process queries, and can fail or delay them."""

    def __init__(self) -> None:
        super().__init__()
        self.queried: list[SessionId] = []
        self.go = asyncio.Event()
        self.go.set()
        self.failing = False

    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        self.queried.append(session_id)
        await self.go.wait()
        if self.failing:
            raise RunnerError("no answer")
        return await super().processes(session_id)


class SessionHarness(GatewayHarness):
    """A harness with a manual clock and `ProcessQueryRunners`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.process_runners = ProcessQueryRunners()
        self.runners = self.process_runners
        self.manual_clock = ManualClock()
        self.clock = self.manual_clock

    async def start_with(self, sessions: SessionSettings) -> None:
        self.settings = msgspec.structs.replace(self.settings, sessions=sessions)
        await self.start()

    async def wait_until_idle(self) -> None:
        """Return once no lane is left and every sent message has its receipt."""
        async with asyncio.timeout(30):
            while len(self.gateway.lanes) or not await self.all_delivered():
                await asyncio.sleep(0.001)

    async def exchange(self, text: str, reply: str, **where: Any) -> SessionId:
        """Send a message, wait for the reply, and return its session."""
        self.model.say(reply)
        sent = len((await self.service.wait_for_ledger(sent=0, wait=0)).sent)
        self.say(text, **where)
        async with asyncio.timeout(30):
            while reply not in [each.outgoing.text for each in (await self.sent(sent))[sent:]]:
                await asyncio.sleep(0.001)
        await self.wait_until_idle()
        source = Source(
            platform="simulated",
            chat_id=where.get("chat", "home"),
            chat_type=where.get("chat_type", ChatType.DM),
            thread_id=where.get("thread"),
            user_id=where.get("user", "ann"),
        )
        target = await self.store.read(
            GetRouteTarget(key=self.gateway.sessions.session_key(source))
        )
        assert target is not None
        return target.session_id

    async def row(self, session_id: SessionId) -> SessionRow:
        found = await self.store.read(GetSession(session_id=session_id))
        assert found is not None
        return found

    def model_texts(self) -> Sequence[str]:
        """The texts of the last model request."""
        return [message.text for message in self.model.requests[-1].messages]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SessionHarness]:
    harness = SessionHarness(tmp_path / "state.db")
    yield harness
    await harness.stop()


async def test_without_a_policy_a_conversation_never_ends_by_itself(
    harness: SessionHarness,
) -> None:
    await harness.start_with(SessionSettings())
    first = await harness.exchange("hi", "one")
    harness.manual_clock.at += 10_000 * HOUR
    assert await harness.exchange("hi again", "two") == first
    assert harness.process_runners.queried == []


async def test_an_idle_timeout_ends_a_conversation_and_notifies_user_and_model_once(
    harness: SessionHarness,
) -> None:
    await harness.start_with(IDLE)
    first = await harness.exchange("hi", "one")
    harness.manual_clock.at += HOUR
    second = await harness.exchange("hi again", "two")
    assert second != first
    row = await harness.row(second)
    assert (row.was_auto_reset, row.auto_reset_reason) == (True, ResetReason.IDLE)
    assert row.previous == first
    assert (await harness.row(first)).ended_at is not None
    _, notice, reply = await harness.texts(3)
    assert "fresh conversation" in notice
    assert "/resume" in notice
    assert reply == "two"
    note, user_text = harness.model_texts()
    assert note.startswith("[System note: There was no message here for a while")
    assert user_text == "hi again"
    await harness.exchange("and more", "three")
    assert len(await harness.texts(4)) == 4
    assert harness.model_texts() == [note, "hi again", "two", "and more"]
    assert isinstance((await harness.transcript(second))[0], NoteMessage)


async def test_a_message_within_the_idle_timeout_queries_no_runner(harness: SessionHarness) -> None:
    """The commit of a message returns what resolves its session."""
    await harness.start_with(IDLE)
    first = await harness.exchange("hi", "one")
    for _ in range(3):
        harness.manual_clock.at += HOUR - 1
        assert await harness.exchange("hi again", "more") == first
    assert harness.process_runners.queried == []


async def test_a_new_day_ends_a_conversation(harness: SessionHarness) -> None:
    await harness.start_with(SessionSettings(reset=ResetMode.DAILY, daily_hour=4, time_zone="UTC"))
    harness.manual_clock.at = 1_800_000_000.0 // 86400 * 86400 + 3.5 * HOUR
    first = await harness.exchange("hi", "one")
    harness.manual_clock.at += 0.4 * HOUR
    assert await harness.exchange("still night", "two") == first
    harness.manual_clock.at += 0.2 * HOUR
    second = await harness.exchange("good morning", "three")
    assert second != first
    assert (await harness.row(second)).auto_reset_reason is ResetReason.DAILY


async def test_a_reset_rule_applies_to_its_platform_and_chat_type_only(
    harness: SessionHarness,
) -> None:
    rule = ResetRule(
        platform="simulated", chat_type=ChatType.GROUP, reset=ResetMode.IDLE, idle_minutes=60
    )
    await harness.start_with(SessionSettings(rules=(rule,)))
    group: dict[str, Any] = {"chat": "team", "chat_type": ChatType.GROUP}
    private, shared = (
        await harness.exchange("hi", "one"),
        await harness.exchange("hi", "two", **group),
    )
    harness.manual_clock.at += HOUR
    assert await harness.exchange("hi", "three") == private
    assert await harness.exchange("hi", "four", **group) not in (private, shared)


def process(session_id: SessionId, *, ended_at: float | None = None) -> ProcessRow:
    return ProcessRow(
        session_id=session_id, id="p1", command="make", started_at=1.0, ended_at=ended_at
    )


async def test_a_session_with_live_processes_is_not_reset(harness: SessionHarness) -> None:
    await harness.start_with(IDLE)
    first = await harness.exchange("build it", "it builds")
    harness.process_runners.running[first] = [process(first, ended_at=2.0), process(first)]
    harness.manual_clock.at += 30 * HOUR
    assert await harness.exchange("is it done?", "not yet") == first
    assert not (await harness.row(first)).was_auto_reset
    assert harness.process_runners.ended == []


async def test_ended_processes_do_not_prevent_a_reset(
    harness: SessionHarness, until: Until
) -> None:
    await harness.start_with(IDLE)
    first = await harness.exchange("build it", "built")
    harness.process_runners.running[first] = [process(first, ended_at=2.0)]
    harness.manual_clock.at += HOUR
    assert await harness.exchange("thanks", "sure") != first
    await until(lambda: harness.process_runners.ended == [first])  # A5: it is ended hard


async def test_a_session_whose_runner_does_not_answer_is_not_reset(harness: SessionHarness) -> None:
    """Processes may still run in it."""
    await harness.start_with(IDLE)
    first = await harness.exchange("build it", "it builds")
    harness.process_runners.failing = True
    harness.manual_clock.at += HOUR
    assert await harness.exchange("is it done?", "not yet") == first


async def test_messages_during_the_runner_query_keep_their_order_and_session(
    harness: SessionHarness, until: Until
) -> None:
    """Single-flight: one query, one fresh session, one notice."""
    await harness.start_with(IDLE)
    first = await harness.exchange("hi", "one")
    harness.manual_clock.at += HOUR
    harness.process_runners.go.clear()
    for text in ("a", "b", "c"):
        harness.say(text)
    await until(lambda: sum(lane.queued for lane in harness.gateway.lanes) == 3)
    harness.model.say("two")
    harness.process_runners.go.set()
    _, notice, reply = await harness.texts(3)
    assert ("fresh" in notice, reply) == (True, "two")
    assert harness.model_texts()[1:] == ["a", "b", "c"]
    assert harness.process_runners.queried == [first]
    assert len(await harness.store.read(ListSessions(limit=9))) == 2
    assert await harness.ledger() == {"answered": 2, "merged": 2}


async def test_stop_ends_a_message_whose_session_is_not_resolved_yet(
    harness: SessionHarness, until: Until
) -> None:
    await harness.start_with(IDLE)
    first = await harness.exchange("hi", "one")
    harness.manual_clock.at += HOUR
    harness.process_runners.go.clear()
    harness.say("never mind")
    await until(lambda: sum(lane.queued for lane in harness.gateway.lanes) == 1)
    harness.say("/stop")
    await harness.sent(2)
    harness.process_runners.go.set()
    await harness.wait_until_idle()
    assert (await harness.ledger())["superseded"] == 1
    assert [row.id for row in await harness.store.read(ListSessions(limit=9))] == [first]


async def test_a_message_accepted_in_time_stays_in_its_session_however_late_it_runs(
    harness: SessionHarness, until: Until
) -> None:
    """The time of acceptance counts, not that of the next start."""
    await harness.start_with(IDLE)
    first = await harness.exchange("hi", "one")
    harness.manual_clock.at += HOUR - 60
    await harness.gateway.lanes.close()  # it is accepted, and the gateway dies before it runs
    harness.say("quick")

    async def accepted() -> bool:
        return bool(await harness.store.read(ListQueuedMessages()))

    await until(accepted)
    await harness.die()
    harness.manual_clock.at += 100 * HOUR
    harness.model.say("two")
    await harness.start()
    await harness.sent(2)
    assert [row.id for row in await harness.store.read(ListSessions(limit=9))] == [first]


async def test_a_reset_notice_is_sent_once_even_if_the_gateway_dies_in_that_turn(
    harness: SessionHarness, until: Until
) -> None:
    """The notice commits with the beginning of the first turn, so it is sent exactly once."""
    await harness.start_with(IDLE)
    await harness.exchange("hi", "one")
    harness.manual_clock.at += HOUR
    harness.say("hi again")
    await harness.model.wait_for_request(2)

    async def both_went_out() -> bool:
        return (await harness.store.read(CountOutbox()))[DeliveryState.SENT] == 2

    await until(both_went_out)
    await harness.die()
    harness.model.say("two")
    await harness.start()
    texts = await harness.texts(3)
    assert [("fresh" in text) for text in texts] == [False, True, False]
    assert len(await harness.store.read(ListSessions(limit=9))) == 2


async def test_a_session_opened_without_a_message_sends_its_reset_notice_with_the_first_one(
    harness: SessionHarness,
) -> None:
    """`get_or_create_session` has no one to notify; the first sender gets the notice."""
    await harness.start_with(IDLE)
    await harness.exchange("hi", "one")
    harness.manual_clock.at += HOUR
    source = Source(platform="simulated", chat_id="home", user_id="ann")
    opened = await harness.gateway.sessions.get_or_create_session(source)
    assert (opened.was_auto_reset, opened.auto_reset_reason) == (True, ResetReason.IDLE)
    await harness.die()
    await harness.start()
    assert await harness.exchange("hi again", "two") == opened.id
    assert ["fresh" in text for text in await harness.texts(3)] == [False, True, False]
    await harness.exchange("more", "three")
    assert len(await harness.texts(4)) == 4


@pytest.mark.parametrize("choice", ["/busy queue", "/model other"])
async def test_a_session_opened_by_a_command_sends_its_reset_notice_with_the_first_message(
    harness: SessionHarness, choice: str
) -> None:
    """F4: a command that opens the fresh session does not hide the reset."""
    await harness.start_with(SessionSettings())
    first = await harness.exchange("hi", "one")
    source = Source(platform="simulated", chat_id="home", user_id="ann")
    assert await harness.gateway.sessions.suspend_session(
        harness.gateway.sessions.session_key(source)
    )
    harness.say(choice)
    await harness.texts(2)
    second = await harness.exchange("hi again", "two")
    row = await harness.row(second)
    assert (row.auto_reset_reason, row.previous) == (ResetReason.SUSPENDED, first)
    assert ["fresh" in text for text in await harness.texts(4)] == [False, False, True, False]


async def test_a_fetched_answer_has_no_reset_notice(
    harness: SessionHarness,
) -> None:
    await harness.start_with(IDLE)
    harness.model.say("one", "two")
    first = await harness.end_of(await harness.accept("hi"))
    await harness.wait_until_idle()
    harness.manual_clock.at += HOUR
    accepted = await harness.accept("hi again")
    ended = await harness.end_of(accepted)
    assert (ended.text, ended.session_id == first.session_id) == ("two", False)
    assert [
        answer.text
        for answer in await harness.store.read(ListDeliveriesForMessage(inbox_id=accepted.row.id))
    ] == ["two"]


async def test_people_in_a_thread_share_a_session_and_each_is_named(
    harness: SessionHarness,
) -> None:
    await harness.start_with(SessionSettings())
    thread: dict[str, Any] = {"chat": "team", "chat_type": ChatType.THREAD, "thread": "7"}
    one = await harness.exchange("hi", "one", user="ann", user_name="Ann", **thread)
    other = await harness.exchange("hello", "two", user="bob", **thread)
    assert one == other
    user_text = harness.model.requests[-1].messages
    assert [m.speaker for m in user_text if m.text in ("hi", "hello")] == ["Ann", "bob"]  # type: ignore[union-attr]
    assert (await harness.row(one)).principal is None


async def test_people_in_a_group_have_separate_sessions(harness: SessionHarness) -> None:
    await harness.start_with(SessionSettings())
    group: dict[str, Any] = {"chat": "team", "chat_type": ChatType.GROUP}
    first = await harness.exchange("hi", "one", user="ann", **group)
    second = await harness.exchange("hi", "two", user="bob", **group)
    assert first != second
    assert (await harness.row(second)).principal == "simulated:default:bob"


async def test_a_group_can_share_one_session(harness: SessionHarness) -> None:
    await harness.start_with(SessionSettings(group_sessions_per_user=False))
    group: dict[str, Any] = {"chat": "team", "chat_type": ChatType.GROUP}
    assert await harness.exchange("hi", "one", user="ann", **group) == await harness.exchange(
        "hi", "two", user="bob", **group
    )
