"""The network of sandboxes in a whole gateway: its rules, its audit, and its port after a crash."""

import json
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.gateway_process import NewGateway, SpawnedGateway

from holdfast.core.config.settings import RunnerSettings
from holdfast.runner.runners import Runners
from holdfast.system.clock import SystemClock
from holdfast.system.egress import EgressPolicy

if shutil.which("bwrap") is None:
    pytest.skip("needs bubblewrap: apt install bubblewrap", allow_module_level=True)


async def _ignore(_: object) -> None: ...


@pytest.fixture
async def gateway(new_gateway: NewGateway, tmp_path: Path) -> AsyncIterator[SpawnedGateway]:
    """Without approvals, so that an agent may try everything."""
    gateway = new_gateway(
        HOLDFAST_APPROVALS_MODE="off", HOLDFAST_WEB_DENY='["*.denied.example"]'
    ).start()
    yield gateway
    gateway.end()
    runners = Runners(
        tmp_path / "home",
        RunnerSettings(),
        clock=SystemClock(),
        on_started=_ignore,
        on_ended=_ignore,
        egress=EgressPolicy,
    )
    await runners.end_all()


async def call_tools(gateway: SpawnedGateway, *calls: tuple[str, dict[str, Any]]) -> None:
    script = " ".join(f"[tool {name} {json.dumps(arguments)}]" for name, arguments in calls)
    async with gateway.async_client() as client:
        answer = await client.chat.completions.create(
            model="x", messages=[{"role": "user", "content": f"{script} [then] [text seen]"}]
        )
    assert answer.choices[0].message.content == "seen"


async def rows(gateway: SpawnedGateway, kind: str) -> list[dict[str, Any]]:
    async with (
        aiohttp.ClientSession(gateway.address, headers=gateway.auth) as session,
        session.get(f"/api/v1/audit?kind={kind}") as response,
    ):
        return list((await response.json())["rows"])


async def test_each_host_that_a_session_contacts_has_one_audit_row(
    gateway: SpawnedGateway,
) -> None:
    """Commands and `fetch` follow the same rules, and have the same rows."""
    own = f"127.0.0.1:{gateway.port}"
    script = f"""
        curl -s --noproxy '' http://{own}/; curl -s --noproxy '' http://{own}/
        curl -s http://a.denied.example/; curl -s https://a.denied.example/; true
    """
    await call_tools(
        gateway,
        ("terminal", {"command": script}),
        ("fetch", {"url": "http://a.denied.example/"}),
        ("fetch", {"url": "http://b.denied.example:81/"}),
    )
    found = await rows(gateway, "network.contact")
    facts = {(row["subject"], row["outcome"]): row["detail"] for row in found}
    assert len(found) == len(facts) == 3
    assert "private address" in facts["127.0.0.1", "refused"]["why"]
    for host, port in (("a.denied.example", 80), ("b.denied.example", 81)):
        assert facts[host, "refused"] == {
            "port": port,
            "why": f'{host} is denied by "*.denied.example" in web.deny',
        }
    assert {row["actor"] for row in found} == {"agent"} and found[0]["session_id"]


async def test_the_port_of_a_dead_gateway_cannot_be_taken_from_a_sandbox(
    gateway: SpawnedGateway, tmp_path: Path
) -> None:
    """Its clients would send the token there."""
    impostor = f"""python3 -c '
import socket, time
servers = [socket.create_server(("127.0.0.1", {gateway.port})),
           socket.create_server(("::1", {gateway.port}), family=socket.AF_INET6)]
open("/workspace/taken", "w").close()
time.sleep(1000)'"""
    look = "until [ -e /workspace/taken ]; do sleep 0.02; done"
    await call_tools(
        gateway,
        ("process", {"action": "start", "command": impostor}),
        ("terminal", {"command": look}),
    )
    port = gateway.port
    gateway.end(by=signal.SIGKILL)
    for address in ("127.0.0.1", "::1"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address, port), timeout=5)
