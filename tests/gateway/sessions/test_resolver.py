"""Sessions: who shares one, when a fresh one takes its place, and how that is told."""

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
from holdfast.core.sessions.reset import ResetMode, ResetReason, ResetRule
from holdfast.core.sessions.session import ProcessRow, SessionRow

HOUR = 3600.0
IDLE = SessionSettings(reset=ResetMode.IDLE, idle_minutes=60)


class Asked(NoRunners):
    """Workbenches that count who asks what runs, and can fail or take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[SessionId] = []
        self.go = asyncio.Event()
        self.go.set()
        self.broken = False

    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        self.asked.append(session_id)
        await self.go.wait()
        if self.broken:
            raise RunnerError("nobody answers")
        return await super().processes(session_id)


class Chats(GatewayHarness):
    """A harness with a clock that is moved by hand."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.benches = Asked()
        self.runners = self.benches
        self.held = ManualClock()
        self.clock = self.held

    async def begin(self, sessions: SessionSettings) -> None:
        self.settings = msgspec.structs.replace(self.settings, sessions=sessions)
        await self.start()

    async def rest(self) -> None:
        """Returns once nothing is under way, and what was sent has its receipt."""
        async with asyncio.timeout(30):
            while len(self.gateway.lanes) or not await self.arrived():
                await asyncio.sleep(0.001)

    async def talk(self, text: str, reply: str, **where: Any) -> SessionId:
        """One exchange; the session it happened in."""
        self.model.say(reply)
        sent = len((await self.service.wait_for_ledger(sent=0, wait=0)).sent)
        self.say(text, **where)
        async with asyncio.timeout(30):
            while reply not in [each.outgoing.text for each in (await self.sent(sent))[sent:]]:
                await asyncio.sleep(0.001)
        await self.rest()
        source = Source(
            platform="simulated",
            chat_id=where.get("chat", "home"),
            chat_type=where.get("chat_type", ChatType.DM),
            thread_id=where.get("thread"),
            user_id=where.get("user", "ann"),
        )
        pointed = await self.store.route_target(self.gateway.sessions.session_key(source))
        assert pointed is not None
        return pointed.session_id

    async def row(self, session_id: SessionId) -> SessionRow:
        found = await self.store.session(session_id)
        assert found is not None
        return found

    def shown(self) -> Sequence[str]:
        """What the model was shown last."""
        return [message.text for message in self.model.requests[-1].messages]


@pytest.fixture
async def chats(tmp_path: Path) -> AsyncIterator[Chats]:
    chats = Chats(tmp_path / "state.db")
    yield chats
    await chats.stop()


async def test_without_a_policy_a_conversation_never_ends_by_itself(chats: Chats) -> None:
    await chats.begin(SessionSettings())
    first = await chats.talk("hi", "one")
    chats.held.at += 10_000 * HOUR
    assert await chats.talk("hi again", "two") == first
    assert chats.benches.asked == []


async def test_an_idle_timeout_ends_a_conversation_and_notifies_user_and_model_once(
    chats: Chats,
) -> None:
    await chats.begin(IDLE)
    first = await chats.talk("hi", "one")
    chats.held.at += HOUR
    second = await chats.talk("hi again", "two")
    assert second != first
    row = await chats.row(second)
    assert (row.was_auto_reset, row.auto_reset_reason) == (True, ResetReason.IDLE)
    assert row.previous == first
    assert (await chats.row(first)).ended_at is not None
    _, notice, reply = await chats.texts(3)
    assert "fresh conversation" in notice
    assert "/resume" in notice
    assert reply == "two"
    note, said = chats.shown()
    assert note.startswith("[System note: Nothing was said here for a while")
    assert said == "hi again"
    await chats.talk("and more", "three")
    assert len(await chats.texts(4)) == 4
    assert chats.shown() == [note, "hi again", "two", "and more"]
    assert isinstance((await chats.transcript(second))[0], NoteMessage)


async def test_a_message_within_the_idle_timeout_queries_no_runner(chats: Chats) -> None:
    """An ordinary message is placed by what its own commit brought back."""
    await chats.begin(IDLE)
    first = await chats.talk("hi", "one")
    for _ in range(3):
        chats.held.at += HOUR - 1
        assert await chats.talk("hi again", "more") == first
    assert chats.benches.asked == []


async def test_a_new_day_ends_a_conversation(chats: Chats) -> None:
    await chats.begin(SessionSettings(reset=ResetMode.DAILY, daily_hour=4, time_zone="UTC"))
    chats.held.at = 1_800_000_000.0 // 86400 * 86400 + 3.5 * HOUR
    first = await chats.talk("hi", "one")
    chats.held.at += 0.4 * HOUR
    assert await chats.talk("still night", "two") == first
    chats.held.at += 0.2 * HOUR
    second = await chats.talk("good morning", "three")
    assert second != first
    assert (await chats.row(second)).auto_reset_reason is ResetReason.DAILY


async def test_a_reset_rule_applies_to_its_platform_and_chat_type_only(chats: Chats) -> None:
    rule = ResetRule(
        platform="simulated", chat_type=ChatType.GROUP, reset=ResetMode.IDLE, idle_minutes=60
    )
    await chats.begin(SessionSettings(rules=(rule,)))
    group: dict[str, Any] = {"chat": "team", "chat_type": ChatType.GROUP}
    private, shared = await chats.talk("hi", "one"), await chats.talk("hi", "two", **group)
    chats.held.at += HOUR
    assert await chats.talk("hi", "three") == private
    assert await chats.talk("hi", "four", **group) not in (private, shared)


def process(session_id: SessionId, *, ended_at: float | None = None) -> ProcessRow:
    return ProcessRow(
        session_id=session_id, id="p1", command="make", started_at=1.0, ended_at=ended_at
    )


async def test_a_session_with_live_processes_is_not_reset(chats: Chats) -> None:
    await chats.begin(IDLE)
    first = await chats.talk("build it", "it builds")
    chats.benches.running[first] = [process(first, ended_at=2.0), process(first)]
    chats.held.at += 30 * HOUR
    assert await chats.talk("is it done?", "not yet") == first
    assert not (await chats.row(first)).was_auto_reset
    assert chats.benches.ended == []


async def test_ended_processes_do_not_prevent_a_reset(chats: Chats, until: Until) -> None:
    await chats.begin(IDLE)
    first = await chats.talk("build it", "built")
    chats.benches.running[first] = [process(first, ended_at=2.0)]
    chats.held.at += HOUR
    assert await chats.talk("thanks", "sure") != first
    await until(lambda: chats.benches.ended == [first])  # A5: it is ended hard


async def test_a_session_whose_runner_does_not_answer_is_not_reset(chats: Chats) -> None:
    """What may still run for somebody is not taken from them on a guess."""
    await chats.begin(IDLE)
    first = await chats.talk("build it", "it builds")
    chats.benches.broken = True
    chats.held.at += HOUR
    assert await chats.talk("is it done?", "not yet") == first


async def test_messages_during_the_runner_query_keep_their_order_and_session(
    chats: Chats, until: Until
) -> None:
    """Single-flight: one question, one fresh session, one notice."""
    await chats.begin(IDLE)
    first = await chats.talk("hi", "one")
    chats.held.at += HOUR
    chats.benches.go.clear()
    for text in ("a", "b", "c"):
        chats.say(text)
    await until(lambda: sum(lane.queued for lane in chats.gateway.lanes) == 3)
    chats.model.say("two")
    chats.benches.go.set()
    _, notice, reply = await chats.texts(3)
    assert ("fresh" in notice, reply) == (True, "two")
    assert chats.shown()[1:] == ["a", "b", "c"]
    assert chats.benches.asked == [first]
    assert len(await chats.store.sessions(limit=9)) == 2
    assert await chats.ledger() == {"answered": 2, "merged": 2}


async def test_stop_ends_a_message_whose_session_is_not_resolved_yet(
    chats: Chats, until: Until
) -> None:
    await chats.begin(IDLE)
    first = await chats.talk("hi", "one")
    chats.held.at += HOUR
    chats.benches.go.clear()
    chats.say("never mind")
    await until(lambda: sum(lane.queued for lane in chats.gateway.lanes) == 1)
    chats.say("/stop")
    await chats.sent(2)
    chats.benches.go.set()
    await chats.rest()
    assert (await chats.ledger())["superseded"] == 1
    assert [row.id for row in await chats.store.sessions(limit=9)] == [first]


async def test_a_message_accepted_in_time_stays_in_its_session_however_late_it_runs(
    chats: Chats, until: Until
) -> None:
    """What counts is when it was said, not when the gateway came back."""
    await chats.begin(IDLE)
    first = await chats.talk("hi", "one")
    chats.held.at += HOUR - 60
    await chats.gateway.lanes.close()  # it is accepted, and the gateway dies before it runs
    chats.say("quick")

    async def accepted() -> bool:
        return bool(await chats.store.queued_messages())

    await until(accepted)
    await chats.die()
    chats.held.at += 100 * HOUR
    chats.model.say("two")
    await chats.start()
    await chats.sent(2)
    assert [row.id for row in await chats.store.sessions(limit=9)] == [first]


async def test_a_reset_notice_is_sent_once_even_if_the_gateway_dies_in_that_turn(
    chats: Chats, until: Until
) -> None:
    """The notice commits with the beginning of the first turn: before it nothing is said, and
    after it nothing again."""
    await chats.begin(IDLE)
    await chats.talk("hi", "one")
    chats.held.at += HOUR
    chats.say("hi again")
    await chats.model.wait_for_request(2)

    async def both_went_out() -> bool:
        return (await chats.store.outbox_counts())[DeliveryState.SENT] == 2

    await until(both_went_out)
    await chats.die()
    chats.model.say("two")
    await chats.start()
    texts = await chats.texts(3)
    assert [("fresh" in text) for text in texts] == [False, True, False]
    assert len(await chats.store.sessions(limit=9)) == 2


async def test_a_session_opened_without_a_message_sends_its_reset_notice_with_the_first_one(
    chats: Chats,
) -> None:
    """`get_or_create_session` has nobody to tell; whoever speaks there first is told."""
    await chats.begin(IDLE)
    await chats.talk("hi", "one")
    chats.held.at += HOUR
    source = Source(platform="simulated", chat_id="home", user_id="ann")
    opened = await chats.gateway.sessions.get_or_create_session(source)
    assert (opened.was_auto_reset, opened.auto_reset_reason) == (True, ResetReason.IDLE)
    await chats.die()
    await chats.start()
    assert await chats.talk("hi again", "two") == opened.id
    assert ["fresh" in text for text in await chats.texts(3)] == [False, True, False]
    await chats.talk("more", "three")
    assert len(await chats.texts(4)) == 4


@pytest.mark.parametrize("choice", ["/busy queue", "/model other"])
async def test_a_session_opened_by_a_command_sends_its_reset_notice_with_the_first_message(
    chats: Chats, choice: str
) -> None:
    """F4: a command that opens the fresh session does not hide where the old one went."""
    await chats.begin(SessionSettings())
    first = await chats.talk("hi", "one")
    source = Source(platform="simulated", chat_id="home", user_id="ann")
    assert await chats.gateway.sessions.suspend_session(chats.gateway.sessions.session_key(source))
    chats.say(choice)
    await chats.texts(2)
    second = await chats.talk("hi again", "two")
    row = await chats.row(second)
    assert (row.auto_reset_reason, row.previous) == (ResetReason.SUSPENDED, first)
    assert ["fresh" in text for text in await chats.texts(4)] == [False, False, True, False]


async def test_a_fetched_answer_has_no_reset_notice(
    chats: Chats,
) -> None:
    await chats.begin(IDLE)
    chats.model.say("one", "two")
    first = await chats.end_of(await chats.accept("hi"))
    await chats.rest()
    chats.held.at += HOUR
    accepted = await chats.accept("hi again")
    ended = await chats.end_of(accepted)
    assert (ended.text, ended.session_id == first.session_id) == ("two", False)
    assert [
        answer.text for answer in await chats.store.deliveries_for_message(accepted.row.id)
    ] == ["two"]


async def test_people_in_a_thread_share_a_session_and_each_is_named(chats: Chats) -> None:
    await chats.begin(SessionSettings())
    thread: dict[str, Any] = {"chat": "team", "chat_type": ChatType.THREAD, "thread": "7"}
    one = await chats.talk("hi", "one", user="ann", user_name="Ann", **thread)
    other = await chats.talk("hello", "two", user="bob", **thread)
    assert one == other
    said = chats.model.requests[-1].messages
    assert [m.speaker for m in said if m.text in ("hi", "hello")] == ["Ann", "bob"]  # type: ignore[union-attr]
    assert (await chats.row(one)).principal is None


async def test_people_in_a_group_have_separate_sessions(chats: Chats) -> None:
    await chats.begin(SessionSettings())
    group: dict[str, Any] = {"chat": "team", "chat_type": ChatType.GROUP}
    anns = await chats.talk("hi", "one", user="ann", **group)
    bobs = await chats.talk("hi", "two", user="bob", **group)
    assert anns != bobs
    assert (await chats.row(bobs)).principal == "simulated:default:bob"


async def test_a_group_can_share_one_session(chats: Chats) -> None:
    await chats.begin(SessionSettings(group_sessions_per_user=False))
    group: dict[str, Any] = {"chat": "team", "chat_type": ChatType.GROUP}
    assert await chats.talk("hi", "one", user="ann", **group) == await chats.talk(
        "hi", "two", user="bob", **group
    )
