"""Outbox, inbox, and the processes of all sessions over `/api/v1`."""

from tests.server.api.v1_helpers import wait_for_first_record
from tests.support.v1_client import V1


async def test_a_sent_delivery_is_listed_and_not_sent_again(v1: V1) -> None:
    session = await v1.open()
    await v1.end(await v1.say(session, "[text an answer]"))
    await v1.end(await v1.say(session, "[text another]", "m2"))
    listed = (await v1.get("/outbox", state="sent", limit=200))["deliveries"]
    newest, older = [each for each in listed if each["session_id"] == session]
    assert (newest["text"], older["text"]) == ("another", "an answer")
    assert newest["updated_at"] >= newest["created_at"] > older["created_at"]
    paged = await v1.get("/outbox", state="sent", before=newest["seq"], limit=1)
    assert paged["more"] == (len(listed) > 2) and paged["deliveries"][0]["seq"] < newest["seq"]
    status, error = await v1.refused("POST", f"/deliveries/{newest['id']}/retry")
    assert (status, error["code"]) == (409, "not_sent")
    assert "there is a receipt" in error["message"]
    assert (await v1.refused("POST", "/deliveries/dlv_none/retry"))[0] == 404
    status, error = await v1.refused("GET", "/outbox", params={"state": "lost"})
    assert (status, error["param"]) == (400, "state")


async def test_the_inbox_lists_open_and_ended_messages_by_state(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, "[first 60] never")
    await wait_for_first_record(v1, session)
    (line,) = [each for each in (await v1.get("/inbox"))["messages"] if each["id"] == message]
    assert (line["state"], line["session_id"]) == ("running", session)
    assert (line["text"], line["platform"]) == ("[first 60] never", "web")
    await v1.ask("POST", f"/sessions/{session}/stop")
    ended = (await v1.get("/inbox", state="superseded", limit=1))["messages"]
    assert [each["id"] for each in ended] == [message]
    assert message not in [each["id"] for each in (await v1.get("/inbox"))["messages"]]


async def test_the_processes_of_all_sessions_are_listed_with_their_session(v1: V1) -> None:
    session = await v1.open()
    start = '[tool process {"action": "start", "command": "sleep 600"}]'
    await v1.end(await v1.say(session, start))
    (line,) = [each for each in await v1.get("/processes") if each["session_id"] == session]
    assert (line["command"], line["running"]) == ("sleep 600", True)
    assert "session_id" not in (await v1.get(f"/sessions/{session}/processes"))[0]
    await v1.ask("DELETE", f"/sessions/{session}/processes/{line['id']}")
    (line,) = [each for each in await v1.get("/processes") if each["session_id"] == session]
    assert not line["running"]
