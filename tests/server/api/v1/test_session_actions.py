"""Actions on a session over `/api/v1`: each acts like its command in the chat."""

from tests.server.api.v1_helpers import wait_for_first_record
from tests.support.held_command import HELD_CALL, release
from tests.support.v1_client import V1


async def test_a_reset_replaces_the_session_with_a_fresh_one(v1: V1) -> None:
    session = await v1.open("to be reset")
    running = await v1.say(session, "[first 60] never")
    await wait_for_first_record(v1, session)
    fresh = await v1.ask("POST", f"/sessions/{session}/reset")
    assert fresh["id"] != session and fresh["current"] and fresh["chat"] == "to be reset"
    assert (await v1.end(running))["state"] == "superseded"
    old = (await v1.get(f"/sessions/{session}"))["session"]
    assert not old["current"] and old["ended_at"]
    status, error = await v1.refused("POST", f"/sessions/{session}/reset")
    assert (status, error["code"]) == (409, "not_current")
    assert "/resume" in error["message"]


async def test_a_session_that_was_left_or_suspended_is_resumed(v1: V1) -> None:
    session = await v1.open("left and found")
    await v1.end(await v1.say(session, "[text first]"))
    status, error = await v1.refused("POST", f"/sessions/{session}/resume")
    assert (status, error["code"]) == (409, "current")
    suspended = await v1.ask("POST", f"/sessions/{session}/suspend")
    assert suspended["suspended"] and not suspended["current"]
    status, error = await v1.refused("POST", f"/sessions/{session}/suspend")
    assert (status, error["code"]) == (409, "suspended")
    resumed = await v1.ask("POST", f"/sessions/{session}/resume")
    assert (resumed["id"], resumed["current"], resumed["suspended"]) == (session, True, False)
    assert (await v1.end(await v1.say(session, "[text again]", "m2")))["text"] == "again"


async def test_a_fork_is_a_copy_that_the_chat_continues_in(v1: V1) -> None:
    session = await v1.open()
    status, error = await v1.refused("POST", f"/sessions/{session}/fork", json={})
    assert (status, error["code"]) == (409, "not_done")
    assert "This conversation has no messages yet" in error["message"]
    await v1.end(await v1.say(session, "[text first]"))
    copy = await v1.ask("POST", f"/sessions/{session}/fork", json={"title": "another  way"})
    assert (copy["title"], copy["current"], copy["messages"]) == ("another way", True, 2)
    assert (await v1.get(f"/sessions/{session}"))["session"]["messages"] == 2


async def test_only_a_running_turn_can_be_steered(v1: V1) -> None:
    session = await v1.open()
    word = {"text": "[text to the left]", "message_id": "s1"}
    status, error = await v1.refused("POST", f"/sessions/{session}/steer", json=word)
    assert (status, error["code"]) == (409, "idle")
    running = await v1.say(session, f"{HELD_CALL} [then] [text straight on]")
    await wait_for_first_record(v1, session)
    steered = await v1.ask("POST", f"/sessions/{session}/steer", json=word)
    release(v1.gateway.paths, session)
    assert (await v1.end(running))["state"] == "answered"
    assert (await v1.get(f"/messages/{steered['id']}"))["state"] == "merged"
