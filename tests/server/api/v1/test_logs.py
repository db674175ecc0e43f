"""The log over `/api/v1`: its newest lines, paging back, and the stream of new lines."""

from typing import Any

from tests.support.v1_client import V1

READY = "Ready at"  # what every gateway logs
JOB = {"when": "every day at 9", "text": "say hello [text hello]", "to": "nowhere"}


async def run_logged_job(v1: V1) -> int:
    """Runs a job, which is logged, and returns its number."""
    job = int((await v1.ask("POST", "/jobs", json=JOB))["id"])
    await v1.ask("POST", f"/jobs/{job}/run")
    return job


async def test_the_newest_log_lines_are_listed_with_their_fields(v1: V1) -> None:
    page = await v1.get("/logs", q=READY.lower(), level="info")
    [line] = page["lines"]
    assert line["message"].startswith(READY) and line["level"] == "info"
    assert line["fields"]["action"] == "ready"
    assert page["newest"] >= line["number"] > 1_700_000_000_000 and not page["more"]
    assert (await v1.get("/logs", level="error", q=READY))["lines"] == []
    assert (await v1.get("/logs", session="s_nobody"))["lines"] == []


async def test_paging_back_returns_each_log_line_once(v1: V1) -> None:
    whole = (await v1.get("/logs"))["lines"]
    back: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": 1, "before": whole[-1]["number"] + 1}
    while True:
        page = await v1.get("/logs", **query)
        back = [*page["lines"], *back]
        if not page["more"]:
            break
        query["before"] = page["lines"][0]["number"]
    assert back == whole


async def test_the_log_stream_continues_after_the_lines_that_were_read(v1: V1) -> None:
    known = (await v1.get("/logs"))["newest"]
    job = await run_logged_job(v1)
    async with v1.events("/logs/events", params={"after": known, "q": "job_run_started"}) as events:
        async for event in events:
            assert event.name == "line" and event.id == event.data["number"] > known
            if event.data["fields"]["job"] == job:
                break
        later = await run_logged_job(v1)
        async for event in events:
            if event.data["fields"]["job"] == later:
                break
        last = event.id
    headers = {"Last-Event-ID": str(last)}
    async with v1.events("/logs/events?q=job_run_started", headers=headers) as events:
        latest = await run_logged_job(v1)
        async for event in events:
            assert event.data["fields"]["job"] == latest, "nothing is told twice"
            break
    for each in (job, later, latest):
        await v1.ask("DELETE", f"/jobs/{each}")


async def test_wrong_parameters_of_the_log_are_named(v1: V1) -> None:
    for path in ("/logs?level=loud", "/logs?limit=0", "/logs/events?after=-1"):
        assert (await v1.refused("GET", path))[0] == 400
    headers = {"Last-Event-ID": "x"}
    assert (await v1.refused("GET", "/logs/events", headers=headers))[0] == 400
