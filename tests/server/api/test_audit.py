"""The audit over `/api/v1` and by `holdfast audit`; whatever changes something is in it."""

import asyncio
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
from click.testing import CliRunner
from tests.gateway import test_audit, test_audit_of_access
from tests.server.api.test_approvals import SUDO, asked
from tests.server.api.test_jobs import JOB
from tests.server.api.test_turns import until_begun
from tests.server.auth.test_viewers import bearing
from tests.support.gateway_process import GatewayProcess
from tests.support.v1_client import PREFIX, V1

from holdfast.cli.audit import command, follow_rows
from holdfast.cli.common.connection import api_client_for
from holdfast.cli.common.offline import query_store
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.store import Store
from holdfast.server.api.router import ENDPOINTS
from holdfast.server.local.control_client import ControlClient

_ACCOUNT = "/platforms/{name}/{account}"

# What leaves no row, and why it need not.
SILENT = {
    f"POST {_ACCOUNT}/check": "a round trip changes nothing",
    "POST /search/rebuild": "the index says nothing that the messages do not",
    "POST /sessions": "an empty conversation is nothing yet; what is said in it is its own record",
    "POST /outgoing": "a file that was handed in is nothing yet; sending it is a row",
}
# What the shared gateway cannot do, or would not survive: proven in process, by what it calls.
ELSEWHERE: dict[str, Callable[..., Any]] = {
    f"POST {_ACCOUNT}/pause": test_audit.test_accounts_messages_and_ends_of_the_gateway_have_rows,
    f"POST {_ACCOUNT}/resume": test_audit.test_accounts_messages_and_ends_of_the_gateway_have_rows,
    "POST /restart": test_audit.test_accounts_messages_and_ends_of_the_gateway_have_rows,
    "POST /stop": test_audit.test_accounts_messages_and_ends_of_the_gateway_have_rows,
    "POST /send": test_audit.test_accounts_messages_and_ends_of_the_gateway_have_rows,
    "POST /sessions/{id}/messages": (
        test_audit.test_what_the_operator_does_is_theirs_also_in_a_chat_of_others
    ),
    "POST /sessions/{id}/steer": (
        test_audit.test_what_the_operator_does_is_theirs_also_in_a_chat_of_others
    ),
    "POST /deliveries/{id}/retry": test_audit_of_access.test_what_somebody_has_sent_again_is_a_row,
    "POST /pairing": (
        test_audit_of_access.test_who_is_let_in_and_sent_away_is_a_row_with_who_decided
    ),
    "DELETE /pairing/requests": (
        test_audit_of_access.test_who_is_let_in_and_sent_away_is_a_row_with_who_decided
    ),
    "DELETE /pairing/users": (
        test_audit_of_access.test_who_is_let_in_and_sent_away_is_a_row_with_who_decided
    ),
    "PATCH /config": (
        test_audit_of_access.test_a_configuration_that_comes_into_force_is_a_row_with_its_number
    ),
    "POST /config/reload": (
        test_audit_of_access.test_a_configuration_that_comes_into_force_is_a_row_with_its_number
    ),
    "POST /config/rollback": (
        test_audit_of_access.test_a_configuration_that_comes_into_force_is_a_row_with_its_number
    ),
}


class Deeds:
    """Does things over the API, and knows what the audit says of each."""

    def __init__(self, v1: V1) -> None:
        self.v1 = v1
        self.done: set[str] = set()

    async def last(self) -> int:
        rows = (await self.v1.get("/audit", limit=1))["rows"]
        return int(rows[0]["seq"]) if rows else 0

    async def do(self, endpoint: str, kind: str, *, path: str = "", **options: Any) -> Any:
        """One request that leaves a row of that kind, by the operator."""
        before = await self.last()
        method, _, plain = endpoint.partition(" ")
        async with self.v1.http.request(method, PREFIX + (path or plain), **options) as response:
            body = await response.read()
            assert response.status < 400, body
        rows = (await self.v1.get("/audit", after=before))["rows"]
        assert (kind, OPERATOR) in [(row["kind"], row["actor"]) for row in rows], endpoint
        self.done.add(endpoint)
        return json.loads(body) if response.content_type == "application/json" else body


async def test_whatever_changes_something_leaves_a_row_by_who_did_it(v1: V1) -> None:
    """An endpoint that is in none of the tables above and leaves no row fails here."""
    deeds = Deeds(v1)
    await of_sessions(deeds)
    await of_work(deeds)
    await of_people(deeds)
    await deeds.do("GET /audit/export", "audit.exported")
    changing = {f"{each.method} {each.path}" for each in ENDPOINTS if not each.read_only}
    assert deeds.done | SILENT.keys() | ELSEWHERE.keys() == changing
    assert all(test.__name__.startswith("test_") for test in ELSEWHERE.values())


async def of_sessions(deeds: Deeds) -> None:
    v1, one = deeds.v1, "/sessions/{id}"
    session = await v1.open("audited")
    await v1.end(await v1.say(session, "[text first]"))
    path = f"/sessions/{session}"
    await deeds.do(f"PATCH {one}", "session.renamed", path=path, json={"title": "t"})
    lines = (await deeds.do("GET /audit/export", "audit.exported")).splitlines()
    assert json.loads(lines[-1])["detail"] == {"title": "t"}
    async with v1.http.get(f"{PREFIX}{path}/export") as response:
        exported = await response.read()
    kind = {"Content-Type": "application/x-ndjson"}
    await deeds.do("POST /sessions/import", "session.imported", data=exported, headers=kind)
    await deeds.do(f"POST {one}/suspend", "session.suspended", path=f"{path}/suspend")
    await deeds.do(f"POST {one}/resume", "command.given", path=f"{path}/resume")
    fork = await deeds.do(f"POST {one}/fork", "command.given", path=f"{path}/fork", json={})
    path = f"/sessions/{fork['id']}"
    await v1.say(fork["id"], "[first 60] never", "m9")
    await until_begun(v1, fork["id"])
    await deeds.do(f"POST {one}/stop", "turn.stopped", path=f"{path}/stop")
    await deeds.do(f"POST {one}/reset", "command.given", path=f"{path}/reset")
    await deeds.do(f"DELETE {one}", "session.deleted", path=path)


async def of_work(deeds: Deeds) -> None:
    v1, owner = deeds.v1, "person:audited"
    note = {"owner": owner, "text": "likes tea"}
    await deeds.do("POST /memory", "memory.changed", json=note)
    await deeds.do("PATCH /memory", "memory.changed", json={"owner": owner, "off": True})
    await deeds.do("DELETE /memory", "memory.changed", params={"owner": owner})
    job = await deeds.do("POST /jobs", "job.added", json=JOB)
    path = f"/jobs/{job['id']}"
    await deeds.do("POST /jobs/{id}/run", "job.run", path=f"{path}/run")
    await deeds.do("POST /jobs/{id}/stop", "job.stopped", path=f"{path}/stop")
    await deeds.do("PATCH /jobs/{id}", "job.changed", path=path, json={"paused": True})
    await deeds.do("DELETE /jobs/{id}", "job.changed", path=path)
    session = await v1.open()
    start = '[tool process {"action": "start", "command": "sleep 600"}]'
    await v1.end(await v1.say(session, start))
    (process,) = await v1.get(f"/sessions/{session}/processes")
    path = f"/sessions/{session}/processes/{process['id']}"
    await deeds.do("DELETE /sessions/{id}/processes/{process}", "process.killed", path=path)


async def of_people(deeds: Deeds) -> None:
    v1 = deeds.v1
    session = await v1.open()
    message = await v1.say(session, SUDO)
    path = f"/approvals/{(await asked(v1, session))['id']}"
    answer = {"answer": "approve", "scope": "session"}
    await deeds.do("POST /approvals/{id}", "approval.ended", path=path, json=answer)
    await v1.end(message)
    (rule,) = [each for each in await v1.get("/approval-rules") if each["session_id"] == session]
    path = f"/approval-rules/{rule['id']}"
    await deeds.do("DELETE /approval-rules/{id}", "permission.revoked", path=path)
    found = (await v1.get("/audit", session=session, kind="permission"))["rows"]
    assert [row["kind"] for row in found] == ["permission.revoked", "permission.given"]


async def test_rows_are_found_paged_followed_and_taken_along(
    v1: V1, shared_gateway: GatewayProcess
) -> None:
    """The stream tells that there are more; a spreadsheet takes nothing for a formula."""
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


async def test_a_viewer_reads_it_and_may_not_take_it_along(
    v1: V1, shared_gateway: GatewayProcess
) -> None:
    """Law 12: that they tried is a row, and so is the token."""
    control = ControlClient(shared_gateway.paths)
    token = control.post("/tokens", {"name": "dora"})["token"]
    async with aiohttp.ClientSession(shared_gateway.address, headers=bearing(token)) as http:
        async with http.get(f"{PREFIX}/audit") as response:
            assert response.status == 200
        async with http.get(f"{PREFIX}/audit/export") as response:
            assert response.status == 403
    control.post("/tokens/revoke", {"name": "dora"})
    tokens = (await v1.get("/audit", text="dora"))["rows"]
    assert [(row["kind"], row["actor"]) for row in tokens] == [
        ("token.revoked", OPERATOR),
        ("refused.request", "viewer:dora"),
        ("token.added", OPERATOR),
    ]


def said(home: Path, *args: str, code: int = 0) -> str:
    done = CliRunner().invoke(command, [*args, "--home", str(home)])
    assert done.exit_code == code, done.output
    return done.output


async def test_the_command_asks_the_gateway_that_runs(
    v1: V1, shared_gateway: GatewayProcess
) -> None:
    session = await v1.open()
    await v1.end(await v1.say(session, '[tool terminal {"command": "true"}]'))
    shown = said(shared_gateway.home, "--session", session)
    assert "tool.call" in shown and "terminal" in shown and '{"command": "true"}' in shown
    (row,) = map(json.loads, said(shared_gateway.home, "--session", session, "--json").splitlines())
    assert row["session_id"] == session
    assert said(shared_gateway.home, "--session", session[:-1]) == shown  # the beginning says which
    assert "rows verified" in said(shared_gateway.home, "verify")
    last = said(shared_gateway.home, "export").splitlines()[-1]
    assert json.loads(last)["seq"] >= row["seq"]


async def test_what_is_added_is_followed(v1: V1, shared_gateway: GatewayProcess) -> None:
    """By what the gateway tells, not by asking again and again."""
    session = await v1.open()
    last = await Deeds(v1).last()
    rows = follow_rows(api_client_for(shared_gateway.home), {"session": session}, last)
    more = asyncio.ensure_future(asyncio.to_thread(next, rows))
    await v1.end(await v1.say(session, '[tool terminal {"command": "true"}]'))
    async with asyncio.timeout(30):
        (row,) = await more
    assert (row.kind, row.session_id) == ("tool.call", session)
    rows.close()


def test_the_command_reads_the_store_where_no_gateway_runs(tmp_path: Path) -> None:
    """K1: under the home's lock; what was changed behind the gateway's back is found."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "state.db").touch(mode=0o600)

    async def fill(store: Store) -> None:
        for number in (1, 2):
            name = f"p{number}"
            kind, facts = AuditKind.PROCESS_KILLED, {"command": "=sleep"}
            act = AuditEntry(kind=kind, actor=OPERATOR, at=number, subject=name, facts=facts)
            await store.record_audit(act)

    query_store(home, fill, purpose="a test")
    assert "p2" in said(home, "--kind", "process", "--text", "SLEEP")
    head, first, _ = said(home).splitlines()
    assert head == "SEQ  WHEN                 KIND            ACTOR     SUBJECT  OUTCOME  DETAILS"
    assert [head.index(word) for word in ("KIND", "SUBJECT")] == [
        first.index(word) for word in ("process.killed", "p1")
    ]
    assert "No row matches." in said(home, "--actor", "nobody")
    assert "Did you mean process.killed?" in said(home, "--kind", "proces.killed", code=2)
    assert "write 20m, 2h or '3 days'" in said(home, "--since", "yesterday", code=2)
    assert "2 rows verified, from 1 to 2" in said(home, "verify")
    to = tmp_path / "audit.csv"
    said(home, "export", "--format", "csv", "-o", str(to))
    assert len(to.read_text().splitlines()) == 3
    assert to.stat().st_mode & 0o777 == 0o600
    assert "audit.exported" in said(home, "-n", "1")

    async def tamper(store: Any) -> None:
        def change(cursor: Any) -> None:
            cursor.execute("DROP TRIGGER audit_stays")
            cursor.execute("UPDATE audit SET actor = 'nobody' WHERE seq = 2")

        await store._submit(change)

    query_store(home, tamper, purpose="a test")
    assert "row 2 is not as it was written" in said(home, "verify", code=1)
