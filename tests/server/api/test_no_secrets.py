"""Deleted sessions leave no rows, and secrets leave no output of `/api/v1`."""

import apsw
from tests.server.api.v1_helpers import v1_client_of
from tests.support.gateway_process import NewGateway, SpawnedGateway
from tests.support.v1_client import V1


async def test_no_table_but_the_audit_has_rows_of_a_deleted_session(
    new_gateway: NewGateway,
) -> None:
    """Message texts are removed, also from the audit: decision 45."""
    gateway = new_gateway().start()
    async with v1_client_of(gateway) as v1:
        kept = await v1.open()
        await v1.end(await v1.say(kept, "kept words"))
        session = await v1.open("to go")
        start = '[tool process {"action": "start", "command": "sleep 600"}]'
        await v1.end(await v1.say(session, f"secret words {start}"))
        await v1.end(await v1.say(session, "/help", "m2"))
        await v1.ask("DELETE", f"/sessions/{session}")
    gateway.end()
    text = table_rows(gateway)
    assert session not in text and "secret words" not in text and "to%20go" not in text
    assert kept in text and "kept words" in text
    audit = table_rows(gateway, table="audit")
    assert session in audit and "sleep 600" not in audit


def table_rows(gateway: SpawnedGateway, *, table: str = "") -> str:
    """The rows of all tables but the audit, or of one table."""
    db = apsw.Connection(str(gateway.paths.db), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = [
            str(row[0])
            for row in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")
            if (str(row[0]) == table if table else str(row[0]) != "audit")
        ]
        return "\n".join(str(row) for t in tables for row in db.execute(f'SELECT * FROM "{t}"'))
    finally:
        db.close()


async def test_no_output_contains_the_token(v1: V1, shared_gateway: SpawnedGateway) -> None:
    """Exact values are redacted in everything that the API returns, live or stored."""
    session = await v1.open()
    outputs: list[str] = []
    async with v1.events(f"/sessions/{session}/events") as events:
        message = await v1.say(
            session, f"[delay 0.02] [text it is {shared_gateway.token} as you know]"
        )
        async for event in events:
            outputs.append(str(event.data))
            if event.name == "ended" and event.data["id"] == message:
                break
    for path in ("", "/transcript", "/export"):
        async with v1.http.get(f"/api/v1/sessions/{session}{path}") as response:
            outputs.append(await response.text())
    outputs.append(str(await v1.get("/search", q="as you know")))
    outputs.append(str(await v1.end(message)))
    assert not [text for text in outputs if shared_gateway.token in text]
    assert all("[redacted]" in text for text in outputs[-5:])
