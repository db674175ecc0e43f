"""K2: each write touches one session, so that sessions could be stored on many machines."""

from pathlib import Path

import apsw
from tests.support.approvals import HeldShell, PrefixJudge
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.session_tracking_store import SessionTrackingStore

from holdfast.core.ids import SessionId, SessionKey
from holdfast.core.ports.store_commands import OpenSession
from holdfast.core.ports.store_queries import ListOpenTurns, ListSessions
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.sessions import teardown


async def test_a_command_touches_one_session(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """K2: except for commands that move a chat from one session to another."""
    opened: list[SessionTrackingStore] = []

    def open_store(path: Path) -> SessionTrackingStore:
        opened.append(SessionTrackingStore(path))
        return opened[-1]

    async def is_open() -> bool:
        return bool(await harness.store.read(ListOpenTurns()))

    await harness.stop()
    harness.open_store, harness.extra_tools, harness.judge = (
        open_store,
        [HeldShell()],
        PrefixJudge(),
    )
    await harness.start()
    harness.model.say(
        [call(ReplayClass.SAFE)], "one", "two", [call("shell", '{"command": "rm -rf x"}')]
    )
    harness.say("hello")
    harness.say("hello", chat="other")
    await harness.sent(2)
    harness.say("clean up")
    await harness.sent(3)
    harness.model.say("done")
    harness.say("/approve")
    await harness.sent(5)
    for command in ("/fork", "/undo", "/title better", "/new", "/sessions", "/busy queue", "/stop"):
        harness.say(command)
        await harness.sent(len(harness.service.ledger().sent) + 1)
    harness.say("hello again")
    await harness.model.wait_for_request(6)
    await until(is_open)  # the model is called while the begin of the turn is being committed
    await harness.die()
    harness.model.say("again")
    await harness.start()
    await harness.sent(13)
    gateway = harness.gateway
    for session in await harness.store.read(ListSessions(limit=10)):
        await teardown.delete_session(gateway.services, gateway.lanes, gateway.teardown, session.id)

    assert {
        "turns.resume_turn",
        "approvals.request_approvals",
        "session_history.delete_session",
    } <= _names(opened)
    assert _of_several(opened) <= {"commands.apply_command"}


async def test_the_tracking_store_detects_a_command_that_touches_two_sessions(
    tmp_path: Path,
) -> None:
    """K2: the check itself can fail."""
    store = SessionTrackingStore(tmp_path / "state.db")
    async with store:
        for name in ("one", "two"):
            await store.write(
                OpenSession(session_id=SessionId(name), route=SessionKey(name), at=1.0)
            )
        assert _of_several([store]) == set()
        await store._submit(_rename_all)
        assert _of_several([store]) == {"test_one_session_per_command._rename_all"}


def _rename_all(cursor: apsw.Cursor) -> None:
    cursor.execute("UPDATE sessions SET title = 'x'")


def _names(stores: list[SessionTrackingStore]) -> set[str]:
    return {name for store in stores for name in store.touched}


def _of_several(stores: list[SessionTrackingStore]) -> set[str]:
    return {
        name
        for store in stores
        for name, found in store.touched.items()
        if max(map(len, found)) > 1
    }
