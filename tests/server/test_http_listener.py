"""The HTTP listener: host names, tokens, and ports that are in use."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import aiohttp
import pytest
from tests.support.gateway_process import NewGateway, SpawnedGateway
from tests.support.ports import own_port

from holdfast.core.config.settings import GatewaySettings
from holdfast.system import exit_codes

ROUTES = [
    ("GET", "/metrics"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/holdfast"),
    ("GET", "/v1/responses/resp_1"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/chat/completions"),
    ("DELETE", "/v1/anything/else"),
]


async def raw_response(port: int, request: bytes, *, host: str = "127.0.0.1") -> bytes:
    """The response of the listener to these bytes."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def status_for_host(shared_gateway: SpawnedGateway, host: bytes) -> int:
    request = b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
    return int((await raw_response(shared_gateway.port, request)).split()[1])


@pytest.mark.parametrize(
    "host",
    [
        b"localhost",
        b"LocalHost:1234",
        b"127.0.0.1",
        b"[::1]:8787",
        b"bot.example.org",
        b"BOT.example.org:443",
    ],
)
async def test_the_gateway_answers_to_its_own_host_names(
    shared_gateway: SpawnedGateway, host: bytes
) -> None:
    assert await status_for_host(shared_gateway, host) == 200


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"localhost.evil.example",
        b"bot.example.org.evil.example",
        b"192.168.1.1",
        b"[::2]",
        b"::1",
        b"",
        b"\xff",
        b"user@localhost",
    ],
)
async def test_a_foreign_host_name_is_refused_before_anything_else(
    shared_gateway: SpawnedGateway, host: bytes
) -> None:
    assert await status_for_host(shared_gateway, host) in (400, 421)
    token = shared_gateway.token.encode()
    request = (
        b"GET /v1/models HTTP/1.1\r\nHost: " + host + b"\r\nAuthorization: Bearer " + token
    ) + b"\r\nConnection: close\r\n\r\n"
    assert (
        b"holdfast"
        not in (await raw_response(shared_gateway.port, request)).partition(b"\r\n\r\n")[2][:20]
    )


async def test_a_request_without_a_host_name_is_accepted(shared_gateway: SpawnedGateway) -> None:
    """Load balancers send none; a browser, which a foreign page could direct here, always does."""
    answer = await raw_response(shared_gateway.port, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert answer.split()[1] == b"200"
    assert (await raw_response(shared_gateway.port, b"GET /v1/models HTTP/1.0\r\n\r\n")).split()[
        1
    ] == b"401"


async def test_health_needs_no_token_and_reports_ready(shared_gateway: SpawnedGateway) -> None:
    async with (
        aiohttp.ClientSession(shared_gateway.address) as http,
        http.get("/healthz") as response,
    ):
        assert (response.status, await response.json()) == (200, {"ready": True})


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_other_route_needs_the_token(
    shared_gateway: SpawnedGateway, method: str, path: str
) -> None:
    token = shared_gateway.token
    wrong = ["", "Bearer", "Bearer ", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Basic {token}"]
    async with aiohttp.ClientSession(shared_gateway.address) as http:
        for authorization in (None, token, *wrong):
            headers = {} if authorization is None else {"Authorization": authorization}
            async with http.request(method, path, headers=headers) as response:
                assert response.status == 401, authorization
                assert "holdfast token" in await response.text()
    request = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
        + b"Authorization: Bearer \xff\xfe\r\nContent-Length: 0\r\n\r\n"
    )
    assert (await raw_response(shared_gateway.port, request)).split()[1] == b"401"


async def test_the_word_bearer_is_read_in_any_case(shared_gateway: SpawnedGateway) -> None:
    headers = {"Authorization": f"bearer  {shared_gateway.token}"}
    async with (
        aiohttp.ClientSession(shared_gateway.address, headers=headers) as http,
        http.get("/v1/models") as response,
    ):
        assert response.status == 200


@contextmanager
def occupied_port(port: int = 0) -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", port))) as listener:
        yield listener.getsockname()[1]


def test_a_configured_port_in_use_is_an_error_with_a_remedy(
    new_gateway: NewGateway,
) -> None:
    with occupied_port() as port:
        process = new_gateway(HOLDFAST_GATEWAY_PORT=str(port)).launch()
        out, err = process.communicate(timeout=30)
    assert process.returncode == exit_codes.FAILED
    assert f"gateway.port: 127.0.0.1:{port} is in use by another program" in err
    assert "--port" in err
    assert "Traceback" not in err and not out


def test_an_address_of_another_machine_is_an_error_that_names_the_key(
    new_gateway: NewGateway,
) -> None:
    process = new_gateway(HOLDFAST_GATEWAY_HOST="192.0.2.1").launch()
    _, err = process.communicate(timeout=30)
    assert process.returncode == exit_codes.FAILED
    assert "gateway.host: cannot listen on 192.0.2.1" in err
    assert "Traceback" not in err


def listen_exclusively(port: int) -> socket.socket:
    """Waits for the port if another test run uses it now, which may end at any moment."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError:
            assert time.monotonic() < deadline, f"port {port} is in use by another program"
            time.sleep(0.05)


def test_the_next_free_port_is_used_when_the_default_one_is_in_use(new_gateway: NewGateway) -> None:
    default = GatewaySettings().port
    gateway = new_gateway(HOLDFAST_GATEWAY_PORT="")
    with listen_exclusively(default):
        gateway.start()
    assert default < gateway.port < default + 10
    gateway.end()
    log = gateway.paths.log_file.read_text()
    assert f"Port {default} is in use by another program; listening on {gateway.port}" in log


async def test_the_gateway_listens_on_an_ipv6_address(new_gateway: NewGateway) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    gateway = new_gateway(HOLDFAST_GATEWAY_HOST="::1").start()
    assert gateway.address.startswith("http://[::1]:")
    async with (
        aiohttp.ClientSession(gateway.address) as http,
        http.get("/healthz") as response,
    ):
        assert response.status == 200


async def test_bound_to_every_address_the_gateway_answers_to_the_one_that_was_reached(
    new_gateway: NewGateway,
) -> None:
    gateway = new_gateway(HOLDFAST_GATEWAY_HOST="0.0.0.0").start()
    head = b"GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: "
    reached = await raw_response(gateway.port, head + b"127.0.0.2\r\n\r\n", host="127.0.0.2")
    assert reached.split()[1] == b"200"
    foreign = await raw_response(gateway.port, head + b"127.0.0.3\r\n\r\n", host="127.0.0.2")
    assert foreign.split()[1] == b"421"


def listen_on_ipv6(port: int) -> socket.socket:
    return socket.create_server(("::1", port), family=socket.AF_INET6)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_a_gateway_on_loopback_listens_on_both_addresses(
    new_gateway: NewGateway, host: str
) -> None:
    """The attack: take [::1]:PORT, which clients that are told `localhost` try first."""
    gateway = new_gateway(HOLDFAST_GATEWAY_HOST=host).start()
    for address in ("127.0.0.1", "[::1]"):
        async with aiohttp.request("GET", f"http://{address}:{gateway.port}/healthz") as response:
            assert response.status == 200
    with pytest.raises(OSError, match="in use"):
        listen_on_ipv6(gateway.port)


def test_a_port_that_is_taken_on_the_other_address_is_an_error_that_names_it(
    new_gateway: NewGateway,
) -> None:
    port = own_port()
    with listen_on_ipv6(port):
        process = new_gateway(HOLDFAST_GATEWAY_PORT=str(port)).launch()
        _, err = process.communicate(timeout=30)
    assert process.returncode == exit_codes.FAILED
    assert f"[::1]:{port} is in use by another program" in err


_LISTEN = """
import asyncio, logging, sys
from holdfast.core.config.settings import GatewaySettings
from holdfast.server.http_listener import open_listening_sockets
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
made = asyncio.run(open_listening_sockets(GatewaySettings(port=0), port_chosen=True))
print([sock.getsockname()[0] for sock in made])
"""


def test_without_ipv6_the_gateway_listens_on_ipv4_and_says_so_once() -> None:
    off = "ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
    script = f"{off} && exec {sys.executable} -c '{_LISTEN}'"
    done = subprocess.run(
        ["unshare", "-rn", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    if done.returncode and "holdfast" not in done.stderr:
        pytest.skip(f"no network namespace without IPv6 here: {done.stderr}")
    said, listening = done.stdout.splitlines()
    assert said == "Listening on 127.0.0.1 only: this machine has no other loopback address."
    assert listening == "['127.0.0.1']"


async def test_wrong_tokens_lock_no_right_one_out_on_this_machine(
    new_gateway: NewGateway,
) -> None:
    """The attack: a local program that sends wrong tokens all the time."""
    gateway = new_gateway().start()
    async with aiohttp.ClientSession(gateway.address) as http:

        async def status(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with http.get("/api/v1/whoami", headers=headers) as response:
                return response.status

        tries = 0
        while await status(f"guess{tries}") != 429:
            tries += 1
        assert [await status(gateway.token) for _ in range(20)] == [200] * 20
        assert await status("another guess") == 429
