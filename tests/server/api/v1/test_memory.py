"""Memory over `/api/v1`: notebooks listed, changed and turned off, and what is refused."""

from tests.support.v1_client import V1

OWNER = "person:owner"


async def test_notes_are_added_changed_listed_and_forgotten(v1: V1) -> None:
    added = await v1.ask("POST", "/memory", json={"owner": OWNER, "text": " likes\ttea "})
    assert (added["owner"], added["off"]) == (OWNER, False)
    number = added["notes"][-1]["id"]
    assert added["notes"][-1]["text"] == "likes tea"
    body = {"owner": OWNER, "text": "the server is kelp", "topic": "world", "id": number}
    changed = await v1.ask("POST", "/memory", json=body)
    assert [note["topic"] for note in changed["notes"] if note["id"] == number] == ["world"]
    listed = await v1.get("/memory")
    assert changed in listed["notebooks"] and not listed["more"]
    assert (await v1.get("/memory", owner=OWNER))["notebooks"] == [changed]
    left = await v1.ask("DELETE", "/memory", params={"owner": OWNER, "id": number})
    assert number not in [note["id"] for note in left["notes"]]
    assert (await v1.ask("DELETE", "/memory", params={"owner": OWNER}))["notes"] == []
    assert (await v1.get("/memory", owner="person:nobody"))["notebooks"][0]["notes"] == []


async def test_a_notebook_that_is_off_accepts_no_notes(v1: V1) -> None:
    owner = "person:x:default:off"
    assert (await v1.ask("PATCH", "/memory", json={"owner": owner, "off": True}))["off"]
    status, error = await v1.refused("POST", "/memory", json={"owner": owner, "text": "x"})
    assert (status, error["code"]) == (409, "off")
    assert not (await v1.ask("PATCH", "/memory", json={"owner": owner, "off": False}))["off"]


async def test_a_note_that_cannot_be_saved_is_refused_with_the_reason(v1: V1) -> None:
    for body, code in (
        ({"owner": "somebody", "text": "x"}, 400),
        ({"owner": OWNER, "text": ""}, 400),
        ({"owner": OWNER, "text": "\u200b"}, 400),
        ({"owner": OWNER, "text": "x" * 1001}, 400),
        ({"owner": OWNER, "text": "x", "id": 4711}, 404),
    ):
        status, error = await v1.refused("POST", "/memory", json=body)
        assert status == code and error["message"], body
    room = "person:x:default:full"
    for number in range(4):
        text = f"{number} " + "x" * 990
        await v1.ask("POST", "/memory", json={"owner": room, "text": text})
    status, error = await v1.refused("POST", "/memory", json={"owner": room, "text": "y" * 100})
    assert (status, error["code"]) == (409, "full") and "Remove some" in error["message"]
    status, _ = await v1.refused("DELETE", "/memory", params={"owner": room, "id": 99})
    assert status == 404


async def test_the_agent_of_the_page_knows_the_notes(v1: V1) -> None:
    """The page, the API and the shell have one owner, and so one notebook."""
    await v1.ask("POST", "/memory", json={"owner": OWNER, "text": "keeps bees"})
    session = await v1.open()
    await v1.end(await v1.say(session, "hello"))
    shown = await v1.end(await v1.say(session, "/memory", "m2"))
    assert "keeps bees" in shown["text"]
    await v1.ask("DELETE", "/memory", params={"owner": OWNER})
