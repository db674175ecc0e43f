"""Turns over `/api/v1`: listed, and each with its timeline, also while it runs."""

import json

from tests.server.api.v1_helpers import SUDO_COMMAND, pending_approval, wait_for_first_record
from tests.support.v1_client import V1

TOOL = '[tool terminal {"command": "echo here"}] [then] [text done]'


async def test_a_turn_is_listed_and_has_a_timeline(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, TOOL)
    await v1.end(message)
    await v1.end(await v1.say(session, "again", "m2"))
    listed = await v1.get(f"/sessions/{session}/turns")
    newest, oldest = listed["turns"]
    assert newest["started_at"] > oldest["started_at"] and not listed["more"]
    paged = await v1.get(f"/sessions/{session}/turns", limit=1)
    assert paged == {"turns": [newest], "more": True}
    rest = await v1.get(f"/sessions/{session}/turns", before=newest["id"])
    assert rest == {"turns": [oldest], "more": False}
    assert (oldest["state"], oldest["steps"], oldest["resumed"]) == ("answered", 3, 0)
    timeline = await v1.get(f"/turns/{oldest['id']}")
    assert timeline["turn"] == oldest and not timeline["more"]
    assert (timeline["previous"], timeline["next"]) == (None, newest["id"])
    assert timeline["spans"][1]["summary"] == "echo here"
    everywhere = await v1.get("/turns", limit=1, state="answered")
    assert everywhere["more"] and everywhere["turns"][0].items() >= newest.items()
    assert everywhere["turns"][0]["platform"] == "web"
    slowest = (await v1.get("/turns", order="slowest", state="answered", limit=100))["turns"]
    took = [turn["ended_at"] - turn["started_at"] for turn in slowest]
    assert len(took) > 1 and took == sorted(took, reverse=True)
    assert [span["kind"] for span in timeline["spans"]] == ["model", "tool", "model"]
    assert (timeline["spans"][1]["name"], timeline["spans"][1]["outcome"]) == ("terminal", "ok")
    (taken,) = timeline["inputs"]
    assert taken["id"] == message and taken["accepted_at"] <= taken["taken_at"]
    (delivery,) = timeline["deliveries"]
    assert (delivery["kind"], delivery["state"]) == ("reply", "sent")
    assert delivery["text"] == "done"


async def test_a_running_turn_is_shown_up_to_now(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, "[first 60] never")
    await wait_for_first_record(v1, session)
    (turn,) = (await v1.get(f"/sessions/{session}/turns"))["turns"]
    assert not turn["waiting_for_approval"]
    (span,) = (await v1.get(f"/turns/{turn['id']}"))["spans"]
    assert (span["kind"], span["ended_at"]) == ("model", None)
    await v1.ask("POST", f"/sessions/{session}/stop")
    timeline = await v1.get(f"/turns/{turn['id']}")
    assert timeline["turn"]["state"] == "superseded"
    (cut,) = timeline["spans"]
    assert (cut["kind"], cut["outcome"]) == ("model", "cancelled")
    assert cut["ended_at"] == timeline["turn"]["ended_at"]
    assert [each["id"] for each in timeline["inputs"]] == [message]


async def test_a_wait_for_approval_is_a_span_of_its_own(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, SUDO_COMMAND)
    approval = await pending_approval(v1, session)
    (turn,) = (await v1.get(f"/sessions/{session}/turns"))["turns"]
    assert (turn["state"], turn["waiting_for_approval"]) == ("open", True)
    last = (await v1.get(f"/turns/{turn['id']}"))["spans"][-1]
    assert (last["kind"], last["approval"], last["ended_at"]) == (
        "approval",
        approval["id"],
        None,
    )
    await v1.ask("POST", f"/approvals/{approval['id']}", json={"answer": "deny"})
    await v1.end(message)
    spans = (await v1.get(f"/turns/{turn['id']}"))["spans"]
    (waited,) = [span for span in spans if span["kind"] == "approval"]
    assert (waited["decision"], waited["by"]) == ("denied", "operator")
    (refused,) = [span for span in spans if span["kind"] == "tool"]
    assert refused["outcome"] == "refused"


async def test_a_running_call_is_listed_with_its_output(v1: V1) -> None:
    session = await v1.open()
    await v1.say(session, '[tool terminal {"command": "echo begun; sleep 60"}] [then] [text done]')
    async with v1.events(f"/sessions/{session}/events") as events:
        async for event in events:
            # It is in one of the two: output from before the stream was opened is in the first.
            if event.name in ("live", "tool") and "begun\\n" in json.dumps(event.data):
                break
    running = {each["session_id"]: each for each in await v1.get("/calls")}[session]
    assert (running["name"], running["summary"]) == ("terminal", "echo begun; sleep 60")
    assert running["output"] == "begun\n" and running["started_at"] > 1e9
    opened = (await v1.get("/turns", state="open", limit=100))["turns"]
    assert (running["turn_id"], session) in [(turn["id"], turn["session_id"]) for turn in opened]
    await v1.ask("POST", f"/sessions/{session}/stop")
    assert session not in {each["session_id"] for each in await v1.get("/calls")}


async def test_an_unknown_turn_is_not_found(v1: V1) -> None:
    status, error = await v1.refused("GET", "/turns/t_none")
    assert status == 404 and "lists them" in error["message"]
