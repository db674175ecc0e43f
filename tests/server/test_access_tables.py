"""Every route over HTTP and the control socket is in a table with the access it needs.

Requests without that access are refused. A new route that is not in the table fails here.
"""

import re
import stat
from enum import StrEnum
from pathlib import Path

import aiohttp
import pytest
from tests.support.gateway_process import SpawnedGateway

import holdfast
from holdfast.server.api.mount import PREFIX
from holdfast.server.api.router import ENDPOINTS

SOURCE = Path(holdfast.__file__).parent
_ROUTE = re.compile(
    r"web\.(get|post|put|patch|delete|head|view|static|route)\("
    r"\s*(?:\"(?:\*|[A-Z]+)\",\s*)?f?\"?([^\",\n()]+)"
)
# Servers of vendors for tests and demos, which are not part of the gateway.
FAKE_SERVERS = ("testing/simulated/server.py", "models/misbehaving/", "models/local/")


class Access(StrEnum):
    PUBLIC = "public"  # it reveals nothing, and changes nothing without a key
    TALK = "talk"  # a token, but none that can only read
    READ = "read"  # a token of the scope read or admin, or a login; endpoints have their own
    SOCKET = "socket"  # access to a file that only its owner may open
    PLATFORM = "platform"  # a credential of the platform; its own tests prove it


# By the file that declares them. A new route is added here with the access it needs.
ROUTES: dict[str, dict[str, Access]] = {
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
        Access.SOCKET,
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
        Access.SOCKET,
    ),
    "server/webhooks.py": dict.fromkeys(  # each platform there checks a credential
        ("route each.method", "route {PREFIX}{{rest:.*}}"), Access.PLATFORM
    ),
    "server/http_listener.py": {"get /healthz": Access.PUBLIC, "get /metrics": Access.READ},
    "server/auth/login.py": dict.fromkeys(
        ("get /login", "post /login", "post /logout"), Access.PUBLIC
    ),
    "server/page/static_files.py": dict.fromkeys(("get /", "get /page/{name:.+}"), Access.PUBLIC),
    "server/api/mount.py": {
        r"route {PREFIX}/{{rest:[\\s\\S]*}}": Access.READ
    },  # each endpoint with each scope: auth/test_scopes.py
    "platforms/api/platform.py": dict.fromkeys(
        (
            "post /v1/chat/completions",
            "post /v1/responses",
            "get /v1/responses/{id}",
            "get /v1/models",
            "get /v1/models/{id}",
            "route /v1/{rest:.*}",
        ),
        Access.TALK,
    ),
    "platforms/telegram/receiver.py": {
        "post webhook_path": Access.PLATFORM
    },  # the vendor's secret header
    "platforms/slack/receiver.py": {"post events_path": Access.PLATFORM},  # the vendor's signature
    "platforms/webhook/receiver.py": {
        "post hook_path": Access.PLATFORM
    },  # the hook's signature or token
}


def test_every_route_of_the_source_is_in_the_table() -> None:
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(FAKE_SERVERS):
            continue
        routes = {f"{verb} {where}" for verb, where in _ROUTE.findall(path.read_text())}
        if routes:
            found[name] = routes
    assert found == {name: set(routes) for name, routes in ROUTES.items()}


def token_routes() -> list[tuple[str, str]]:
    """Every route of the listener that needs a token, with its parameters filled in."""
    listed = [(endpoint.method, PREFIX + endpoint.path) for endpoint in ENDPOINTS]
    listed += [("GET", f"{PREFIX}/nowhere"), ("GET", "/v1/nowhere")]
    for name in ("server/http_listener.py", "platforms/api/platform.py"):
        for route, access in ROUTES[name].items():
            verb, where = route.split()
            if access in (Access.TALK, Access.READ) and verb != "route":
                listed.append((verb.upper(), where))
    return [(method, re.sub(r"\{\w+\}", "x", path)) for method, path in listed]


@pytest.mark.parametrize("token", [None, "wrong", ""])
async def test_every_route_with_a_token_refuses_a_request_without_one(
    shared_gateway: SpawnedGateway, token: str | None
) -> None:
    """No body is read and nothing is looked up before the check: none of these names exists."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    entries = token_routes()
    assert len(entries) > len(ENDPOINTS) > 40
    async with aiohttp.ClientSession(shared_gateway.address, headers=headers) as http:
        for method, path in entries:
            async with http.request(method, path, data=b"{") as response:
                assert response.status == 401, f"{method} {path} answered {response.status}"


async def test_public_routes_need_no_credential(
    shared_gateway: SpawnedGateway,
) -> None:
    async with aiohttp.ClientSession(shared_gateway.address) as http:
        for path in ("/healthz", "/", "/page/app.js"):
            async with http.get(path) as response:
                assert response.status == 200, path


def test_only_the_owner_can_open_the_control_socket(shared_gateway: SpawnedGateway) -> None:
    mode = shared_gateway.paths.control_socket.stat()
    assert stat.S_IMODE(mode.st_mode) == 0o600
    assert stat.S_IMODE(shared_gateway.paths.control_socket.parent.stat().st_mode) == 0o700
