"""Sessions over `/api/v1`: opened, listed, read, searched, moved and deleted."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.server.api.v1_helpers import wait_for_first_record
from tests.support.gateway_process import SpawnedGateway
from tests.support.v1_client import V1


async def test_a_name_finds_its_session_again(v1: V1) -> None:
    async with v1.http.post("/api/v1/sessions", json={"name": "again/ä"}) as first:
        assert first.status == 201
        made = await first.json()
    async with v1.http.post("/api/v1/sessions", json={"name": "again/ä"}) as second:
        assert second.status == 200
        assert await second.json() == made
    assert (made["platform"], made["chat"], made["current"]) == ("web", "again/ä", True)
    assert await v1.open() != await v1.open()


async def test_a_session_is_titled_after_its_first_line(v1: V1) -> None:
    session = await v1.open()
    await v1.end(await v1.say(session, "  A fine   title \nand more"))
    await v1.end(await v1.say(session, "something else", "m2"))
    detail = await v1.get(f"/sessions/{session}")
    assert detail["session"]["title"] == "A fine title"
    changed = await v1.ask("PATCH", f"/sessions/{session}", json={"title": " My\town "})
    assert changed["title"] == "My own"
    await v1.end(await v1.say(session, "a third", "m3"))
    assert (await v1.get(f"/sessions/{session}"))["session"]["title"] == "My own"


async def test_sessions_are_listed_by_page_title_and_platform(
    v1: V1, shared_gateway: SpawnedGateway
) -> None:
    for number in range(3):
        session = await v1.open()
        await v1.end(await v1.say(session, f"needle%{number}_ in the hay"))
    with shared_gateway.client() as client:
        client.chat.completions.create(
            model="holdfast", messages=[{"role": "user", "content": "needle%9_ by the API"}]
        )
    listed = await v1.get("/sessions", q="NEEDLE%", limit=2)
    assert [s["title"][:8] for s in listed["sessions"]] == ["needle%9", "needle%2"]
    assert listed["more"]
    rest = await v1.get("/sessions", q="needle%", limit=2, offset=2)
    assert [s["title"][:8] for s in rest["sessions"]] == ["needle%1", "needle%0"]
    assert not rest["more"]
    web = await v1.get("/sessions", q="needle%", platform="web")
    assert {s["platform"] for s in web["sessions"]} == {"web"} and len(web["sessions"]) == 3
    assert (await v1.get("/sessions", q="needle_0"))["sessions"] == []
    assert (await v1.get("/sessions", q="needle%", platform="we"))["sessions"] == []


async def test_a_transcript_is_paged_both_ways_without_gap_or_repeat(v1: V1) -> None:
    session = await v1.open()
    for number in range(5):
        await v1.end(await v1.say(session, f"line {number}", f"m{number}"))
    path = f"/sessions/{session}/transcript"
    whole = (await v1.get(path))["records"]
    assert [record["seq"] for record in whole] == list(range(1, 11))
    forward, after = [], 0
    while page := (await v1.get(path, after=after, limit=3))["records"]:
        forward += page
        after = page[-1]["seq"]
    backward: list[dict[str, Any]] = []
    before = 99
    while page := (await v1.get(path, before=before, limit=4))["records"]:
        backward = page + backward
        before = page[0]["seq"]
    assert forward == backward == whole
    assert (await v1.get(path, after=0, limit=10))["more"] is False
    assert (await v1.get(path, after=0, limit=9))["more"] is True
    detail = await v1.get(f"/sessions/{session}", limit=4)
    assert detail["records"] == whole[-4:] and detail["more"]
    assert [turn["state"] for turn in detail["turns"]] == ["answered", "answered"]


async def test_search_finds_and_highlights_messages(v1: V1) -> None:
    session = await v1.open()
    await v1.end(await v1.say(session, "Xylophones are 100% wood"))
    await v1.end(await v1.say(session, "what is a xylophone?", "m2"))
    found = await v1.get("/search", q="XYLOPHONE")
    assert {hit["session"]["id"] for hit in found} == {session}
    assert {hit["role"] for hit in found} == {"user", "assistant"}
    for hit in found:
        assert "".join(hit["parts"]) == hit["snippet"]
        assert [piece.lower() for piece in hit["parts"][1::2]] == ["xylophone"]
    assert len(await v1.get("/search", q="100% w")) == 2
    assert len(await v1.get("/search", q="xylophone", session=session, platform="web")) == 4
    for narrower in ({"session": "s_0"}, {"platform": "api"}, {"since": 4e9}, {"q": '"wood 100'}):
        assert await v1.get("/search", **{"q": "xylophone", **narrower}) == []
    rebuilt = await v1.ask("POST", "/search/rebuild", json={})
    assert rebuilt["messages"] >= 4 and rebuilt["pending_sessions"] == 0
    assert len(await v1.get("/search", q="xylophone", session=session)) == 4


async def test_an_exported_session_is_imported_as_a_new_one(v1: V1) -> None:
    session = await v1.open()
    command = '[tool terminal {"command": "echo moved"}] [then] [text done moving]'
    await v1.end(await v1.say(session, command))
    async with v1.http.get(f"/api/v1/sessions/{session}/export") as response:
        assert response.content_type == "application/x-ndjson"
        lines = await response.read()
    head, *records = map(json.loads, lines.splitlines())
    assert head["id"] == session and [r["seq"] for r in records] == [1, 2, 3, 4]
    made = await v1.ask("POST", "/sessions/import", data=lines)
    assert made["id"] != session and made["title"] == head["title"] and made["messages"] == 4
    taken_in = (await v1.get(f"/sessions/{made['id']}/transcript"))["records"]
    assert [r["message"] for r in taken_in] == [r["message"] for r in records]
    # It continues: the model accepts a transcript that it did not write.
    ended = await v1.end(await v1.say(made["id"], "and now?"))
    assert ended["state"] == "answered", ended


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty"),
        (b"{}", "Line 1"),
        (b'{"id": "s"}\n{"seq": 1}', "Line 2"),
        (b'{"id": "s"}\n\n\nnonsense', "Line 4"),
        (b'{"id": "s"}\n\xff\xfe', "Line 2"),
    ],
)
async def test_an_invalid_import_is_refused_with_its_line(v1: V1, body: bytes, said: str) -> None:
    before = (await v1.get("/status"))["inbox_counts"]
    status, error = await v1.refused("POST", "/sessions/import", data=body)
    assert status == 400 and said in error["message"]
    assert (await v1.get("/status"))["inbox_counts"] == before


async def test_a_deleted_session_is_gone_with_all_its_data(
    v1: V1, shared_gateway: SpawnedGateway
) -> None:
    session = await v1.open("to be deleted")
    start = '[tool process {"action": "start", "command": "echo unforgettable | tee f; sleep 600"}]'
    await v1.end(await v1.say(session, f"unforgettable {start}"))
    await v1.get("/search", q="unforgettable")
    assert (shared_gateway.paths.workspaces / session).exists()
    async with v1.events("/events") as events:
        async with v1.http.delete(f"/api/v1/sessions/{session}") as response:
            assert response.status == 204
        assert [e async for e in _wait_for_event(events, "deleted")][-1].data == {"id": session}
    assert (await v1.refused("GET", f"/sessions/{session}"))[0] == 404
    assert (await v1.refused("DELETE", f"/sessions/{session}"))[0] == 404
    assert await v1.get("/search", q="unforgettable") == []
    assert not (shared_gateway.paths.workspaces / session).exists()
    labels = file_contents(shared_gateway.home.glob("runs/*/label.json"))
    assert [path for path, text in labels.items() if session.encode() in text] == []
    files = file_contents(path for path in shared_gateway.home.rglob("*") if path.is_file())
    assert [path for path, text in files.items() if b"unforgettable" in text] == []
    assert await v1.open("to be deleted") != session


def file_contents(paths: Iterable[Path]) -> dict[Path, bytes]:
    """The contents of files of a running gateway, which may delete one meanwhile."""
    found = {}
    for path in paths:
        with suppress(FileNotFoundError):
            found[path] = path.read_bytes()
    return found


async def test_deleting_stops_the_turn_and_drops_waiting_messages(v1: V1) -> None:
    session = await v1.open()
    running = await v1.say(session, "[first 60] never")
    waiting = await v1.say(session, "nor this", "m2", mode="queue")
    watching = asyncio.create_task(v1.get(f"/messages/{running}", wait=20))
    async with v1.http.delete(f"/api/v1/sessions/{session}") as response:
        assert response.status == 204
    await watching
    for message in (running, waiting):
        assert (await v1.refused("GET", f"/messages/{message}"))[0] == 404


async def test_status_and_commands_are_listed(v1: V1) -> None:
    status = await v1.get("/status")
    assert status["state"] == "running" and status["model"]["name"] == "scripted"
    assert status["model"]["provider"] == "local" and status["model"]["why"]
    assert {p["name"] for p in status["platforms"]} == {"api", "web"}
    names = [command["name"] for command in await v1.get("/commands")]
    assert names == sorted(names) and {"help", "new", "stop"} <= set(names)


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/sessions?limit=0", "limit"),
        ("/sessions?limit=1001", "limit"),
        ("/sessions?limit=many", "limit"),
        ("/sessions?offset=-1", "offset"),
        ("/search", None),
        ("/search?q=", "q"),
        ("/sessions?lim=5", None),
        ("/messages/1?wait=601", "wait"),
    ],
)
async def test_an_invalid_parameter_is_named(v1: V1, path: str, param: str | None) -> None:
    status, error = await v1.refused("GET", path)
    assert (status, error["param"]) == (400, param), error


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"name": ""}', b'{"nam": "x"}', b"\xff"])
async def test_an_invalid_body_is_refused(v1: V1, body: bytes) -> None:
    assert (await v1.refused("POST", "/sessions", data=body))[0] == 400


async def _wait_for_event(events: Any, name: str) -> Any:
    async for event in events:
        yield event
        if event.name == name:
            return


async def test_sessions_are_filtered_by_state_person_and_text(
    v1: V1,
) -> None:
    idle, running, aside, over = [await v1.open(f"stands {n}") for n in range(4)]
    for session, word in ((idle, "quince"), (aside, "medlar"), (over, "damson")):
        await v1.end(await v1.say(session, f"[text a {word} on the table]"))
    await v1.ask("POST", f"/sessions/{aside}/suspend")
    await v1.ask("POST", f"/sessions/{over}/reset")
    await v1.say(running, "[first 60] never")
    await wait_for_first_record(v1, running)
    mine = {idle, running, aside, over}

    async def found(**asked: str) -> set[str]:
        listed = await v1.get("/sessions", limit=1000, **asked)
        return {row["id"] for row in listed["sessions"]} & mine

    assert await found(state="running") == {running}
    assert await found(state="waiting") == set()
    assert await found(state="suspended") == {aside}
    assert await found(state="ended") == {over}
    assert await found(state="idle") == {idle}
    assert await found(text="medlar table") == {aside}
    assert await found(text="on the table", state="ended") == {over}
    assert await found(text="nothing of the kind") == set()
    assert await found(user="web:default:owner", state="idle") == {idle}
    assert await found(user="somebody") == set()
    await v1.ask("POST", f"/sessions/{running}/stop")
    assert (await v1.refused("GET", "/sessions", params={"state": "asleep"}))[0] == 400
