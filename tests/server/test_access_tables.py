"""Law 12: every way in over HTTP and the control socket is in a table that says who may use it, and
whoever may not is sent away. A new one that is not in the table fails here."""

import re
import stat
from enum import StrEnum
from pathlib import Path

import aiohttp
import pytest
from tests.support.gateway_process import GatewayProcess

import holdfast
from holdfast.server.api.mount import PREFIX
from holdfast.server.api.router import ENDPOINTS

SOURCE = Path(holdfast.__file__).parent
_ROUTE = re.compile(
    r"web\.(get|post|put|patch|delete|head|view|static|route)\("
    r"\s*(?:\"(?:\*|[A-Z]+)\",\s*)?f?\"?([^\",\n()]+)"
)
# What pretends to be somebody else's server, for tests and demos: nothing of the gateway's.
VENDORS = ("testing/simulated/server.py", "models/misbehaving/", "models/local/")


class Who(StrEnum):
    ANYBODY = "anybody"  # it gives nothing away, and changes nothing but for whoever knows a key
    OWNER = "owner"  # the gateway's token, or its login cookie where the page asks
    VIEWER = "viewer"  # as the owner, or with a token of the role viewer
    SOCKET = "socket"  # whoever may open a file that is its owner's alone
    DOOR = "door"  # a credential that the platform was given; its own tests prove it


# By the file that declares them. Whoever adds one says here who may use it, and why they may.
ROUTES: dict[str, dict[str, Who]] = {
    "server/local/control_socket.py": dict.fromkeys(
        (
            "get /status",
            "get /sessions",
            "get /sessions/{id}",
            "post /login",
            "post /stop",
            "post /restart",
            "post /handover",
        ),
        Who.SOCKET,
    ),
    "server/local/control_handlers.py": dict.fromkeys(
        (
            "post /backup/copy",
            "post /backup/refresh",
            "get /pairing",
            "post /pairing/approve",
            "post /pairing/deny",
            "post /pairing/revoke",
            "get /platforms",
            "post /platforms/{name}/{account}/{do:pause|resume|check}",
            "get /config",
            "post /config/set",
            "post /config/reload",
            "post /config/rollback",
            "get /config/history",
            "get /config/history/{number}",
            "get /tokens",
            "post /tokens",
            "post /tokens/revoke",
        ),
        Who.SOCKET,
    ),
    "server/webhooks.py": dict.fromkeys(  # each door that is found there asks for a credential
        ("route each.method", "route {PREFIX}{{rest:.*}}"), Who.DOOR
    ),
    "server/http_listener.py": {"get /healthz": Who.ANYBODY, "get /metrics": Who.VIEWER},
    "server/auth/login.py": dict.fromkeys(
        ("get /login", "post /login", "post /logout"), Who.ANYBODY
    ),
    "server/page/static_files.py": dict.fromkeys(("get /", "get /page/{name:.+}"), Who.ANYBODY),
    "server/api/mount.py": {"route {PREFIX}/{{rest:.*}}": Who.VIEWER},  # each: test_roles.py
    "platforms/api/platform.py": dict.fromkeys(
        (
            "post /v1/chat/completions",
            "post /v1/responses",
            "get /v1/responses/{id}",
            "get /v1/models",
            "get /v1/models/{id}",
            "route /v1/{rest:.*}",
        ),
        Who.OWNER,
    ),
    "platforms/telegram/receiver.py": {"post webhook_path": Who.DOOR},  # the vendor's secret header
    "platforms/slack/receiver.py": {"post events_path": Who.DOOR},  # the vendor's signature
    "platforms/webhook/receiver.py": {"post hook_path": Who.DOOR},  # the hook's signature or token
}


def test_every_route_of_the_program_is_in_the_table() -> None:
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(VENDORS):
            continue
        routes = {f"{verb} {where}" for verb, where in _ROUTE.findall(path.read_text())}
        if routes:
            found[name] = routes
    assert found == {name: set(routes) for name, routes in ROUTES.items()}


def owned() -> list[tuple[str, str]]:
    """Every address of the listener that asks for a token, with names filled in."""
    listed = [(endpoint.method, PREFIX + endpoint.path) for endpoint in ENDPOINTS]
    listed += [("GET", f"{PREFIX}/nowhere"), ("GET", "/v1/nowhere")]
    for name in ("server/http_listener.py", "platforms/api/platform.py"):
        for route, who in ROUTES[name].items():
            verb, where = route.split()
            if who in (Who.OWNER, Who.VIEWER) and verb != "route":
                listed.append((verb.upper(), where))
    return [(method, re.sub(r"\{\w+\}", "x", path)) for method, path in listed]


@pytest.mark.parametrize("token", [None, "wrong", ""])
async def test_whoever_has_not_the_token_is_sent_away_from_all_that_is_the_owner_s(
    shared_gateway: GatewayProcess, token: str | None
) -> None:
    """No body is read and nothing is looked up before that: none of these names exists."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    entries = owned()
    assert len(entries) > len(ENDPOINTS) > 40
    async with aiohttp.ClientSession(shared_gateway.address, headers=headers) as http:
        for method, path in entries:
            async with http.request(method, path, data=b"{") as response:
                assert response.status == 401, f"{method} {path} answered {response.status}"


async def test_what_anybody_may_ask_for_is_given_without_a_credential(
    shared_gateway: GatewayProcess,
) -> None:
    async with aiohttp.ClientSession(shared_gateway.address) as http:
        for path in ("/healthz", "/", "/page/app.js"):
            async with http.get(path) as response:
                assert response.status == 200, path


def test_the_control_socket_is_its_owner_s_alone(shared_gateway: GatewayProcess) -> None:
    mode = shared_gateway.paths.control_socket.stat()
    assert stat.S_IMODE(mode.st_mode) == 0o600
    assert stat.S_IMODE(shared_gateway.paths.control_socket.parent.stat().st_mode) == 0o700
