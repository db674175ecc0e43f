"""Commands on history: listed, gone back to, named, copied, taken back, said again, counted."""

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
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.core.turns.projection import projection_problems

GROUP: dict[str, Any] = {"chat": "team", "chat_type": ChatType.GROUP}
THREAD: dict[str, Any] = {"chat": "team", "chat_type": ChatType.THREAD, "thread": "7"}
BUSY = "cannot be done while the agent works"


class Talk:
    """What a person does in a chat, one thing after the other."""

    def __init__(self, harness: GatewayHarness) -> None:
        self.harness = harness
        self.said = 0

    async def __call__(self, text: str, reply: str | None = None, **where: Any) -> str:
        """Say something; what came back."""
        if reply is not None:
            self.harness.model.say(reply)
        self.harness.say(text, **where)
        self.said += 1
        answer = (await self.harness.texts(self.said))[-1]
        async with asyncio.timeout(30):
            while len(self.harness.gateway.lanes) or not await self._receipts_are_kept():
                await asyncio.sleep(0.001)
        return answer

    async def _receipts_are_kept(self) -> bool:
        kept = await self.harness.store.outbox_counts()
        return kept[DeliveryState.SENT] == self.said

    async def where(self, user: str = "ann", **place: Any) -> SessionId | None:
        source = Source(
            platform="simulated",
            chat_id=place.get("chat", "home"),
            chat_type=place.get("chat_type", ChatType.DM),
            thread_id=place.get("thread"),
            user_id=user,
        )
        return await self.harness.store.route(build_session_key(source))

    def shown(self) -> Sequence[str]:
        return [message.text for message in self.harness.model.requests[-1].messages]


@pytest.fixture
def talk(harness: GatewayHarness) -> Talk:
    return Talk(harness)


async def test_conversations_are_listed_with_the_last_one_first(talk: Talk) -> None:
    await talk("about fish", "yes")
    await talk("/new")
    await talk("about birds", "yes")
    listed = (await talk("/sessions")).splitlines()
    assert listed[0].startswith("1. about birds - 2 messages, just now (you are here)")
    assert listed[1].startswith("2. about fish - 2 messages")
    assert len(listed) == 3


async def test_an_empty_history_lists_no_conversations(talk: Talk) -> None:
    assert await talk("/sessions") == "There are no conversations yet."
    assert "no earlier" in await talk("/resume")


async def test_an_earlier_conversation_can_be_resumed(talk: Talk, harness: GatewayHarness) -> None:
    await talk("about fish", "yes")
    fish = await talk.where()
    await talk("/new")
    await talk("about birds", "yes")
    birds = await talk.where()
    assert (await talk("/resume 2")).startswith("Back in: about fish")
    assert await talk.where() == fish
    await talk("and sharks?", "too")
    assert talk.shown() == ["about fish", "yes", "and sharks?"]
    rows = {row.id: row for row in await harness.store.sessions(limit=9)}
    assert all(row.ended_at is None for row in rows.values())  # the one that was left is kept
    assert (await talk("/resume about birds")).startswith("Back in: about birds")
    assert await talk.where() == birds


async def test_resume_without_a_name_picks_the_last_conversation(talk: Talk) -> None:
    await talk("about fish", "yes")
    fish = await talk.where()
    await talk("/new")
    await talk("about birds", "yes")
    assert (await talk("/resume")).startswith("Back in: about fish")
    assert await talk.where() == fish


async def test_a_suspended_conversation_can_be_resumed(talk: Talk, harness: GatewayHarness) -> None:
    """What kept it from going on is lifted, and it is known to be active again."""
    await talk("about fish", "yes")
    fish = await talk.where()
    await harness.gateway.sessions.suspend_session(
        build_session_key(Source(platform="simulated", chat_id="home", user_id="ann"))
    )
    assert (await talk("/resume")).startswith("Back in: about fish")
    assert await talk.where() == fish
    await talk("still there?", "yes")
    assert talk.shown() == ["about fish", "yes", "still there?"]


async def test_resume_accepts_part_of_a_title_or_the_id(talk: Talk) -> None:
    await talk("about red fish", "yes")
    fish = await talk.where()
    await talk("/new")
    await talk("about red birds", "yes")
    several = await talk("/resume RED")
    assert several.splitlines()[0].startswith("Which one?")
    assert [line[:2] for line in several.splitlines()[1:]] == ["1.", "2."]
    assert "None of your conversations" in await talk("/resume whales")
    assert "None of your conversations" in await talk("/resume 99999999999999999999")
    assert (await talk("/resume fish")).startswith("Back in: about red fish")
    assert "already" in await talk(f"/resume {fish}")


async def test_users_cannot_reach_the_conversations_of_others(
    talk: Talk, harness: GatewayHarness
) -> None:
    """Neither by number, by title nor by id."""
    await talk("my secret", "yes", user="ann")
    anns = await talk.where()
    await talk("hello", "yes", user="bob", chat="bobs")
    listed = await talk("/sessions", user="bob", chat="bobs")
    assert "secret" not in listed
    for way in ("2", "my secret", str(anns)):
        told = await talk(f"/resume {way}", user="bob", chat="bobs")
        assert "None of your conversations" in told
    assert await talk.where() == anns


async def test_a_group_lists_only_its_own_conversations(talk: Talk) -> None:
    """A person's private titles are not for the group, but they may take the group's home."""
    await talk("my secret", "yes", user="ann")
    secret = await talk.where()
    await talk("for the team", "yes", user="ann", **GROUP)
    team = await talk.where(**GROUP)
    listed = await talk("/sessions", user="ann", **GROUP)
    assert ("secret" in listed, "for the team" in listed) == (False, True)
    assert "None of your" in await talk(f"/resume {secret}", user="ann", **GROUP)
    assert (await talk("/resume for the team", user="ann")).startswith("Back in")
    assert await talk.where() == team


async def test_users_of_a_thread_share_its_conversations(talk: Talk) -> None:
    await talk("one", "yes", user="ann", **THREAD)
    first = await talk.where(**THREAD)
    await talk("/new", user="ann", **THREAD)
    await talk("two", "yes", user="bob", **THREAD)
    assert "one" in await talk("/sessions", user="bob", **THREAD)
    await talk("/resume one", user="bob", **THREAD)
    assert await talk.where(**THREAD) == first
    assert "one" not in await talk("/sessions", user="ann")


async def test_a_title_is_shown_and_changed(talk: Talk, harness: GatewayHarness) -> None:
    assert "Nothing has been said" in await talk("/title Fish")
    await talk("about fish", "yes")
    assert await talk("/title") == "This conversation is called: about fish"
    await talk("/title  On\x1b fish\n and chips ")
    assert await talk("/title") == "This conversation is called: On fish and chips"


async def test_a_title_may_be_changed_while_the_agent_works(harness: GatewayHarness) -> None:
    harness.say("about fish")
    await harness.model.wait_for_request(1)
    harness.say("/title Fish")
    assert (await harness.texts(1))[-1] == "This conversation is now called: Fish"
    harness.model.say("yes")
    await harness.sent(2)
    (row,) = await harness.store.sessions(limit=2)
    assert row.title == "Fish"


async def test_a_fork_is_independent_of_its_original(talk: Talk, harness: GatewayHarness) -> None:
    """The same past and the same frozen prompt (A4); from then on neither knows of the other."""
    await talk("about fish", "yes")
    fish = await talk.where()
    await talk("/model clever")
    assert (await talk("/fork Sharks")).startswith("You are now in a copy: Sharks")
    copy = await talk.where()
    assert copy is not None
    assert copy != fish
    await talk("and sharks?", "too")
    assert talk.shown() == ["about fish", "yes", "and sharks?"]
    assert harness.model.requests[0].system == harness.model.requests[-1].system
    row = await harness.store.session(copy)
    assert row is not None
    assert (row.title, row.model_override, row.previous) == ("Sharks", "clever", fish)
    await talk("/resume")
    assert await talk.where() == fish
    await talk("where was I?", "at fish")
    assert talk.shown() == ["about fish", "yes", "where was I?"]


async def test_deleting_a_fork_leaves_the_original_intact(
    talk: Talk, harness: GatewayHarness
) -> None:
    await talk("about fish", "yes")
    fish = await talk.where()
    await talk("/fork")
    copy = await talk.where()
    assert fish is not None
    assert copy is not None
    await harness.store.delete_session(copy, inbox_ids=await harness.store.session_inbox_ids(copy))
    assert [m.text for m in await harness.transcript(fish)] == ["about fish", "yes"]
    assert (await harness.store.last_turn(fish)) is not None


async def test_undo_removes_the_last_exchange(
    talk: Talk, harness: GatewayHarness, call: Call
) -> None:
    """What the model is shown is what stands; the log keeps what was said."""
    await talk("one", "uno")
    harness.model.say([call("safe")])
    await talk("two", "dos")
    assert "“two”" in await talk("/undo")
    await talk("three", "tres")
    assert talk.shown() == ["one", "uno", "three"]
    assert projection_problems(harness.model.requests[-1].messages) == []
    session = await talk.where()
    assert session is not None
    texts = [record.message.text for record in await harness.store.records(session, limit=99)]
    assert ("two" in texts, "dos" in texts) == (True, True)


async def test_an_undo_survives_a_restart(talk: Talk, harness: GatewayHarness) -> None:
    """A4, law 2: the same id, the same prompt, and the conversation as it stands."""
    await talk("one", "uno")
    await talk("two", "dos")
    session = await talk.where()
    await talk("/undo")
    await harness.die()
    await harness.start()
    await talk("three", "tres")
    assert talk.shown() == ["one", "uno", "three"]
    assert await talk.where() == session
    assert harness.model.requests[0].system == harness.model.requests[-1].system


async def test_undo_removes_several_exchanges_and_can_be_repeated(talk: Talk) -> None:
    for text in ("one", "two", "three"):
        await talk(text, f"to {text}")
    await talk("/undo 2")
    await talk("four", "to four")
    assert talk.shown() == ["one", "to one", "four"]
    await talk("/undo 99")
    assert "nothing to take back" in await talk("/undo")
    await talk("five", "to five")
    assert talk.shown() == ["five"]


@pytest.mark.parametrize("odd", ["0", "-1", "x", "²", "1.5"])
async def test_undo_with_an_invalid_number_changes_nothing(talk: Talk, odd: str) -> None:
    await talk("one", "uno")
    assert "Usage: /undo [N]" in await talk(f"/undo {odd}")
    await talk("two", "dos")
    assert talk.shown() == ["one", "uno", "two"]


async def test_a_fork_omits_undone_messages(talk: Talk) -> None:
    await talk("one", "uno")
    await talk("two", "dos")
    await talk("/undo")
    await talk("/fork")
    await talk("three", "tres")
    assert talk.shown() == ["one", "uno", "three"]


async def test_retry_answers_the_last_message_again(talk: Talk, harness: GatewayHarness) -> None:
    await talk("one", "uno")
    await talk("two", "dos")
    assert await talk("/retry", "zwei") == "zwei"
    assert talk.shown() == ["one", "uno", "two"]
    await talk("three", "tres")
    assert talk.shown() == ["one", "uno", "two", "zwei", "three"]
    assert await harness.ledger() == {"answered": 4, "merged": 1}


async def test_retry_repeats_a_failed_message(talk: Talk, harness: GatewayHarness) -> None:
    harness.model.say(ModelFailed("down", fault=ModelFault.AUTH))
    assert "could not be answered" in await talk("one")
    assert await talk("/retry", "uno") == "uno"
    assert talk.shown() == ["one"]


async def test_an_api_client_that_retries_gets_the_reply(harness: GatewayHarness) -> None:
    """Whoever watches the command hears the end of what it was merged into."""
    harness.model.say("one", "two")
    await harness.end_of(await harness.accept("hi"))
    accepted = await harness.accept("/retry")
    assert (await harness.end_of(accepted)).text == "two"
    assert [
        answer.text for answer in await harness.store.deliveries_for_message(accepted.row.id)
    ] == ["two"]


async def test_a_retry_interrupted_by_a_crash_happens_once(
    talk: Talk, harness: GatewayHarness
) -> None:
    """G5: the exchange is taken back and its message handed in by one commit."""
    await talk("one", "uno")
    await talk("two", "dos")
    harness.say("/retry")
    await harness.model.wait_for_request(3)
    await harness.die()
    harness.model.say("zwei")
    await harness.start()
    await harness.sent(3)
    await talk.harness.model.wait_for_request(4)
    assert [text for text in talk.shown() if not text.startswith("[System")] == [
        "one",
        "uno",
        "two",
    ]


async def test_users_cannot_retry_the_message_of_another(talk: Talk) -> None:
    await talk("mine", "yes", user="ann", user_name="Ann", **THREAD)
    told = await talk("/retry", user="bob", user_name="Bob", **THREAD)
    assert "somebody else's" in told
    assert await talk("/retry", "again", user="ann", user_name="Ann", **THREAD) == "again"


@pytest.mark.parametrize("command", ["/undo", "/retry", "/fork", "/resume"])
async def test_history_commands_are_refused_mid_turn(harness: GatewayHarness, command: str) -> None:
    harness.say("work")
    await harness.model.wait_for_request(1)
    harness.say(command)
    assert BUSY in (await harness.texts(1))[-1]
    harness.model.say("done")
    assert (await harness.texts(2))[-1] == "done"
    assert len(await harness.store.sessions(limit=9)) == 1


@pytest.mark.parametrize("command", ["/undo", "/retry", "/fork"])
async def test_history_commands_need_a_history(talk: Talk, command: str) -> None:
    assert "Nothing has been said" in await talk(command)


async def test_a_message_right_after_a_command_goes_to_its_session(
    talk: Talk, harness: GatewayHarness
) -> None:
    """Said in one breath: the route is where it was pointed before the next message is placed."""
    await talk("about fish", "yes")
    await talk("/new")
    await talk("about birds", "yes")
    harness.model.say("sharks")
    harness.say("/resume fish")
    harness.say("and sharks?")
    await harness.texts(talk.said + 2)
    assert talk.shown() == ["about fish", "yes", "and sharks?"]
    talk.said += 2
    harness.model.say("whales")
    harness.say("/fork")
    harness.say("and whales?")
    await harness.texts(talk.said + 2)
    assert talk.shown() == ["about fish", "yes", "and sharks?", "sharks", "and whales?"]
    assert len(await harness.store.sessions(limit=9)) == 3


async def test_an_undo_right_after_the_reply_removes_that_reply(
    talk: Talk, harness: GatewayHarness, until: Until
) -> None:
    """The answer is told before its lane has gone: the command waits for it, and what is said
    behind the command waits for the command."""
    harness.model.say("uno", "dos")
    harness.say("one")
    await harness.sent(1)
    harness.say("/undo")
    harness.say("two")
    await harness.sent(3)
    assert talk.shown() == ["two"]


async def test_tokens_are_counted_by_turn_conversation_and_person(
    talk: Talk, harness: GatewayHarness
) -> None:
    assert await talk("/usage") == "All your conversations: 0 tokens in, 0 out"
    await talk("one", "uno")
    await talk("two", "dos")
    await talk("/new")
    await talk("three", "tres")
    assert (await talk("/usage")).splitlines() == [
        "The last turn: 10 tokens in (2 of them cached), 5 out",
        "This conversation: 10 tokens in (2 of them cached), 5 out",
        "All your conversations: 30 tokens in (6 of them cached), 15 out",
    ]
    assert "All your conversations: 0" in await talk("/usage", user="bob", chat="bobs")


async def test_tokens_are_counted_while_the_agent_works(
    harness: GatewayHarness, call: Call
) -> None:
    calls: list[ToolCall] = [call("safe")]
    harness.model.say(calls)
    harness.say("work")
    await harness.model.wait_for_request(2)
    harness.say("/usage")
    told = (await harness.texts(1))[-1].splitlines()
    assert told[0] == "This turn, so far: 10 tokens in (2 of them cached), 5 out"
    assert told[1] == "This conversation: 10 tokens in (2 of them cached), 5 out"
    harness.model.say("done")
    await harness.sent(2)


async def test_undone_messages_are_marked_in_the_history(
    talk: Talk, harness: GatewayHarness
) -> None:
    await talk("one", "uno")
    await talk("two", "dos")
    await talk("/undo")
    session = await talk.where()
    assert session is not None
    records = await harness.store.records(session, limit=9)
    assert [(r.message.text, r.undone) for r in records] == [
        ("one", False),
        ("uno", False),
        ("two", True),
        ("dos", True),
    ]


async def test_an_undone_summary_no_longer_hides_messages(
    talk: Talk, harness: GatewayHarness
) -> None:
    """Law 2: what it stood for is shown again; and one that stands goes on standing for it."""
    await talk("one", "uno")
    await talk("two", "dos")
    session = await talk.where()
    assert session is not None
    await summarise(harness, session, covers=2)
    await talk("three", "tres")
    assert [text.splitlines()[-1] for text in talk.shown()] == ["sum", "two", "dos", "three"]
    await talk("/undo")
    await talk("four", "cuatro")
    assert [text.splitlines()[-1] for text in talk.shown()] == ["sum", "two", "dos", "four"]
    await talk("/fork")
    await talk("five", "cinco")
    assert [text.splitlines()[-1] for text in talk.shown()][:3] == ["sum", "two", "dos"]
    await talk("/undo 3")
    await talk("six", "seis")
    assert talk.shown() == ["one", "uno", "six"]


async def test_a_summary_of_undone_messages_is_refused(talk: Talk, harness: GatewayHarness) -> None:
    """It would hide what is said next."""
    await talk("one", "uno")
    await talk("two", "dos")
    session = await talk.where()
    assert session is not None
    await talk("/undo")
    with pytest.raises(StoreError, match="messages any more to summarise"):
        await summarise(harness, session, covers=3)
    await summarise(harness, session, covers=2)


async def summarise(harness: GatewayHarness, session_id: SessionId, *, covers: int) -> None:
    record = CompactionMessage(text="sum", covers=covers)
    await harness.store.apply_command(
        CommandEffect(inbox_ends=(), session_id=session_id, compaction=record, at=1.0)
    )
    harness.gateway.services.cache.drop(session_id)


async def test_a_resumed_session_belongs_to_the_chat_that_resumed_it(
    talk: Talk, harness: GatewayHarness
) -> None:
    """So that a page, which knows a conversation by its chat, can speak to it."""
    await talk("about fish", "yes", chat="one")
    fish = await talk.where(chat="one")
    await talk("/new", chat="one")
    await talk("/resume fish", chat="two")
    assert fish is not None
    row = await harness.store.session(fish)
    assert row is not None
    assert (row.current, row.route.split(":")[3]) == (True, "two")
    assert await talk.where(chat="two") == fish


@pytest.mark.parametrize("undo", [False, True])
async def test_a_lane_that_was_only_paused_does_not_keep_a_route(
    harness: GatewayHarness, until: Until, undo: bool
) -> None:
    """G4: a command in the session that /new is about to begin leaves the route to the log."""
    lanes, route = harness.gateway.lanes, SessionKey("simulated:default:dm:home:")
    settled = lanes.point_route(route, SessionId("s_fresh"))
    barrier = lanes.pause_lane(SessionId("s_fresh"))
    assert barrier is not None
    await barrier.wait_until_paused()
    settled(undo=undo)
    barrier.release()
    await until(lambda: len(lanes) == 0)
    assert lanes.session_of(route) is None


async def test_a_route_is_not_restored_to_a_removed_lane(harness: GatewayHarness) -> None:
    """G4: where a /new could not be kept, and the turn before it has ended, the log knows."""
    lanes, route = harness.gateway.lanes, SessionKey("simulated:default:dm:home:")
    lanes.point_route(route, SessionId("s_gone"))
    lanes.point_route(route, SessionId("s_fresh"))(undo=True)
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
    await harness.store.apply_command(left)
    await harness.die()
    harness.model.say("two")
    await harness.start()
    harness.say("again")
    assert await harness.texts(1) == ["two"]
    assert (await harness.store.route(route)) == fresh
    assert [message.text for message in await harness.transcript(fresh)] == ["again", "two"]
    await until(lambda: len(harness.gateway.lanes) == 0)
    assert await harness.ledger() == {"superseded": 1, "answered": 1}
