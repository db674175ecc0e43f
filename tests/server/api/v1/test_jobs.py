"""Jobs over `/api/v1`: made, listed, paused, run, stopped, removed, and what is refused."""

import asyncio
from datetime import datetime

from tests.server.api.v1_helpers import DAILY_JOB
from tests.support.v1_client import V1


async def test_a_job_is_made_read_paused_and_removed(v1: V1) -> None:
    made = await v1.ask("POST", "/jobs", json=DAILY_JOB | {"name": "greeting", "silent": True})
    assert (made["cron"], made["zone"], made["name"]) == ("0 9 * * *", "Europe/Berlin", "greeting")
    assert (made["to"], made["session"], made["silent"]) == ("nowhere", "fresh", True)
    first, second, third = made["upcoming"]
    assert {each[10:16] for each in made["upcoming"]} == {"T09:00"} and first < second < third
    assert datetime.fromisoformat(first).timestamp() == made["next_due"]
    path = f"/jobs/{made['id']}"
    assert await v1.get(path) == made
    assert made in (await v1.get("/jobs"))["jobs"]
    paused = await v1.ask("PATCH", path, json={"paused": True})
    assert paused["paused"] and paused["upcoming"] == []
    assert not (await v1.ask("PATCH", path, json={"paused": False}))["paused"]
    assert await v1.ask("DELETE", path) is None
    status, error = await v1.refused("GET", path)
    assert status == 404 and "GET /api/v1/jobs lists them" in error["message"]


async def test_a_job_is_rewritten_with_its_number_and_its_history(v1: V1) -> None:
    """Fields that are not given stay; if the schedule stays, so does the next run."""
    made = await v1.ask("POST", "/jobs", json=DAILY_JOB)
    path = f"/jobs/{made['id']}"
    other = await v1.ask("PATCH", path, json={"text": "say goodbye", "overlap": "queue"})
    assert (other["text"], other["name"], other["overlap"]) == ("say goodbye",) * 2 + ("queue",)
    untouched = ("when", "zone", "next_due", "upcoming", "to", "missed", "limit", "made_at")
    assert [other[name] for name in untouched] == [made[name] for name in untouched]
    moved = {"when": "every day at 10", "zone": "Asia/Tokyo", "name": "parting", "paused": True}
    moved = await v1.ask("PATCH", path, json=moved)
    assert (moved["cron"], moved["zone"], moved["paused"]) == ("0 10 * * *", "Asia/Tokyo", True)
    assert (moved["name"], moved["text"]) == ("parting", "say goodbye")
    assert await v1.get(path) == moved
    for change, param in (
        ({"when": "never att all"}, "when"),
        ({"zone": "Asia/Tokyo"}, "zone"),
        ({"to": "house:x"}, None),
        ({"text": "  "}, None),
    ):
        status, error = await v1.refused("PATCH", path, json=change)
        assert (status, error["param"]) == (400, param), change
    assert await v1.get(path) == moved
    await v1.ask("DELETE", path)


async def test_a_job_is_run_now_and_its_run_is_in_its_history(v1: V1) -> None:
    """J4: without a recipient, its reply is in the history."""
    made = await v1.ask("POST", "/jobs", json=DAILY_JOB)
    path = f"/jobs/{made['id']}"
    run = await v1.ask("POST", f"{path}/run")
    assert run["cause"] == "asked"
    async with asyncio.timeout(20):
        while not (runs := await v1.get(f"{path}/runs"))[0]["ended_at"]:
            await asyncio.sleep(0.02)
    assert [(one["state"], one["text"]) for one in runs] == [("answered", "hello")]
    assert (await v1.get(f"/turns/{runs[0]['turn_id']}"))["turn"]["state"] == "answered"
    session = await v1.get(f"/sessions/{runs[0]['session_id']}")
    assert session["session"]["title"] == "say hello [text hello]"
    assert not (await v1.ask("POST", f"{path}/stop"))["stopped"]
    await v1.ask("DELETE", path)


async def test_a_schedule_that_cannot_be_read_is_refused_with_the_part_that_was_understood(
    v1: V1,
) -> None:
    for change, param, message in (
        ({"when": "every weekday att 9"}, "when", "I understood “every weekday”, but not “att 9”."),
        (
            {"zone": "Mars/Base", "when": "at 9"},
            "when",
            "This machine does not know the time zone 'Mars/Base'",
        ),
        ({"to": "origin"}, None, "This request does not come from a chat"),
        ({"to": "home"}, None, "There is no home channel"),
        ({"to": "web:x"}, None, "'web:x' is not a destination"),
        ({"to": "house:x"}, None, "'house:x' is not a destination"),
        ({"text": " "}, None, "The task of the job is missing."),
        ({"overlap": "wait"}, "overlap", "overlap"),
    ):
        status, error = await v1.refused("POST", "/jobs", json=DAILY_JOB | change)
        assert (status, error["param"]) == (400, param), change
        assert error["message"].startswith(message), change
    for path in ("/jobs/x", "/jobs/4711", "/jobs/99999999999999999999"):
        assert (await v1.refused("GET", path))[0] == 404
