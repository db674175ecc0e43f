"""G1: the cursor of a platform is committed together with the message that moved it."""

from pathlib import Path

from tests.support.store_file import open_read_only
from tests.support.stores import open_store

from holdfast.core.crash_points import CrashPoint
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.ports.store_commands import AcceptMessage

MESSAGES = 50


def message(number: int) -> Inbound:
    return Inbound(
        source=Source(platform="sim", chat_id="c", user_id="u"),
        event_id=str(number),
        message_id=str(number),
        text="hi",
        cursor=Cursor(name="updates", value=str(number)),
    )


class CommitObserver:
    """Records what another process would find after each commit: last message and cursor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: list[tuple[str | None, str | None]] = []

    def __call__(self, point: CrashPoint) -> None:
        if point is not CrashPoint.AFTER_COMMIT:
            return
        with open_read_only(self._path) as db:
            last = db.execute("SELECT event_id FROM inbox ORDER BY id DESC LIMIT 1").fetchone()
            cursor = db.execute("SELECT value FROM cursors").fetchone()
        self.found.append((last and last[0], cursor and cursor[0]))


async def test_no_commit_has_a_cursor_without_its_message_or_a_message_without_its_cursor(
    tmp_path: Path,
) -> None:
    """G1: after a crash both are there or neither, so that no message is skipped."""
    observer = CommitObserver(tmp_path / "state.db")
    async with open_store(tmp_path / "state.db", crash=observer) as store:
        for number in range(1, MESSAGES + 1):
            inbound = message(number)
            route = build_session_key(inbound.source)
            await store.write(
                AcceptMessage(
                    inbound=inbound, route=route, principal=PrincipalId("u"), at=float(number)
                )
            )
    assert observer.found[-1] == (str(MESSAGES), str(MESSAGES))
    assert [pair for pair in observer.found if pair[0] != pair[1]] == []
