"""Charts over `/api/v1`: a turn is shown in the last hour and the last day."""

import pytest
from tests.support.v1_client import V1


@pytest.mark.parametrize(("span", "per", "points"), [("hour", 60, 60), ("day", 900, 96)])
async def test_a_turn_shows_in_the_chart(v1: V1, span: str, per: int, points: int) -> None:
    before = await v1.get("/chart", span=span)
    await v1.end(await v1.say(await v1.open(), "hello [text there]"))
    after = await v1.get("/chart", span=span)
    assert (after["bucket_seconds"], len(after["points"]) <= points + 1) == (per, True)
    assert after["until"] - after["since"] <= points * per
    for name in ("accepted", "turns"):
        counted = [sum(each[name] for each in chart["points"]) for chart in (before, after)]
        assert counted[1] > counted[0], name
    last = [each for each in after["points"] if each["duration"]][
        -1
    ]  # a minute may begin meanwhile
    assert last["memory"] > 1_000_000 and last["duration"]["mean"] > 0


async def test_an_unknown_time_span_is_refused(v1: V1) -> None:
    status, error = await v1.refused("GET", "/chart?span=year")
    assert (status, error["param"]) == (400, "span")
