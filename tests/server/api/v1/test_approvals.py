"""Approvals over HTTP: listed, shown live, answered once."""

from tests.server.api.v1_helpers import SUDO_COMMAND, pending_approval
from tests.support.v1_client import V1


async def test_an_approval_is_live_listed_and_answered_once(v1: V1) -> None:
    """J3: a second answer is refused as already decided."""
    session = await v1.open()
    message = await v1.say(session, SUDO_COMMAND)
    approval = await pending_approval(v1, session)
    assert approval["command"] == "sudo -n true; echo it ran"
    assert (approval["rule"], approval["state"]) == ("become-root", "pending")
    assert (await v1.get(f"/sessions/{session}"))["session"]["state"] == "waiting"
    (listed,) = await v1.get("/approvals", pending="true", session=session)
    assert listed == approval
    reason = listed["reason"]
    assert reason == "It would run with the rights of another user, most likely root."
    headers = {"Accept-Language": "en-XA"}
    path = f"/approvals?pending=true&session={session}"
    (translated,) = await v1.ask("GET", path, headers=headers)
    assert translated["reason"] == f"⟦{reason}⟧"
    path = f"/approvals/{approval['id']}"
    decided = await v1.ask("POST", path, json={"answer": "approve"})
    assert (decided["state"], decided["by"], decided["scope"]) == ("approved", "operator", "once")
    assert (await v1.end(message))["text"] == "that was it"
    status, error = await v1.refused("POST", path, json={"answer": "deny"})
    assert (status, error["code"]) == (409, "already_decided")
    assert "has already approved" in error["message"]
    assert await v1.get("/approvals", pending="true", session=session) == []


async def test_a_message_in_the_session_answers_its_approval(v1: V1) -> None:
    """G5: the answer has its own acknowledgement, and does not reach the agent as a message."""
    session = await v1.open()
    message = await v1.say(session, SUDO_COMMAND)
    await pending_approval(v1, session)
    ended = await v1.end(await v1.say(session, "no", "m2"))
    assert ended["text"] == "Denied: sudo -n true; echo it ran"
    assert (await v1.end(message))["text"] == "that was it"


async def test_a_standing_approval_is_listed_and_revoked(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, SUDO_COMMAND)
    approval = await pending_approval(v1, session)
    answer = {"answer": "approve", "scope": "session"}
    await v1.ask("POST", f"/approvals/{approval['id']}", json=answer)
    await v1.end(message)
    again = await v1.end(await v1.say(session, SUDO_COMMAND, "m2"))
    assert again["text"] == "that was it"
    (rule,) = [r for r in await v1.get("/approval-rules") if r["session_id"] == session]
    assert (rule["rule"], rule["scope"]) == ("become-root", "session")
    await v1.ask("DELETE", f"/approval-rules/{rule['id']}")
    status, _ = await v1.refused("DELETE", f"/approval-rules/{rule['id']}")
    assert status == 404


async def test_an_unknown_approval_is_not_found(v1: V1) -> None:
    status, error = await v1.refused("POST", "/approvals/ap_none", json={"answer": "deny"})
    assert status == 404
    assert "lists them" in error["message"]
    status, error = await v1.refused("POST", "/approvals/ap_none", json={"answer": "perhaps"})
    assert (status, error["param"]) == (400, "answer")
