"""Commands on history: sessions, resume, title, fork, undo, retry and usage."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.stops import wait_for_open_turns

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId, SessionKey
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.source import ChatType, Source, build_session_key
from holdfast.core.messages.transcript import CompactionMessage, ToolCall
from holdfast.core.ports.store_commands import DeleteSession
from holdfast.core.ports.store_queries import (
    CountOutbox,
    GetLastTurn,
    GetRouteSession,
    GetSession,
    ListDeliveriesForMessage,
    ListRecords,
    ListSessions,
)
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.core.turns.projection import projection_problems

GROUP: dict[str, Any] = {"chat": "team", "chat_type": ChatType.GROUP}
THREAD: dict[str, Any] = {"chat": "team", "chat_type": ChatType.THREAD, "thread": "7"}
BUSY = "is not possible while the agent is working"


class ChatClient:
    """A user who sends messages one after the other, and waits for each reply."""

    def __init__(self, harness: GatewayHarness) -> None:
        self.harness = harness
        self.sent = 0

    async def __call__(self, text: str, reply: str | None = None, **where: Any) -> str:
        """Send a message; returns the reply."""
        if reply is not None:
            self.harness.model.say(reply)
        self.harness.say(text, **where)
        self.sent += 1
        answer = (await self.harness.texts(self.sent))[-1]
        async with asyncio.timeout(30):
            while len(self.harness.gateway.lanes) or not await self._receipts_are_saved():
                await asyncio.sleep(0.001)
        return answer

    async def _receipts_are_saved(self) -> bool:
        counts = await self.harness.store.read(CountOutbox())
        return counts[DeliveryState.SENT] == self.sent

    async def current_session(self, user: str = "ann", **where: Any) -> SessionId | None:
        source = Source(
            platform="simulated",
            chat_id=where.get("chat", "home"),
            chat_type=where.get("chat_type", ChatType.DM),
            thread_id=where.get("thread"),
            user_id=user,
        )
        return await self.harness.store.read(GetRouteSession(key=build_session_key(source)))

    def last_request_texts(self) -> Sequence[str]:
        return [message.text for message in self.harness.model.requests[-1].messages]


@pytest.fixture
def chat(harness: GatewayHarness) -> ChatClient:
    return ChatClient(harness)


async def test_conversations_are_listed_with_the_last_one_first(chat: ChatClient) -> None:
    await chat("about fish", "yes")
    await chat("/new")
    await chat("about birds", "yes")
    listed = (await chat("/sessions")).splitlines()
    assert listed[0].startswith("1. about birds - 2 messages, just now (you are here)")
    assert listed[1].startswith("2. about fish - 2 messages")
    assert len(listed) == 3


async def test_an_empty_history_lists_no_conversations(chat: ChatClient) -> None:
    assert await chat("/sessions") == "There are no conversations yet."
    assert "no earlier" in await chat("/resume")


async def test_an_earlier_conversation_can_be_resumed(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    await chat("about fish", "yes")
    fish = await chat.current_session()
    await chat("/new")
    await chat("about birds", "yes")
    birds = await chat.current_session()
    assert (await chat("/resume 2")).startswith("You are back in: about fish")
    assert await chat.current_session() == fish
    await chat("and sharks?", "too")
    assert chat.last_request_texts() == ["about fish", "yes", "and sharks?"]
    rows = {row.id: row for row in await harness.store.read(ListSessions(limit=9))}
    assert all(row.ended_at is None for row in rows.values())  # the previous session is kept
    assert (await chat("/resume about birds")).startswith("You are back in: about birds")
    assert await chat.current_session() == birds


async def test_resume_without_a_name_picks_the_last_conversation(chat: ChatClient) -> None:
    await chat("about fish", "yes")
    fish = await chat.current_session()
    await chat("/new")
    await chat("about birds", "yes")
    assert (await chat("/resume")).startswith("You are back in: about fish")
    assert await chat.current_session() == fish


async def test_a_suspended_conversation_can_be_resumed(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    """The suspension is lifted, and the session is active again."""
    await chat("about fish", "yes")
    fish = await chat.current_session()
    await harness.gateway.sessions.suspend_session(
        build_session_key(Source(platform="simulated", chat_id="home", user_id="ann"))
    )
    assert (await chat("/resume")).startswith("You are back in: about fish")
    assert await chat.current_session() == fish
    await chat("still there?", "yes")
    assert chat.last_request_texts() == ["about fish", "yes", "still there?"]


async def test_resume_accepts_part_of_a_title_or_the_id(chat: ChatClient) -> None:
    await chat("about red fish", "yes")
    fish = await chat.current_session()
    await chat("/new")
    await chat("about red birds", "yes")
    several = await chat("/resume RED")
    assert several.splitlines()[0].startswith("Which one?")
    assert [line[:2] for line in several.splitlines()[1:]] == ["1.", "2."]
    assert "You have no conversation" in await chat("/resume whales")
    assert "You have no conversation" in await chat("/resume 99999999999999999999")
    assert (await chat("/resume fish")).startswith("You are back in: about red fish")
    assert "already" in await chat(f"/resume {fish}")


async def test_users_cannot_reach_the_conversations_of_others(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    """Neither by number, by title nor by id."""
    await chat("my secret", "yes", user="ann")
    anns = await chat.current_session()
    await chat("hello", "yes", user="bob", chat="bobs")
    listed = await chat("/sessions", user="bob", chat="bobs")
    assert "secret" not in listed
    for way in ("2", "my secret", str(anns)):
        reply = await chat(f"/resume {way}", user="bob", chat="bobs")
        assert "You have no conversation" in reply
    assert await chat.current_session() == anns


async def test_a_group_lists_only_its_own_conversations(chat: ChatClient) -> None:
    """A private title is not shown to the group, but a member may resume a group session."""
    await chat("my secret", "yes", user="ann")
    secret = await chat.current_session()
    await chat("for the team", "yes", user="ann", **GROUP)
    team = await chat.current_session(**GROUP)
    listed = await chat("/sessions", user="ann", **GROUP)
    assert ("secret" in listed, "for the team" in listed) == (False, True)
    assert "You have no" in await chat(f"/resume {secret}", user="ann", **GROUP)
    assert (await chat("/resume for the team", user="ann")).startswith("You are back in")
    assert await chat.current_session() == team


async def test_users_of_a_thread_share_its_conversations(chat: ChatClient) -> None:
    await chat("one", "yes", user="ann", **THREAD)
    first = await chat.current_session(**THREAD)
    await chat("/new", user="ann", **THREAD)
    await chat("two", "yes", user="bob", **THREAD)
    assert "one" in await chat("/sessions", user="bob", **THREAD)
    await chat("/resume one", user="bob", **THREAD)
    assert await chat.current_session(**THREAD) == first
    assert "one" not in await chat("/sessions", user="ann")


async def test_a_title_is_shown_and_changed(chat: ChatClient, harness: GatewayHarness) -> None:
    assert "This conversation has no messages yet" in await chat("/title Fish")
    await chat("about fish", "yes")
    assert await chat("/title") == "Title of this conversation: about fish"
    await chat("/title  On\x1b fish\n and chips ")
    assert await chat("/title") == "Title of this conversation: On fish and chips"


async def test_a_title_may_be_changed_while_the_agent_works(harness: GatewayHarness) -> None:
    harness.say("about fish")
    await harness.model.wait_for_request(1)
    harness.say("/title Fish")
    assert (await harness.texts(1))[-1] == "This conversation is now called: Fish"
    harness.model.say("yes")
    await harness.sent(2)
    (row,) = await harness.store.read(ListSessions(limit=2))
    assert row.title == "Fish"


async def test_a_fork_is_independent_of_its_original(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    """The same history and the same frozen prompt (A4); later messages are separate."""
    await chat("about fish", "yes")
    fish = await chat.current_session()
    await chat("/model clever")
    assert (await chat("/fork Sharks")).startswith("You are now in a copy: Sharks")
    copy = await chat.current_session()
    assert copy is not None
    assert copy != fish
    await chat("and sharks?", "too")
    assert chat.last_request_texts() == ["about fish", "yes", "and sharks?"]
    assert harness.model.requests[0].system == harness.model.requests[-1].system
    row = await harness.store.read(GetSession(session_id=copy))
    assert row is not None
    assert (row.title, row.model_override, row.previous) == ("Sharks", "clever", fish)
    await chat("/resume")
    assert await chat.current_session() == fish
    await chat("where was I?", "at fish")
    assert chat.last_request_texts() == ["about fish", "yes", "where was I?"]


async def test_deleting_a_fork_leaves_the_original_intact(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    await chat("about fish", "yes")
    fish = await chat.current_session()
    await chat("/fork")
    copy = await chat.current_session()
    assert fish is not None
    assert copy is not None
    await harness.store.write(DeleteSession(session_id=copy))
    assert [m.text for m in await harness.transcript(fish)] == ["about fish", "yes"]
    assert (await harness.store.read(GetLastTurn(session_id=fish))) is not None


async def test_undo_removes_the_last_exchange(
    chat: ChatClient, harness: GatewayHarness, call: Call
) -> None:
    """The model does not see undone messages; the store keeps them."""
    await chat("one", "uno")
    harness.model.say([call("safe")])
    await chat("two", "dos")
    assert "“two”" in await chat("/undo")
    await chat("three", "tres")
    assert chat.last_request_texts() == ["one", "uno", "three"]
    assert projection_problems(harness.model.requests[-1].messages) == []
    session = await chat.current_session()
    assert session is not None
    texts = [
        record.message.text
        for record in await harness.store.read(ListRecords(session_id=session, limit=99))
    ]
    assert ("two" in texts, "dos" in texts) == (True, True)


async def test_an_undo_survives_a_restart(chat: ChatClient, harness: GatewayHarness) -> None:
    """A4, law 2: the same id, the same prompt, and the conversation without undone messages."""
    await chat("one", "uno")
    await chat("two", "dos")
    session = await chat.current_session()
    await chat("/undo")
    await harness.die()
    await harness.start()
    await chat("three", "tres")
    assert chat.last_request_texts() == ["one", "uno", "three"]
    assert await chat.current_session() == session
    assert harness.model.requests[0].system == harness.model.requests[-1].system


async def test_undo_removes_several_exchanges_and_can_be_repeated(chat: ChatClient) -> None:
    for text in ("one", "two", "three"):
        await chat(text, f"to {text}")
    await chat("/undo 2")
    await chat("four", "to four")
    assert chat.last_request_texts() == ["one", "to one", "four"]
    await chat("/undo 99")
    assert "nothing to take back" in await chat("/undo")
    await chat("five", "to five")
    assert chat.last_request_texts() == ["five"]


@pytest.mark.parametrize("number", ["0", "-1", "x", "²", "1.5"])
async def test_undo_with_an_invalid_number_changes_nothing(chat: ChatClient, number: str) -> None:
    await chat("one", "uno")
    assert "Usage: /undo [N]" in await chat(f"/undo {number}")
    await chat("two", "dos")
    assert chat.last_request_texts() == ["one", "uno", "two"]


async def test_a_fork_omits_undone_messages(chat: ChatClient) -> None:
    await chat("one", "uno")
    await chat("two", "dos")
    await chat("/undo")
    await chat("/fork")
    await chat("three", "tres")
    assert chat.last_request_texts() == ["one", "uno", "three"]


async def test_retry_answers_the_last_message_again(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    await chat("one", "uno")
    await chat("two", "dos")
    assert await chat("/retry", "zwei") == "zwei"
    assert chat.last_request_texts() == ["one", "uno", "two"]
    await chat("three", "tres")
    assert chat.last_request_texts() == ["one", "uno", "two", "zwei", "three"]
    assert await harness.ledger() == {"answered": 4, "merged": 1}


async def test_retry_repeats_a_failed_message(chat: ChatClient, harness: GatewayHarness) -> None:
    harness.model.say(ModelFailed("down", fault=ModelFault.AUTH))
    assert "could not be answered" in await chat("one")
    assert await chat("/retry", "uno") == "uno"
    assert chat.last_request_texts() == ["one"]


async def test_an_api_client_that_retries_gets_the_reply(harness: GatewayHarness) -> None:
    """A subscriber of the command gets the end of the message that it was merged into."""
    harness.model.say("one", "two")
    await harness.end_of(await harness.accept("hi"))
    accepted = await harness.accept("/retry")
    assert (await harness.end_of(accepted)).text == "two"
    assert [
        answer.text
        for answer in await harness.store.read(ListDeliveriesForMessage(inbox_id=accepted.row.id))
    ] == ["two"]


async def test_a_retry_interrupted_by_a_crash_happens_once(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    """G5: the exchange is undone and its message queued by one commit."""
    await chat("one", "uno")
    await chat("two", "dos")
    harness.say("/retry")
    await harness.model.wait_for_request(3)
    await harness.die()
    harness.model.say("zwei")
    await harness.start()
    await harness.sent(3)
    await chat.harness.model.wait_for_request(4)
    assert [text for text in chat.last_request_texts() if not text.startswith("[System")] == [
        "one",
        "uno",
        "two",
    ]


async def test_users_cannot_retry_the_message_of_another(chat: ChatClient) -> None:
    await chat("mine", "yes", user="ann", user_name="Ann", **THREAD)
    reply = await chat("/retry", user="bob", user_name="Bob", **THREAD)
    assert "someone else" in reply
    assert await chat("/retry", "again", user="ann", user_name="Ann", **THREAD) == "again"


@pytest.mark.parametrize("command", ["/undo", "/retry", "/fork", "/resume"])
async def test_history_commands_are_refused_mid_turn(harness: GatewayHarness, command: str) -> None:
    harness.say("work")
    await harness.model.wait_for_request(1)
    harness.say(command)
    assert BUSY in (await harness.texts(1))[-1]
    harness.model.say("done")
    assert (await harness.texts(2))[-1] == "done"
    assert len(await harness.store.read(ListSessions(limit=9))) == 1


@pytest.mark.parametrize("command", ["/undo", "/retry", "/fork"])
async def test_history_commands_need_a_history(chat: ChatClient, command: str) -> None:
    assert "This conversation has no messages yet" in await chat(command)


async def test_a_message_right_after_a_command_goes_to_its_session(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    """The route is changed before the next message is bound to a session."""
    await chat("about fish", "yes")
    await chat("/new")
    await chat("about birds", "yes")
    harness.model.say("sharks")
    harness.say("/resume fish")
    harness.say("and sharks?")
    await harness.texts(chat.sent + 2)
    assert chat.last_request_texts() == ["about fish", "yes", "and sharks?"]
    chat.sent += 2
    harness.model.say("whales")
    harness.say("/fork")
    harness.say("and whales?")
    await harness.texts(chat.sent + 2)
    assert chat.last_request_texts() == [
        "about fish",
        "yes",
        "and sharks?",
        "sharks",
        "and whales?",
    ]
    assert len(await harness.store.read(ListSessions(limit=9))) == 3


async def test_an_undo_right_after_the_reply_removes_that_reply(
    chat: ChatClient, harness: GatewayHarness, until: Until
) -> None:
    """The reply is published before its lane ends: the command waits for the lane, and the next
    message waits for the command."""
    harness.model.say("uno", "dos")
    harness.say("one")
    await harness.sent(1)
    harness.say("/undo")
    harness.say("two")
    await harness.sent(3)
    assert chat.last_request_texts() == ["two"]


async def test_tokens_are_counted_by_turn_conversation_and_person(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    assert await chat("/usage") == "All your conversations: 0 tokens in, 0 out"
    await chat("one", "uno")
    await chat("two", "dos")
    await chat("/new")
    await chat("three", "tres")
    assert (await chat("/usage")).splitlines() == [
        "The last turn: 10 tokens in (2 of them cached), 5 out",
        "This conversation: 10 tokens in (2 of them cached), 5 out",
        "All your conversations: 30 tokens in (6 of them cached), 15 out",
    ]
    assert "All your conversations: 0" in await chat("/usage", user="bob", chat="bobs")


async def test_tokens_are_counted_while_the_agent_works(
    harness: GatewayHarness, call: Call
) -> None:
    calls: list[ToolCall] = [call("safe")]
    harness.model.say(calls)
    harness.say("work")
    await harness.model.wait_for_request(2)
    harness.say("/usage")
    reply = (await harness.texts(1))[-1].splitlines()
    assert reply[0] == "This turn so far: 10 tokens in (2 of them cached), 5 out"
    assert reply[1] == "This conversation: 10 tokens in (2 of them cached), 5 out"
    harness.model.say("done")
    await harness.sent(2)


async def test_undone_messages_are_marked_in_the_history(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    await chat("one", "uno")
    await chat("two", "dos")
    await chat("/undo")
    session = await chat.current_session()
    assert session is not None
    records = await harness.store.read(ListRecords(session_id=session, limit=9))
    assert [(r.message.text, r.undone) for r in records] == [
        ("one", False),
        ("uno", False),
        ("two", True),
        ("dos", True),
    ]


async def test_an_undone_summary_no_longer_hides_messages(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    """Law 2: the messages it replaced are shown again; a summary that is not undone stays."""
    await chat("one", "uno")
    await chat("two", "dos")
    session = await chat.current_session()
    assert session is not None
    await summarise(harness, session, covers=2)
    await chat("three", "tres")
    assert [text.splitlines()[-1] for text in chat.last_request_texts()] == [
        "sum",
        "two",
        "dos",
        "three",
    ]
    await chat("/undo")
    await chat("four", "cuatro")
    assert [text.splitlines()[-1] for text in chat.last_request_texts()] == [
        "sum",
        "two",
        "dos",
        "four",
    ]
    await chat("/fork")
    await chat("five", "cinco")
    assert [text.splitlines()[-1] for text in chat.last_request_texts()][:3] == [
        "sum",
        "two",
        "dos",
    ]
    await chat("/undo 3")
    await chat("six", "seis")
    assert chat.last_request_texts() == ["one", "uno", "six"]


async def test_a_summary_of_undone_messages_is_refused(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    """It would hide the next messages."""
    await chat("one", "uno")
    await chat("two", "dos")
    session = await chat.current_session()
    assert session is not None
    await chat("/undo")
    with pytest.raises(StoreError, match="messages to summarise"):
        await summarise(harness, session, covers=3)
    await summarise(harness, session, covers=2)


async def summarise(harness: GatewayHarness, session_id: SessionId, *, covers: int) -> None:
    record = CompactionMessage(text="sum", covers=covers)
    await harness.store.write(
        CommandEffect(inbox_ends=(), session_id=session_id, compaction=record, at=1.0)
    )
    harness.gateway.cache.drop(session_id)


async def test_a_resumed_session_belongs_to_the_chat_that_resumed_it(
    chat: ChatClient, harness: GatewayHarness
) -> None:
    """So that the page, which finds a conversation by its chat, can send to it."""
    await chat("about fish", "yes", chat="one")
    fish = await chat.current_session(chat="one")
    await chat("/new", chat="one")
    await chat("/resume fish", chat="two")
    assert fish is not None
    row = await harness.store.read(GetSession(session_id=fish))
    assert row is not None
    assert (row.current, row.route.split(":")[3]) == (True, "two")
    assert await chat.current_session(chat="two") == fish


@pytest.mark.parametrize("undo", [False, True])
async def test_a_lane_that_was_only_paused_does_not_keep_a_route(
    harness: GatewayHarness, until: Until, undo: bool
) -> None:
    """G4: after a command in the session that /new is about to begin, the store has the route."""
    lanes, route = harness.gateway.lanes, SessionKey("simulated:default:dm:home:")
    settled: Any = lanes.point_route(route, SessionId("s_fresh"))
    barrier = lanes.pause_lane(SessionId("s_fresh"))
    assert barrier is not None
    await barrier.wait_until_paused()
    settled(undo=undo)
    barrier.release()
    await until(lambda: len(lanes) == 0)
    assert lanes.session_of(route) is None


async def test_a_route_is_not_restored_to_a_removed_lane(harness: GatewayHarness) -> None:
    """G4: where a /new could not be saved and the turn before it has ended, the store knows."""
    lanes, route = harness.gateway.lanes, SessionKey("simulated:default:dm:home:")
    lanes.point_route(route, SessionId("s_gone"))
    settled: Any = lanes.point_route(route, SessionId("s_fresh"))
    settled(undo=True)
    assert lanes.session_of(route) is None


async def test_new_takes_effect_although_its_stopped_turn_was_killed_before_its_end(
    harness: GatewayHarness, until: Until
) -> None:
    """G4: killed between the commit of /new and the end of the turn that it stopped."""
    harness.say("one")
    await until(lambda: bool(harness.model.requests))
    await wait_for_open_turns(harness)
    old, route = await harness.only_session(), SessionKey("simulated:default:dm:home:")
    fresh = SessionId("s_fresh")
    left = CommandEffect(inbox_ends=(), session_id=old, route=route, new_session=fresh, at=1.0)
    await harness.store.write(left)
    await harness.die()
    harness.model.say("two")
    await harness.start()
    harness.say("again")
    assert await harness.texts(1) == ["two"]
    assert (await harness.store.read(GetRouteSession(key=route))) == fresh
    assert [message.text for message in await harness.transcript(fresh)] == ["again", "two"]
    await until(lambda: len(harness.gateway.lanes) == 0)
    assert await harness.ledger() == {"superseded": 1, "answered": 1}
