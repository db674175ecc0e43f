"""The control socket of a real gateway: open to its owner only, with clear errors."""

import stat
from urllib.parse import quote

import openai
import pytest
from tests.support.gateway_process import SpawnedGateway

from holdfast.server.local.control_client import ControlClient, GatewayRefused, read_status


def test_status_is_the_current_one_of_the_process(shared_gateway: SpawnedGateway) -> None:
    """G3: the inbox counts are part of it, and they come from the process itself."""
    status = shared_gateway.status()
    assert status["state"] == "running"
    assert status["address"] == shared_gateway.address
    assert status["model"]["name"] == "scripted"
    (api,) = [platform for platform in status["platforms"] if platform["name"] == "api"]
    assert (api["account"], api["backlog"], api["built_in"]) == ("default", "none", True)
    ledger = status["inbox_counts"]
    assert ledger["accepted"] == sum(count for state, count in ledger.items()) / 2
    assert read_status(shared_gateway.paths)["state"] == "running"


def test_a_session_is_listed_and_shown_with_its_transcript(
    shared_gateway: SpawnedGateway, client: openai.OpenAI
) -> None:
    client.chat.completions.create(
        model="holdfast",
        messages=[{"role": "user", "content": "shown on the socket"}],
        extra_headers={"X-Holdfast-Session": "on the socket"},
    )
    control = ControlClient(shared_gateway.paths)
    (newest,) = control.get("/sessions", {"limit": 1})["sessions"]
    shown = control.get(f"/sessions/{newest['id']}")
    assert shown["session"]["id"] == newest["id"]
    assert [r["message"]["text"] for r in shown["transcript"]] == [
        "shown on the socket",
        "You said: shown on the socket",
    ]
    assert [turn["state"] for turn in shown["turns"]] == ["answered"]


@pytest.mark.parametrize("limit", ["x", "-1", "²", "9" * 30, ""])
def test_a_limit_that_is_not_a_number_is_refused(
    shared_gateway: SpawnedGateway, limit: str
) -> None:
    with pytest.raises(GatewayRefused, match="limit must be a number") as caught:
        ControlClient(shared_gateway.paths).get("/sessions", {"limit": limit})
    assert caught.value.status == 400


@pytest.mark.parametrize("name", ["s_none", "../etc", "a b", "ünïcode"])
def test_an_unknown_session_is_named_in_the_error(
    shared_gateway: SpawnedGateway, name: str
) -> None:
    with pytest.raises(GatewayRefused, match="There is no session") as caught:
        ControlClient(shared_gateway.paths).get(f"/sessions/{quote(name, safe='')}")
    assert caught.value.status == 404


def test_an_unknown_path_is_an_error_and_not_a_crash(shared_gateway: SpawnedGateway) -> None:
    with pytest.raises(GatewayRefused, match="404"):
        ControlClient(shared_gateway.paths).get("/nowhere")
    with pytest.raises(GatewayRefused, match="405"):
        ControlClient(shared_gateway.paths).post("/status")


def test_only_the_owner_can_open_the_sockets(shared_gateway: SpawnedGateway) -> None:
    """Access to the file is the authentication, so no other user may have it."""
    for path in (shared_gateway.paths.control_socket, shared_gateway.paths.status_socket):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(shared_gateway.paths.run.stat().st_mode) == 0o700
