"""Statistics of sessions over `/api/v1`: the summary of a list, its pages, and usage of replies."""

from typing import Any

import pytest
from tests.server.api.v1_helpers import SUDO_COMMAND, pending_approval
from tests.support.v1_client import V1

from holdfast.store.sqlite.connection import open_reader

LONG_OUTPUT = """[tool terminal {"command": "seq 1 4000"}] [then] [text **counted**]"""


async def test_a_list_continues_where_it_was_though_sessions_move_meanwhile(v1: V1) -> None:
    """The cursor is a position in the list: a session that moves to the top is not missed."""
    made = [await v1.open() for _ in range(5)]
    wanted = ",".join(made)
    first = await v1.get("/sessions", ids=wanted, limit=2)
    assert [row["id"] for row in first["sessions"]] == made[:-3:-1] and first["more"]
    await v1.end(await v1.say(made[0], "[text to the top]"))
    rest = await v1.get("/sessions", ids=wanted, limit=2, after=first["next"])
    assert [row["id"] for row in rest["sessions"]] == [made[2], made[1]]
    assert (rest["more"], rest["next"]) == (False, None)
    newest = (await v1.get("/sessions", ids=wanted, limit=1))["sessions"]
    assert [row["id"] for row in newest] == made[:1]
    status, error = await v1.refused("GET", "/sessions", params={"after": "nan~s"})
    assert (status, error["param"]) == (400, "after")


async def test_a_summary_has_the_last_message_and_the_usage(v1: V1) -> None:
    """Only on request: other lists do not wait for it."""
    session = await v1.open()
    await v1.end(await v1.say(session, LONG_OUTPUT))
    (plain,) = (await v1.get("/sessions", ids=session))["sessions"]
    assert plain["summary"] is None
    (row,) = (await v1.get("/sessions", ids=session, summary="true"))["sessions"]
    summary = row.pop("summary")
    assert row.items() == {**plain, "summary": None}.items() - {("summary", None)}
    assert (summary["last_text"], summary["last_role"], summary["owner"]) == (
        "**counted**",
        "assistant",
        "web:default:owner",
    )
    assert summary["usage"]["output_tokens"] > 0
    assert (summary["cost"], summary["queued"]) == (None, 0)


async def test_a_summary_includes_the_usage_of_a_waiting_turn(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, SUDO_COMMAND)
    approval = await pending_approval(v1, session)
    (row,) = (await v1.get("/sessions", ids=session, summary="true"))["sessions"]
    (turn,) = (await v1.get(f"/sessions/{session}/turns"))["turns"]
    assert row["summary"]["usage"] == turn["usage"] and turn["usage"]["input_tokens"] > 0
    await v1.ask("POST", f"/approvals/{approval['id']}", json={"answer": "deny"})
    await v1.end(message)


async def test_tool_output_can_be_requested_truncated(v1: V1) -> None:
    session = await v1.open()
    await v1.end(await v1.say(session, LONG_OUTPUT))
    whole = (await v1.get(f"/sessions/{session}/transcript"))["records"]
    cut = (await v1.get(f"/sessions/{session}/transcript", max_tool_output=100))["records"]
    (place,) = [n for n, record in enumerate(whole) if record["message"]["type"] == "tool"]
    text = whole[place]["message"]["text"]
    assert cut[place]["message"]["text"] == text[:100]
    assert (cut[place]["full_length"], whole[place]["full_length"]) == (len(text), None)
    assert [each for n, each in enumerate(cut) if n != place] == [
        each for n, each in enumerate(whole) if n != place
    ]
    detail = await v1.get(f"/sessions/{session}", max_tool_output=100)
    assert detail["records"] == cut


async def test_usage_of_a_range_is_that_of_its_replies_and_turns(v1: V1) -> None:
    session = await v1.open()
    await v1.end(await v1.say(session, LONG_OUTPUT))
    await v1.end(await v1.say(session, "[text more]", "m2"))
    records = (await v1.get(f"/sessions/{session}/transcript"))["records"]
    replies = [each["seq"] for each in records if each["message"]["type"] == "assistant"]

    async def figures(first: int, last: int, **more: Any) -> Any:
        return await v1.get(f"/sessions/{session}/stats", first=first, last=last, **more)

    found = await figures(1, records[-1]["seq"])
    assert [each["record"] for each in found["replies"]] == replies
    for each in found["replies"]:
        assert each["began_at"] <= each["ended_at"] and each["model"] == "scripted"
        assert each["usage"]["input_tokens"] > 0 and each["cost"] is None
    called, answered = found["replies"][:2]
    printed = next(each for each in records if each["message"]["type"] == "tool")
    assert called["ended_at"] <= answered["began_at"] == printed["at"]
    one, two = found["turns"]
    assert (one["steps"], one["state"], one["resumed"]) == (3, "answered", 0)
    assert [(sent["kind"], sent["state"]) for sent in one["deliveries"]] == [("reply", "sent")]
    assert one["usage"]["input_tokens"] == sum(
        each["usage"]["input_tokens"] for each in found["replies"][:2]
    )
    last = await figures(replies[-1], replies[-1])
    assert (last["replies"], last["turns"]) == (found["replies"][-1:], [two])
    assert (await figures(replies[-1], replies[-1], turns="false"))["turns"] == []
    status, error = await v1.refused(
        "GET", f"/sessions/{session}/stats", params={"first": 1, "last": 900}
    )
    assert (status, error["param"]) == (400, "last")


async def test_the_cost_of_a_long_session_is_stored_when_it_is_asked_for(v1: V1) -> None:
    """And is the same as before, also after more turns."""
    price = {"input": 1e6, "output": 0}  # of a million tokens
    await v1.ask("PATCH", "/config", json={"set": {"prices.scripted": price}})
    session = await v1.open()
    for number in range(101):
        await v1.end(await v1.say(session, f"[text {number}]", f"m{number}"))

    async def cost_and_tokens() -> tuple[float, int]:
        (row,) = (await v1.get("/sessions", ids=session, summary="true"))["sessions"]
        return row["summary"]["cost"], row["summary"]["usage"]["input_tokens"]

    first, again = await cost_and_tokens(), await cost_and_tokens()
    assert first == again and first[0] == pytest.approx(first[1])
    db = open_reader(v1.gateway.paths.db, vfs=None)
    assert db.execute("SELECT model, through FROM model_usage").fetchall() == [("scripted", 202)]
    db.close()
    await v1.end(await v1.say(session, "[text more]", "last"))
    cost, tokens = await cost_and_tokens()
    assert tokens > first[1] and cost == pytest.approx(tokens)
    await v1.ask("PATCH", "/config", json={"unset": ["prices.scripted"]})
