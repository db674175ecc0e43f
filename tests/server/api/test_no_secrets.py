"""What `/api/v1` leaves behind, and what it never lets out."""

import apsw
from tests.server.api.test_streams import client_of
from tests.support.gateway_process import GatewayProcess, NewGateway
from tests.support.v1_client import V1


async def test_no_table_keeps_anything_of_a_deleted_session_but_the_audit_what_was_done(
    new_gateway: NewGateway,
) -> None:
    """What was said goes, also out of the audit: decision 45."""
    gateway = new_gateway().start()
    async with client_of(gateway) as v1:
        kept = await v1.open()
        await v1.end(await v1.say(kept, "kept words"))
        session = await v1.open("to go")
        start = '[tool process {"action": "start", "command": "sleep 600"}]'
        await v1.end(await v1.say(session, f"secret words {start}"))
        await v1.end(await v1.say(session, "/help", "m2"))
        await v1.ask("DELETE", f"/sessions/{session}")
    gateway.end()
    text = everything(gateway)
    assert session not in text and "secret words" not in text and "to%20go" not in text
    assert kept in text and "kept words" in text
    audit = everything(gateway, only="audit")
    assert session in audit and "sleep 600" not in audit


def everything(gateway: GatewayProcess, *, only: str = "") -> str:
    """All rows but those of the audit; or those of one table."""
    db = apsw.Connection(str(gateway.paths.db), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables = [
            str(row[0])
            for row in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")
            if (str(row[0]) == only if only else str(row[0]) != "audit")
        ]
        return "\n".join(str(row) for t in tables for row in db.execute(f'SELECT * FROM "{t}"'))
    finally:
        db.close()


async def test_no_way_out_tells_the_token(v1: V1, shared_gateway: GatewayProcess) -> None:
    """The exact-value gate stands before everything that is said here, live or kept."""
    session = await v1.open()
    said: list[str] = []
    async with v1.events(f"/sessions/{session}/events") as events:
        message = await v1.say(
            session, f"[delay 0.02] [text it is {shared_gateway.token} as you know]"
        )
        async for event in events:
            said.append(str(event.data))
            if event.name == "ended" and event.data["id"] == message:
                break
    for path in ("", "/transcript", "/export"):
        async with v1.http.get(f"/api/v1/sessions/{session}{path}") as response:
            said.append(await response.text())
    said.append(str(await v1.get("/search", q="as you know")))
    said.append(str(await v1.end(message)))
    assert not [text for text in said if shared_gateway.token in text]
    assert all("[redacted]" in text for text in said[-5:])
