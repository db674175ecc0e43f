"""Search over all messages: an index beside the store, updated after the commit."""

import asyncio
from pathlib import Path

import apsw
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, Until

from holdfast.core.ids import CallId, PrincipalId, SessionId
from holdfast.core.ports.store_queries import GetInboxRow
from holdfast.core.sessions.search import SearchQuery
from holdfast.core.turns.tool import ToolContext
from holdfast.store.search import index_file
from holdfast.system.clock import SystemClock
from holdfast.tools.session_search import SessionSearchTool


async def send_message(
    harness: GatewayHarness, text: str, *, chat: str = "one", reply: str = "so it is"
) -> SessionId:
    harness.model.say(reply)
    ended = await harness.accept(text, chat=chat)
    await harness.end_of(ended)
    row = await harness.store.read(GetInboxRow(inbox_id=ended.row.id))
    assert row is not None and row.session_id is not None
    return row.session_id


async def snippets(harness: GatewayHarness, words: str, **more: object) -> list[str]:
    query = SearchQuery(words=words, **more)  # type: ignore[arg-type]
    return [each.snippet for each in await harness.store.read(query)]


async def test_a_message_is_found_at_once_in_any_case_and_form(harness: GatewayHarness) -> None:
    await send_message(harness, "Xylophönes are 100% wood, in 東京")
    for words in ("xylophone", "XYLO wood", '"100% wood"', "東京", "京", "wood -steel"):
        assert await snippets(harness, words) == ["Xylophönes are 100% wood, in 東京"], words
    for words in ("phone", '"wood 100"', "wood -xylophones", "steel", "-wood"):
        assert await snippets(harness, words) == [], words


@pytest.mark.parametrize(
    "words",
    ['"', "'", "*", "a AND", "NEAR(", "said:kelp", "{x}:y", "^", "-", "\0", "((", "a^2", "🐙"],
)
async def test_no_search_query_is_an_error(harness: GatewayHarness, words: str) -> None:
    await send_message(harness, "kelp")
    assert isinstance(await snippets(harness, words), list)
    assert isinstance(await snippets(harness, f"kelp {words}"), list)


async def test_results_are_ordered_by_rank_then_by_age(harness: GatewayHarness) -> None:
    await send_message(harness, "anchor " + "and a great many other words " * 20)
    await send_message(harness, "anchor here", chat="two")
    await send_message(harness, "anchor here", chat="three")
    hits = await harness.store.read(SearchQuery(words="anchor"))
    assert [hit.snippet[:11] for hit in hits] == ["anchor here", "anchor here", "anchor and "]
    assert hits[0].created_at > hits[1].created_at


async def test_a_search_can_be_limited_to_a_session_a_platform_and_a_time(
    harness: GatewayHarness,
) -> None:
    first = await send_message(harness, "anchor one")
    second = await send_message(harness, "anchor two", chat="two")
    late = (await harness.store.read(SearchQuery(words="two")))[0].created_at
    assert await snippets(harness, "anchor", session_id=first) == ["anchor one"]
    assert await snippets(harness, "anchor", since=late) == ["anchor two"]
    assert len(await snippets(harness, "anchor", platform="api")) == 2
    assert await snippets(harness, "anchor", platform="ap") == []
    assert second != first


async def test_tool_calls_rank_after_user_messages(harness: GatewayHarness, call: Call) -> None:
    harness.model.say([call("safe", '{"for": "barnacles"}')])
    harness.model.say("done")
    await harness.end_of(await harness.accept("look"))
    await send_message(harness, "barnacles again")
    hits = await harness.store.read(SearchQuery(words="barnacles"))
    assert [hit.role for hit in hits] == ["user", "assistant"]


async def test_an_index_that_is_missing_damaged_or_old_is_rebuilt(
    harness: GatewayHarness,
) -> None:
    """K3: search indexes are separate files and can be rebuilt."""
    await send_message(harness, "the kelp holds")
    assert await snippets(harness, "kelp")
    index = harness.path.with_name("search.db")
    for damage in (_remove, _corrupt, _set_other_version, _overwrite):
        await harness.stop()
        damage(index)
        await harness.start()
        assert await snippets(harness, "kelp") == ["the kelp holds"], damage.__name__


async def test_messages_not_indexed_before_a_crash_are_indexed_later(
    harness: GatewayHarness,
) -> None:
    await send_message(harness, "the first tide")
    assert await snippets(harness, "tide")
    index = harness.path.with_name("search.db")
    before = index.read_bytes(), index.with_name("search.db-wal").read_bytes()
    await send_message(harness, "the second tide")
    assert len(await snippets(harness, "tide")) == 2
    await harness.die()
    for suffix, content in zip(("", "-wal"), before, strict=True):
        harness.path.with_name(f"search.db{suffix}").write_bytes(content)
    await harness.start()
    assert len(await snippets(harness, "tide")) == 2


async def test_an_index_of_another_copy_of_the_store_is_compared_with_all_sessions(
    harness: GatewayHarness,
) -> None:
    """K3: the store was set back to an earlier state, and went on from there by as many changes."""
    await send_message(harness, "the first tide")
    await harness.stop()
    earlier = harness.path.read_bytes()
    await harness.start()
    await send_message(harness, "the lost tide", chat="two")
    await send_message(harness, "the lost ebb", chat="one")
    assert len(await snippets(harness, "lost")) == 2
    await harness.stop()
    harness.path.write_bytes(earlier)
    index = harness.path.with_name("search.db")
    indexed = index.read_bytes()
    index.unlink()
    await harness.start()
    await send_message(harness, "the other tide", chat="two")
    await send_message(harness, "the other ebb", chat="one")
    await harness.stop()
    index_file.delete_index_files(index)
    index.write_bytes(indexed)
    await harness.start()
    assert await snippets(harness, "lost") == []
    assert sorted(await snippets(harness, "other")) == ["the other ebb", "the other tide"]
    assert await snippets(harness, "first") == ["the first tide"]


async def test_a_message_that_was_changed_is_found_as_it_is_now(harness: GatewayHarness) -> None:
    """Nothing does that today; what will is noticed by the store itself."""
    session = await send_message(harness, "the wrong harbour")
    assert await snippets(harness, "harbour")

    def change(cursor: apsw.Cursor) -> None:
        cursor.execute(
            "UPDATE messages SET body = replace(body, 'harbour', 'channel') WHERE seq = 1"
            " AND session_id = ?",
            (session,),
        )

    await harness.store._submit(change)
    await send_message(harness, "another", chat="two")
    assert await snippets(harness, "harbour") == []
    assert await snippets(harness, "channel") == ["the wrong channel"]


async def test_deleted_messages_are_not_found(harness: GatewayHarness) -> None:
    session = await send_message(harness, "the wrong harbour")
    assert await snippets(harness, "harbour")

    def delete(cursor: apsw.Cursor) -> None:
        cursor.execute("DELETE FROM messages WHERE session_id = ?", (session,))

    await harness.store._submit(delete)
    await send_message(harness, "the right pier")
    assert await snippets(harness, "harbour") == []
    assert await snippets(harness, "pier") == ["the right pier"]


async def test_the_index_is_updated_in_the_background(
    harness: GatewayHarness, until: Until
) -> None:
    await send_message(harness, "no search yet")
    index = harness.path.with_name("search.db")

    async def indexed() -> bool:
        if not index.exists():
            return False
        db = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return bool(db.execute("SELECT count(*) FROM entries").get == 2)
        except apsw.Error:  # it is being made
            return False
        finally:
            db.close()

    await until(indexed)
    assert index.stat().st_mode & 0o777 == 0o600


async def test_a_broken_search_index_stops_nothing_else(harness: GatewayHarness) -> None:
    harness.path.with_name("search.db").mkdir()
    await send_message(harness, "still answered")
    harness.model.say("and again")
    ended = await harness.end_of(await harness.accept("/search answered"))
    assert "does not work at the moment" in ended.text
    assert (await harness.end_of(await harness.accept("more"))).text == "and again"


async def test_a_rebuild_reports_the_state_of_the_index(harness: GatewayHarness) -> None:
    await send_message(harness, "one")
    state = await harness.store.rebuild_search_index()
    assert (state.messages, state.behind) == (2, 0)
    assert state.bytes > 0


async def test_search_in_a_chat_answers_in_the_chat(harness: GatewayHarness) -> None:
    await send_message(harness, "the buoy is red")
    assert "the buoy is red" in (await harness.end_of(await harness.accept("/search buoy"))).text
    assert "Nothing found" in (await harness.end_of(await harness.accept("/search whale"))).text


async def test_users_do_not_find_the_messages_of_others(harness: GatewayHarness) -> None:
    """Default deny: a conversation is found by its users and in its own chat."""
    for number, (user, text) in enumerate([("ann", "ann's secret cove"), ("bob", "bob's cove")], 1):
        harness.model.say("noted")
        harness.say(text, chat=f"dm-{user}", user=user)
        await harness.sent(number)
    harness.say("/search cove", chat="dm-bob", user="bob")
    assert "bob's cove" in (await harness.texts(3))[2]
    assert "secret" not in (await harness.texts(3))[2]
    harness.say("/search cove", chat="another", user="bob")
    assert "bob's cove" in (await harness.texts(4))[3]
    harness.say("/search cove", chat="club", user="bob", chat_type="group")
    assert "Nothing found" in (await harness.texts(5))[4]


async def test_the_search_tool_finds_only_messages_of_its_user(harness: GatewayHarness) -> None:
    session = await send_message(harness, "the lighthouse keeper")
    harness.model.say("noted")
    harness.say("the lighthouse key", chat="dm", user="ann")
    await harness.sent(1)
    tool = SessionSearchTool(harness.store, clock=SystemClock())
    owner = PrincipalId("api:default:owner")
    context = ToolContext(
        session_id=session,
        principal=owner,
        call_id=CallId("c"),
        sandbox=None,  # type: ignore[arg-type]  # it touches none
    )
    output = await tool.run(context, {"words": "lighthouse"})
    assert "keeper" in output.text and "key " not in output.text + " "
    assert "· here · user]" in output.text
    assert "Nothing was found" in (await tool.run(context, {"words": "whale", "days": 3})).text


async def test_a_rebuild_of_the_index_delays_no_message(harness: GatewayHarness) -> None:
    """A turn is answered while the index is rebuilt."""
    for number in range(5):
        await send_message(harness, f"wave {number}", chat=str(number))
    rebuilding = asyncio.create_task(harness.store.rebuild_search_index())
    await send_message(harness, "meanwhile", chat="new")
    await rebuilding
    assert await snippets(harness, "meanwhile")


def _remove(path: Path) -> None:
    index_file.delete_index_files(path)


def _corrupt(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))


def _set_other_version(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.pragma("user_version", index_file.INDEX_VERSION + 1)
    db.close()


def _overwrite(path: Path) -> None:
    index_file.delete_index_files(path)
    path.write_text("not a database at all\n" * 500)
