"""Approvals over HTTP: listed, shown live, answered once."""

from typing import Any

from tests.support.v1_client import V1

SUDO = '[tool terminal {"command": "sudo -n true; echo it ran"}] [then] [text that was it]'


async def asked(v1: V1, session: str) -> dict[str, Any]:
    """The pending approval of a session, once the stream shows it and the turn waits for it: the
    question is there a moment before."""
    found, state = None, ""
    async with v1.events(f"/sessions/{session}/events") as events:
        async for event in events:
            if event.name == "live" and event.data and event.data["approvals"]:
                (found,) = event.data["approvals"]
            if event.name == "session":
                state = event.data["state"]
            if found is not None and state == "waiting":
                return dict(found)
    raise AssertionError("nothing was asked")


async def test_an_approval_is_live_listed_and_answered_once(v1: V1) -> None:
    """J3: a second answer is told so."""
    session = await v1.open()
    message = await v1.say(session, SUDO)
    approval = await asked(v1, session)
    assert approval["command"] == "sudo -n true; echo it ran"
    assert (approval["rule"], approval["state"]) == ("become-root", "pending")
    assert (await v1.get(f"/sessions/{session}"))["session"]["state"] == "waiting"
    (listed,) = await v1.get("/approvals", pending="true", session=session)
    assert listed == approval
    path = f"/approvals/{approval['id']}"
    decided = await v1.ask("POST", path, json={"answer": "approve"})
    assert (decided["state"], decided["by"], decided["scope"]) == ("approved", "operator", "once")
    assert (await v1.end(message))["text"] == "that was it"
    status, error = await v1.refused("POST", path, json={"answer": "deny"})
    assert (status, error["code"]) == (409, "already_decided")
    assert "approved already" in error["message"]
    assert await v1.get("/approvals", pending="true", session=session) == []


async def test_a_word_said_to_the_session_answers_it(v1: V1) -> None:
    """G5: the word ends with its own acknowledgement, and is no message to the agent."""
    session = await v1.open()
    message = await v1.say(session, SUDO)
    await asked(v1, session)
    ended = await v1.end(await v1.say(session, "no", "m2"))
    assert ended["text"] == "Denied: sudo -n true; echo it ran"
    assert (await v1.end(message))["text"] == "that was it"


async def test_a_standing_approval_is_listed_and_revoked(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, SUDO)
    approval = await asked(v1, session)
    answer = {"answer": "approve", "scope": "session"}
    await v1.ask("POST", f"/approvals/{approval['id']}", json=answer)
    await v1.end(message)
    again = await v1.end(await v1.say(session, SUDO, "m2"))
    assert again["text"] == "that was it"
    (rule,) = [r for r in await v1.get("/approval-rules") if r["session_id"] == session]
    assert (rule["rule"], rule["scope"]) == ("become-root", "session")
    await v1.ask("DELETE", f"/approval-rules/{rule['id']}")
    status, _ = await v1.refused("DELETE", f"/approval-rules/{rule['id']}")
    assert status == 404


async def test_an_approval_that_never_was_is_not_found(v1: V1) -> None:
    status, error = await v1.refused("POST", "/approvals/ap_none", json={"answer": "deny"})
    assert status == 404
    assert "lists them" in error["message"]
    status, error = await v1.refused("POST", "/approvals/ap_none", json={"answer": "perhaps"})
    assert (status, error["param"]) == (400, "answer")
