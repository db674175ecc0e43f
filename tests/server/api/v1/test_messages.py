"""Messages over `/api/v1`: accepted once, with attachments, by sessions that can receive them."""

import asyncio
import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_process import SpawnedGateway
from tests.support.held_command import HELD_CALL, release
from tests.support.v1_client import V1

PNG = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
).decode()


def text_file(name: str, text: str) -> dict[str, str]:
    return {"name": name, "data": base64.b64encode(text.encode()).decode()}


async def test_a_message_sent_again_is_the_same_message(v1: V1) -> None:
    session, other = await v1.open(), await v1.open()
    body = {"text": "once", "message_id": "same"}
    async with v1.http.post(f"/api/v1/sessions/{session}/messages", json=body) as response:
        assert response.status == 202
        first = await response.json()
    async with v1.http.post(f"/api/v1/sessions/{session}/messages", json=body) as response:
        assert response.status == 200
        second = await response.json()
    assert second["id"] == first["id"] and second["duplicate"]
    status, error = await v1.refused(
        "POST", f"/sessions/{session}/messages", json={**body, "text": "other"}
    )
    assert (status, error["code"]) == (409, "message_id_reused")
    assert await v1.say(other, "once", "same") != first["id"]
    await v1.end(first["id"])
    assert len((await v1.get(f"/sessions/{session}/transcript"))["records"]) == 2


async def test_a_message_can_be_waited_for(v1: V1) -> None:
    session = await v1.open()
    message = await v1.say(session, f"{HELD_CALL} [then] [text hello there]")
    assert (await v1.get(f"/messages/{message}"))["state"] in ("queued", "running")
    assert (await v1.get(f"/messages/{message}", wait=0.05))["text"] == ""
    release(v1.gateway.paths, session)
    ended = await v1.end(message)
    assert ended["state"] == "answered" and "hello there" in ended["text"]
    assert ended["session_id"] == session and ended["usage"]["output_tokens"] > 0
    assert await v1.get(f"/messages/{message}") == ended
    assert (await v1.refused("GET", "/messages/999999"))[0] == 404
    assert (await v1.refused("GET", "/messages/x"))[0] == 404


async def test_a_command_answers_without_a_record(v1: V1) -> None:
    session = await v1.open()
    ended = await v1.end(await v1.say(session, "/help"))
    assert "/stop" in ended["text"] and ended["session_id"] == session
    assert (await v1.get(f"/sessions/{session}"))["records"] == []


async def test_stop_ends_the_turn_for_good_and_drops_waiting_messages(v1: V1) -> None:
    session = await v1.open()
    assert await v1.ask("POST", f"/sessions/{session}/stop") == {"stopped": False}
    running = await v1.say(session, "[first 60] never")
    await _until_running(v1, session)  # sent earlier, the next message would join the same turn
    waiting = await v1.say(session, "behind it", "m2", mode="queue")
    assert await v1.ask("POST", f"/sessions/{session}/stop") == {"stopped": True}
    for message in (running, waiting):
        assert (await v1.get(f"/messages/{message}"))["state"] == "superseded"
    assert (await v1.end(await v1.say(session, "still there?", "m3")))["state"] == "answered"


@pytest.mark.parametrize(
    ("mode", "first"), [("interrupt", "merged"), ("queue", "answered"), ("steer", "answered")]
)
async def test_a_busy_session_obeys_the_mode_of_the_message(v1: V1, mode: str, first: str) -> None:
    session = await v1.open()
    one = await v1.say(session, f"{HELD_CALL} [then] [text one]")
    await _until_running(v1, session)
    two = await v1.say(session, "two", "m2", mode=mode)
    live = (await v1.get(f"/sessions/{session}"))["live"]
    if mode != "interrupt":
        assert [queued["id"] for queued in live["queued"]] == [two]
        release(v1.gateway.paths, session)
    assert (await v1.end(two))["state"] == ("merged" if mode == "steer" else "answered")
    assert (await v1.end(one))["state"] == first


async def test_a_session_of_another_platform_or_one_that_is_over_accepts_no_message(
    v1: V1, shared_gateway: SpawnedGateway
) -> None:
    session = await v1.open("going on")
    await v1.end(await v1.say(session, "hello"))
    await v1.end(await v1.say(session, "/new", "m2"))
    status, error = await v1.refused(
        "POST", f"/sessions/{session}/messages", json={"text": "hi", "message_id": "m3"}
    )
    assert (status, error["code"]) == (409, "not_current")
    view = (await v1.get(f"/sessions/{session}"))["session"]
    assert not view["current"] and view["ended_at"]
    assert await v1.open("going on") not in (session, None)


async def test_a_session_of_the_api_can_be_continued(
    v1: V1, shared_gateway: SpawnedGateway
) -> None:
    with shared_gateway.client() as client:
        client.chat.completions.create(
            model="holdfast",
            messages=[{"role": "user", "content": "begun by a program"}],
            extra_headers={"X-Holdfast-Session": "from v1"},
        )
    listed = await v1.get("/sessions", q="begun by a program", platform="api")
    session = listed["sessions"][0]["id"]
    assert (await v1.end(await v1.say(session, "gone on with")))["state"] == "answered"
    records = (await v1.get(f"/sessions/{session}/transcript"))["records"]
    assert [r["message"]["type"] for r in records] == ["user", "assistant"] * 2


async def test_attachments_are_in_the_workspace_and_pictures_reach_the_model(
    v1: V1, shared_gateway: SpawnedGateway
) -> None:
    session = await v1.open()
    files = [
        text_file("../../etc/pass wd.txt", "harmless"),
        {"name": "C:\\pictures\\dot.png", "media_type": "image/png", "data": PNG},
        text_file("fake.png", "no picture"),
    ]
    command = '[tool terminal {"command": "cat uploads/pass*; id -u; stat -c %u uploads/*"}]'
    message = await v1.say(session, f"look at these {command}", attachments=files)
    ended = await v1.end(message)
    assert "harmless" in ended["text"]
    first = (await v1.get(f"/sessions/{session}/transcript"))["records"][0]["message"]
    assert "uploads/pass wd.txt, uploads/dot.png, uploads/fake.png" in first["text"]
    assert [image["media_type"] for image in first["images"]] == ["image/png"]
    assert (
        '<external source="attached file uploads/pass wd.txt">\nharmless\n</external>'
    ) in first["documents"]
    listed = await v1.get(f"/sessions/{session}/files")
    assert [f["path"] for f in listed if f["path"].startswith("uploads/")] == [
        "uploads/dot.png",
        "uploads/fake.png",
        "uploads/pass wd.txt",
    ]
    output = (await v1.get(f"/sessions/{session}/transcript"))["records"][2]["message"]["text"]
    assert len(set(output.split()[1:5])) == 1, "the files belong to the user of the commands"
    # Sent again it is the same message, and no second file.
    again = await v1.say(session, f"look at these {command}", attachments=files)
    assert again == message
    assert len(await v1.get(f"/sessions/{session}/files", path="uploads")) == 3


async def test_another_file_of_the_same_name_gets_a_name_of_its_own(v1: V1) -> None:
    session = await v1.open()
    for number, text in enumerate(("one", "two", "three")):
        files = [text_file("notes.txt", text)]
        await v1.end(await v1.say(session, "", f"m{number}", attachments=files))
    paths = [f["path"] for f in await v1.get(f"/sessions/{session}/files")]
    assert paths == ["uploads/notes-2.txt", "uploads/notes-3.txt", "uploads/notes.txt"]


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"text": "  "}, 400, "text"),
        ({"text": "x", "mode": "shout"}, 400, "mode"),
        ({"text": "x", "attachments": [{"name": "a", "data": "!!"}]}, 400, "attachments[0].data"),
        ({"text": "x", "message_id": ""}, 400, "message_id"),
        ({"message_id": "x"}, 400, None),
        (
            {"text": "x", "attachments": [{"name": "a", "data": "AAAA" * 7_100_000}] * 1},
            413,
            "attachments",
        ),
        (
            {"text": "x", "attachments": [{"name": "a", "data": "AAAA" * 8_500_000}] * 2},
            413,
            None,
        ),
    ],
)
async def test_an_invalid_message_is_refused_and_nothing_is_stored(
    v1: V1, body: dict[str, Any], status: int, param: str | None
) -> None:
    session = await v1.open()
    given = {"message_id": "m1", **body}
    data = io.BytesIO(json.dumps(given).encode())
    answered, error = await v1.refused("POST", f"/sessions/{session}/messages", data=data)
    assert (answered, error["param"]) == (status, param)
    assert (await v1.get(f"/sessions/{session}/files")) == []


@pytest.mark.parametrize("name", ["uploads", "uploads/trap.txt"])
async def test_no_symlink_leads_an_upload_or_a_download_outside_the_workspace(
    v1: V1, shared_gateway: SpawnedGateway, tmp_path: Path, name: str
) -> None:
    session = await v1.open()
    await v1.end(await v1.say(session, '[tool terminal {"command": "mkdir -p sub"}]'))
    workspace = shared_gateway.paths.workspaces / session
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    if name == "uploads":
        (workspace / name).symlink_to(outside)
    else:
        (workspace / "uploads").mkdir()
        (workspace / name).symlink_to(outside / "made.txt")
    (workspace / "sub" / "file").symlink_to(outside / "secret.txt")
    (workspace / "sub" / "folder").symlink_to(outside)
    body = {"text": "x", "message_id": "m2", "attachments": [text_file("trap.txt", "caught")]}
    async with v1.http.post(f"/api/v1/sessions/{session}/messages", json=body) as response:
        assert response.status == (409 if name == "uploads" else 202)
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    paths = ("sub/file", "sub/folder/secret.txt", "../../secrets/api_token", "/etc/passwd", "..")
    for path in paths:
        got, error = await v1.refused("GET", f"/sessions/{session}/files", params={"path": path})
        assert got == 404 and "secret" not in error["message"].replace(path, "")
    assert "sub/file" not in [f["path"] for f in await v1.get(f"/sessions/{session}/files")]


async def test_a_file_is_downloaded_and_never_opened_as_a_page(
    v1: V1, shared_gateway: SpawnedGateway
) -> None:
    session = await v1.open()
    page = "<script>alert(1)</script>"
    files = [text_file("evil.html", page), {"name": "dot.png", "data": PNG}]
    await v1.end(await v1.say(session, "here", attachments=files))
    for path, kind in (("evil.html", "text/plain"), ("dot.png", "image/png")):
        query = {"path": f"uploads/{path}"}
        async with v1.http.get(f"/api/v1/sessions/{session}/files", params=query) as response:
            assert response.content_type == kind
            assert response.headers["Content-Disposition"].startswith("attachment;")
            assert "sandbox" in response.headers["Content-Security-Policy"]
            body = await response.read()
    assert body == base64.b64decode(PNG)


async def test_processes_are_listed_read_and_ended(v1: V1) -> None:
    session = await v1.open()
    assert await v1.get(f"/sessions/{session}/processes") == []
    start = '[tool process {"action": "start", "command": "echo begun; sleep 600"}]'
    await v1.end(await v1.say(session, start))
    (process,) = await v1.get(f"/sessions/{session}/processes")
    assert process["running"] and process["exit_code"] is None
    path = f"/sessions/{session}/processes/{process['id']}"
    async with asyncio.timeout(10):
        while "begun" not in (await v1.get(path))["output"]:
            await asyncio.sleep(0.05)
    ended = await v1.ask("DELETE", path)
    assert not ended["running"] and ended["ended_at"]
    assert await v1.ask("DELETE", path) == {**ended, "output": ""}
    assert (await v1.refused("GET", f"/sessions/{session}/processes/p99"))[0] == 404


async def _until_running(v1: V1, session: str) -> None:
    async with v1.events(f"/sessions/{session}/events") as events:
        async for event in events:
            if event.name == "live" and event.data is not None:
                return
