"""The configuration over `/api/v1`: concurrent changes."""

import asyncio
from typing import Any

from tests.support.v1_client import PREFIX, V1

KEYS = ("prices.grain.input", "prices.weed.input")
OUTPUTS = ("prices.grain.output", "prices.weed.output")


async def test_of_two_changes_to_the_same_version_the_second_is_refused_and_nothing_is_lost(
    v1: V1,
) -> None:
    """Neither change is half applied, and one that is made again keeps the other."""
    read = await v1.get("/config")

    async def change(number: int, revision: str) -> tuple[int, Any]:
        set_ = {KEYS[number]: 1 + number, OUTPUTS[number]: 8}
        body = {"set": set_, "revision": revision}
        async with v1.http.patch(f"{PREFIX}/config", json=body) as response:
            return response.status, await response.json()

    answers = await asyncio.gather(*(change(number, read["revision"]) for number in (0, 1)))
    assert sorted(status for status, _ in answers) == [200, 409]
    refused = 0 if answers[0][0] == 409 else 1
    error = answers[refused][1]["error"]
    assert error["code"] == "changed_meanwhile" and "Reload it" in error["message"]
    now = await v1.get("/config")
    values = {each["key"]: each["value"] for each in now["keys"]}
    assert (KEYS[1 - refused] in values, KEYS[refused] in values) == (True, False)
    status, _ = await change(refused, now["revision"])
    assert status == 200
    values = {each["key"]: each["value"] for each in (await v1.get("/config"))["keys"]}
    assert [values[key] for key in KEYS] == [1, 2]
    stale = {"to": 1, "revision": read["revision"]}
    status, error = await v1.refused("POST", "/config/rollback", json=stale)
    assert (status, error["code"]) == (409, "changed_meanwhile")
    await v1.ask("PATCH", "/config", json={"unset": ["prices.grain", "prices.weed"]})


async def test_concurrent_changes_of_different_keys_all_succeed(v1: V1) -> None:
    """A change without a version is applied after the others."""
    keys = [f"prices.m{number}" for number in range(5)]
    table = {"input": 1, "output": 2}
    done = await asyncio.gather(
        *(v1.ask("PATCH", "/config", json={"set": {key: table}}) for key in keys)
    )
    numbers = sorted(each["number"] for each in done)
    assert numbers == list(range(numbers[0], numbers[0] + len(keys)))
    listed = await v1.get("/config/history", limit=len(keys))
    assert [each["number"] for each in listed["versions"]] == numbers[::-1]
    shown = {each["key"] for each in (await v1.get("/config"))["keys"]}
    assert {f"{key}.input" for key in keys} <= shown
    await v1.ask("PATCH", "/config", json={"unset": keys})
