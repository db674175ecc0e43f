"""The audit over `/api/v1` and by `holdfast audit`; every change is in it."""

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import aiohttp
from click.testing import CliRunner
from tests.server.api.v1_helpers import (
    DAILY_JOB,
    SUDO_COMMAND,
    bearer_header,
    pending_approval,
    wait_for_first_record,
)
from tests.support.gateway_process import SpawnedGateway
from tests.support.v1_client import PREFIX, V1

from holdfast.cli.audit import command, follow_rows
from holdfast.cli.common.connection import api_client_for
from holdfast.cli.common.offline import query_store
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.server.api.router import ENDPOINTS
from holdfast.server.local.control_client import ControlClient

_ACCOUNT = "/platforms/{name}/{account}"

# Endpoints that leave no audit row, and the reason.
WITHOUT_ROW = {
    f"POST {_ACCOUNT}/check": "a round trip changes nothing",
    "POST /search/rebuild": "the index says nothing that the messages do not",
    "POST /sessions": "an empty conversation is nothing yet; what is said in it is its own record",
    "POST /outgoing": "a file that was handed in is nothing yet; sending it is a row",
}
# What the shared gateway cannot do or would not survive: the tests of tests/gateway that prove it.
_OPERATIONS = "test_account_changes_messages_and_gateway_stops_are_audited"
_OPERATOR_MESSAGES = "test_operator_actions_in_the_chat_of_a_user_are_audited_as_the_operators"
_PAIRING = "test_pairing_decisions_are_audited_with_their_actor"
_CONFIGURATION = "test_a_new_configuration_is_audited_with_its_version"
TESTED_IN_PROCESS = {
    f"POST {_ACCOUNT}/pause": _OPERATIONS,
    f"POST {_ACCOUNT}/resume": _OPERATIONS,
    "POST /restart": _OPERATIONS,
    "POST /stop": _OPERATIONS,
    "POST /send": _OPERATIONS,
    "POST /sessions/{id}/messages": _OPERATOR_MESSAGES,
    "POST /sessions/{id}/steer": _OPERATOR_MESSAGES,
    "POST /deliveries/{id}/retry": "test_a_resent_delivery_is_audited",
    "POST /pairing": _PAIRING,
    "DELETE /pairing/requests": _PAIRING,
    "DELETE /pairing/users": _PAIRING,
    "PATCH /config": _CONFIGURATION,
    "POST /config/reload": _CONFIGURATION,
    "POST /config/rollback": _CONFIGURATION,
}
GATEWAY_TESTS = Path(__file__).parents[3] / "gateway"


class AuditedClient:
    """Calls changing endpoints, and checks the audit row of each call."""

    def __init__(self, v1: V1) -> None:
        self.v1 = v1
        self.covered: set[str] = set()

    async def last_seq(self) -> int:
        rows = (await self.v1.get("/audit", limit=1))["rows"]
        return int(rows[0]["seq"]) if rows else 0

    async def request(self, endpoint: str, kind: str, *, path: str = "", **options: Any) -> Any:
        """Sends one request, which must leave a row of this kind by the operator."""
        before = await self.last_seq()
        method, _, plain = endpoint.partition(" ")
        async with self.v1.http.request(method, PREFIX + (path or plain), **options) as response:
            body = await response.read()
            assert response.status < 400, body
        rows = (await self.v1.get("/audit", after=before))["rows"]
        assert (kind, OPERATOR) in [(row["kind"], row["actor"]) for row in rows], endpoint
        self.covered.add(endpoint)
        return json.loads(body) if response.content_type == "application/json" else body


async def test_every_change_leaves_an_audit_row_with_its_actor(v1: V1) -> None:
    """An endpoint that is in none of the tables above and leaves no row fails here."""
    audited = AuditedClient(v1)
    await change_sessions(audited)
    await change_memory_and_jobs(audited)
    await answer_approvals(audited)
    await audited.request("GET /audit/export", "audit.exported")
    await audited.request("POST /tokens", "token.added", json={"name": "audited"})
    await audited.request("DELETE /tokens", "token.revoked", params={"name": "audited"})
    changing = {f"{each.method} {each.path}" for each in ENDPOINTS if not each.read_only}
    assert audited.covered | WITHOUT_ROW.keys() | TESTED_IN_PROCESS.keys() == changing
    sources = "".join(path.read_text() for path in GATEWAY_TESTS.glob("test_audit*.py"))
    assert [name for name in TESTED_IN_PROCESS.values() if f"def {name}(" not in sources] == []


async def change_sessions(audited: AuditedClient) -> None:
    v1, one = audited.v1, "/sessions/{id}"
    session = await v1.open("audited")
    await v1.end(await v1.say(session, "[text first]"))
    path = f"/sessions/{session}"
    await audited.request(f"PATCH {one}", "session.renamed", path=path, json={"title": "t"})
    lines = (await audited.request("GET /audit/export", "audit.exported")).splitlines()
    assert json.loads(lines[-1])["detail"] == {"title": "t"}
    async with v1.http.get(f"{PREFIX}{path}/export") as response:
        exported = await response.read()
    kind = {"Content-Type": "application/x-ndjson"}
    await audited.request("POST /sessions/import", "session.imported", data=exported, headers=kind)
    await audited.request(f"POST {one}/suspend", "session.suspended", path=f"{path}/suspend")
    await audited.request(f"POST {one}/resume", "command.given", path=f"{path}/resume")
    fork = await audited.request(f"POST {one}/fork", "command.given", path=f"{path}/fork", json={})
    path = f"/sessions/{fork['id']}"
    await v1.say(fork["id"], "[first 60] never", "m9")
    await wait_for_first_record(v1, fork["id"])
    await audited.request(f"POST {one}/stop", "turn.stopped", path=f"{path}/stop")
    await audited.request(f"POST {one}/reset", "command.given", path=f"{path}/reset")
    await audited.request(f"DELETE {one}", "session.deleted", path=path)


async def change_memory_and_jobs(audited: AuditedClient) -> None:
    v1, owner = audited.v1, "person:audited"
    note = {"owner": owner, "text": "likes tea"}
    await audited.request("POST /memory", "memory.changed", json=note)
    await audited.request("PATCH /memory", "memory.changed", json={"owner": owner, "off": True})
    await audited.request("DELETE /memory", "memory.changed", params={"owner": owner})
    job = await audited.request("POST /jobs", "job.added", json=DAILY_JOB)
    path = f"/jobs/{job['id']}"
    await audited.request("POST /jobs/{id}/run", "job.run", path=f"{path}/run")
    await audited.request("POST /jobs/{id}/stop", "job.stopped", path=f"{path}/stop")
    await audited.request("PATCH /jobs/{id}", "job.changed", path=path, json={"paused": True})
    await audited.request("DELETE /jobs/{id}", "job.changed", path=path)
    session = await v1.open()
    start = '[tool process {"action": "start", "command": "sleep 600"}]'
    await v1.end(await v1.say(session, start))
    (process,) = await v1.get(f"/sessions/{session}/processes")
    path = f"/sessions/{session}/processes/{process['id']}"
    await audited.request("DELETE /sessions/{id}/processes/{process}", "process.killed", path=path)


async def answer_approvals(audited: AuditedClient) -> None:
    v1 = audited.v1
    session = await v1.open()
    message = await v1.say(session, SUDO_COMMAND)
    path = f"/approvals/{(await pending_approval(v1, session))['id']}"
    answer = {"answer": "approve", "scope": "session"}
    await audited.request("POST /approvals/{id}", "approval.ended", path=path, json=answer)
    await v1.end(message)
    (rule,) = [each for each in await v1.get("/approval-rules") if each["session_id"] == session]
    path = f"/approval-rules/{rule['id']}"
    await audited.request("DELETE /approval-rules/{id}", "permission.revoked", path=path)
    found = (await v1.get("/audit", session=session, kind="permission"))["rows"]
    assert [row["kind"] for row in found] == ["permission.revoked", "permission.given"]


async def test_audit_rows_are_found_paged_followed_and_exported(
    v1: V1, shared_gateway: SpawnedGateway
) -> None:
    """The stream announces new rows; no cell of the CSV starts a formula."""
    async with v1.events("/events") as events:
        session = await v1.open()
        evil = '[tool terminal {"command": "echo =1+1"}] [then] [text done]'
        await v1.end(await v1.say(session, evil))
        async for event in events:
            if event.name == "audit":
                break
    (row,) = (await v1.get("/audit", session=session))["rows"]
    assert (row["kind"], row["actor"], row["outcome"]) == ("tool.call", OPERATOR, "ok")
    assert row["detail"]["exit_code"] == 0 and "echo =1+1" in row["detail"]["arguments"]
    assert (await v1.get("/audit", turn=row["turn_id"], kind="tool"))["rows"] == [row]
    assert (await v1.get("/audit", text="ECHO =1+1", actor="operat"))["rows"] == [row]
    assert (await v1.get("/audit", session=session, since=row["at"] + 1))["rows"] == []
    older = await v1.get("/audit", before=row["seq"] + 1, limit=1)
    assert older["rows"] == [row] and older["more"] is (row["seq"] > 1)
    status, error = await v1.refused("GET", "/audit", params={"before": 2, "after": 1})
    assert (status, error["param"]) == (400, "before")
    async with v1.http.get(f"{PREFIX}/audit/export", params={"format": "csv"}) as response:
        assert response.content_type == "text/csv"
        table = list(csv.DictReader((await response.text()).splitlines()))
    assert session in [line["session"] for line in table]
    assert not any(
        cell.startswith(("=", "+", "-", "@")) for line in table for cell in line.values()
    )
    verified = await v1.get("/audit/verify")
    assert verified["broken"] == [] and verified["rows"] == verified["last"]


async def test_the_scope_read_reads_the_audit_and_may_not_export_it(
    v1: V1, shared_gateway: SpawnedGateway
) -> None:
    """The refused attempt has a row, and so has the token."""
    control = ControlClient(shared_gateway.paths)
    token = control.post("/tokens", {"name": "dora", "scope": "read"})["token"]
    async with aiohttp.ClientSession(shared_gateway.address, headers=bearer_header(token)) as http:
        async with http.get(f"{PREFIX}/audit") as response:
            assert response.status == 200
        async with http.get(f"{PREFIX}/audit/export") as response:
            assert response.status == 403
    control.post("/tokens/revoke", {"name": "dora"})
    tokens = (await v1.get("/audit", text="dora"))["rows"]
    assert [(row["kind"], row["actor"]) for row in tokens] == [
        ("token.revoked", OPERATOR),
        ("refused.request", "token:dora"),
        ("token.added", OPERATOR),
    ]


def run_audit(home: Path, *args: str, code: int = 0) -> str:
    done = CliRunner().invoke(command, [*args, "--home", str(home)])
    assert done.exit_code == code, done.output
    return done.output


async def test_the_audit_command_asks_a_running_gateway(
    v1: V1, shared_gateway: SpawnedGateway
) -> None:
    session = await v1.open()
    await v1.end(await v1.say(session, '[tool terminal {"command": "true"}]'))
    shown = run_audit(shared_gateway.home, "--session", session)
    assert "tool.call" in shown and "terminal" in shown and '{"command": "true"}' in shown
    failed = await v1.open()
    await v1.end(await v1.say(failed, '[tool terminal {"command": "exit 3"}]'))
    line = run_audit(shared_gateway.home, "--session", failed).splitlines()[-1]
    assert "error" in line and "exit code 3" in line
    (row,) = map(
        json.loads, run_audit(shared_gateway.home, "--session", session, "--json").splitlines()
    )
    assert row["session_id"] == session
    assert run_audit(shared_gateway.home, "--session", session[:-1]) == shown  # a prefix is enough
    assert "rows verified" in run_audit(shared_gateway.home, "verify")
    last = run_audit(shared_gateway.home, "export").splitlines()[-1]
    assert json.loads(last)["seq"] >= row["seq"]


async def test_the_audit_command_follows_new_rows(v1: V1, shared_gateway: SpawnedGateway) -> None:
    """By the stream of the gateway, without polling."""
    session = await v1.open()
    last = await AuditedClient(v1).last_seq()
    rows = follow_rows(api_client_for(shared_gateway.home), {"session": session}, last)
    more = asyncio.ensure_future(asyncio.to_thread(next, rows))
    await v1.end(await v1.say(session, '[tool terminal {"command": "true"}]'))
    async with asyncio.timeout(30):
        (row,) = await more
    assert (row.kind, row.session_id) == ("tool.call", session)
    rows.close()


def test_the_audit_command_reads_the_store_when_no_gateway_runs(tmp_path: Path) -> None:
    """K1: under the home's lock; a row that was changed in the file is found."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "state.db").touch(mode=0o600)

    async def fill(store: Store) -> None:
        for number in (1, 2):
            name = f"p{number}"
            kind, facts = AuditKind.PROCESS_KILLED, {"command": "=sleep"}
            entry = AuditEntry(kind=kind, actor=OPERATOR, at=number, subject=name, facts=facts)
            await store.write(RecordAudit(entry=entry))

    query_store(home, fill, purpose="a test")
    assert "p2" in run_audit(home, "--kind", "process", "--text", "SLEEP")
    head, first, _ = run_audit(home).splitlines()
    assert head == "SEQ  WHEN                 KIND            ACTOR     SUBJECT  OUTCOME  DETAILS"
    assert [head.index(word) for word in ("KIND", "SUBJECT")] == [
        first.index(word) for word in ("process.killed", "p1")
    ]
    assert "No row matches." in run_audit(home, "--actor", "nobody")
    assert "Did you mean process.killed?" in run_audit(home, "--kind", "proces.killed", code=2)
    assert "for example, 20m, 2h or '3 days'" in run_audit(home, "--since", "yesterday", code=2)
    assert "2 rows verified, from 1 to 2" in run_audit(home, "verify")
    to = tmp_path / "audit.csv"
    run_audit(home, "export", "--format", "csv", "-o", str(to))
    assert len(to.read_text().splitlines()) == 3
    assert to.stat().st_mode & 0o777 == 0o600
    assert "audit.exported" in run_audit(home, "-n", "1")

    async def tamper(store: Any) -> None:
        def change(cursor: Any) -> None:
            cursor.execute("DROP TRIGGER audit_stays")
            cursor.execute("UPDATE audit SET actor = 'nobody' WHERE seq = 2")

        await store._submit(change)

    query_store(home, tamper, purpose="a test")
    assert "row 2 was changed after it was written" in run_audit(home, "verify", code=1)
