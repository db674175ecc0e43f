"""Accounts of platforms over `/api/v1`: their status, and what is refused."""

from tests.support.v1_client import V1


async def test_accounts_are_listed_and_checked(v1: V1) -> None:
    accounts = (await v1.get("/platforms"))["accounts"]
    found = {(each["name"], each["account"]): each for each in accounts}
    assert {("api", "default"), ("web", "default")} <= found.keys()
    assert "house" not in {name for name, _ in found}
    api = found["api", "default"]
    assert (api["connected"], api["built_in"], api["state"]) == (True, True, "connected")
    checked = await v1.ask("POST", "/platforms/api/default/check")
    assert checked["connected"] and checked["name"] == "api"


async def test_an_unknown_account_or_one_that_cannot_pause_is_refused(v1: V1) -> None:
    status, error = await v1.refused("POST", "/platforms/web/default/pause")
    assert (status, error["code"]) == (409, "not_pausable")
    assert "platforms.web.enabled = false" in error["message"]
    for path in ("pigeon/default", "api/second", "house/runs"):
        status, error = await v1.refused("POST", f"/platforms/{path}/resume")
        assert status == 404 and "api:default" in error["message"], path
