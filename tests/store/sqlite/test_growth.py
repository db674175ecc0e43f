"""Reads cost as much as their answers, however much is stored: counted in steps of SQLite's virtual
machine, which do not depend on how busy the machine is."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
import pytest
from bench.big_stores import fill_sessions

from holdfast.core.ids import PrincipalId, SessionId, SessionKey
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.sessions.reset import ResetMode, ResetPolicies, ResetPolicy, ResetRule
from holdfast.core.sessions.session import SessionFilter
from holdfast.store.search.index_file import (
    changes_since,
    index_next_batch,
    open_index,
    saved_position,
)
from holdfast.store.sqlite.connection import open_reader, open_writer
from holdfast.store.sqlite.file_check import SEARCH_FILE
from holdfast.store.sqlite.reads import inbox, outbox, sessions
from holdfast.store.sqlite.writes import session_history, session_state
from holdfast.system.paths import Paths

SMALL, LARGE = 300, 3000
Read = Callable[[apsw.Cursor], object]
DAY = 86400.0
OWNER = PrincipalId("api:default:owner")  # of every session
LIST = {"limit": 20, "offset": 0, "q": "", "platform": "", "include_subagents": False}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A store of some sessions, and one of ten times as many. Half of the sessions have ended."""
    paths = []
    for size in (SMALL, LARGE):
        home = tmp_path_factory.mktemp(f"store-of-{size}")
        fill_sessions(home, sessions=size)
        path = Paths(home).db
        db = open_writer(path, vfs=None)
        db.execute(
            "UPDATE sessions SET ended_at = active_at WHERE instr('13579bdf', substr(id, -1))"
        )
        db.close()
        paths.append(path)
    return paths


def count_steps(path: Path, read: Read) -> int:
    return _count_steps(open_reader(path, vfs=None), read)


def _count_steps(db: apsw.Connection, read: Read) -> int:
    """Of the virtual machine, in tens."""
    steps = 0

    def on_progress() -> bool:
        nonlocal steps
        steps += 1
        return False

    db.set_progress_handler(on_progress, 10)
    try:
        read(db.cursor())
    finally:
        db.close()
    return steps


def middle(cursor: apsw.Cursor) -> tuple[float, SessionId]:
    found = cursor.execute("SELECT avg(active_at) FROM sessions").get
    return float(found), SessionId("s_0")


def expiring(cursor: apsw.Cursor) -> object:
    policies = ResetPolicies(ResetPolicy(mode=ResetMode.IDLE))
    return sessions.expiring_sessions(
        cursor,
        deadline=lambda _, active_at: policies.earliest(active_at),
        earliest=policies.earliest,
        limit=20,
    )


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda c: sessions.sessions(c, **LIST), id="first page"),
        pytest.param(
            lambda c: sessions.sessions(c, **LIST, among=SessionFilter(ended=True)), id="ended"
        ),
        pytest.param(
            lambda c: sessions.sessions(c, **{**LIST, "platform": "api"}), id="of a platform"
        ),
        pytest.param(expiring, id="to expire"),
        pytest.param(
            lambda c: sessions.sessions_unused_since(c, before=9e9, limit=20), id="to prune"
        ),
        pytest.param(inbox.inbox_counts, id="messages by state"),
        pytest.param(outbox.outbox_counts, id="deliveries by state"),
        pytest.param(outbox.undelivered_rows, id="deliveries to send"),
        pytest.param(
            lambda c: outbox.list_deliveries(
                c, states=(DeliveryState.FAILED,), platform="", before=None, limit=20
            ),
            id="failed deliveries",
        ),
        *(
            pytest.param(
                lambda c, states=states: outbox.list_deliveries(
                    c, states=states, platform="irc", before=None, limit=20
                ),
                id=f"{'sent ' * len(states)}deliveries of a platform that has none",
            )
            for states in ((), (DeliveryState.SENT,))
        ),
        pytest.param(
            lambda c: sessions.visible_sessions(
                c, route=SessionKey("elsewhere"), principal=OWNER, limit=200
            ),
            id="sessions of a person who has them all",
        ),
        pytest.param(
            lambda c: sessions.visible_sessions(
                c, route=SessionKey("elsewhere"), principal=PrincipalId("new"), limit=200
            ),
            id="sessions of a person who has none",
        ),
        pytest.param(
            lambda c: session_state.recently_active_sessions(c, 9e9), id="active just now"
        ),
    ],
)
def test_a_read_does_not_cost_more_in_a_store_of_ten_times_the_size(
    stores: Sequence[Path], read: Read
) -> None:
    small, large = (count_steps(path, read) for path in stores)
    assert large <= small * 1.3 + 10, f"{small} steps became {large}"


@pytest.mark.parametrize("behind", [0, 5])
def test_what_the_search_index_lacks_is_found_without_a_look_at_the_rest(
    stores: Sequence[Path], behind: int, tmp_path: Path
) -> None:
    def read(cursor: apsw.Cursor) -> object:
        position = saved_position(cursor)
        assert position is not None
        found = changes_since(cursor, position)
        assert found is not None and len(found[1]) == behind + 1
        for session_id in found[1]:
            index_next_batch(cursor, session_id)
        return found

    steps = []
    for number, path in enumerate(stores):
        home = tmp_path / str(number)
        shutil.copytree(path.parent, home)
        db = open_writer(copy := home / path.name, vfs=None)
        db.execute(
            "INSERT INTO messages (session_id, seq, created_at, body)"
            " SELECT id, 100, 1.0, '{}' FROM sessions LIMIT ?",
            (behind,),
        )
        db.close()
        index = open_index(home / SEARCH_FILE, state=copy, vfs=None)
        steps.append(_count_steps(index, read))
    assert steps[1] <= steps[0] * 1.3 + 10, f"{steps[0]} steps became {steps[1]}"


def test_the_deletion_of_a_session_costs_what_the_session_has(
    stores: Sequence[Path], tmp_path: Path
) -> None:
    """Also where others have replies of several parts, and approvals for good."""
    session_id = SessionId(f"s_{7:027x}")
    steps = []
    for number, path in enumerate(stores):
        shutil.copy(path, copy := tmp_path / f"{number}.db")
        db = open_writer(copy, vfs=None)
        db.execute(
            "INSERT INTO parts (delivery_id, number, session_id, state, updated_at)"
            " SELECT id, 1, session_id, 'sent', 1.0 FROM outbox;"
            "INSERT INTO approval_rules SELECT id, 'session', id, 'p', 'r', '', 'p', 1.0"
            " FROM sessions"
        )
        steps.append(
            _count_steps(db, lambda c: session_history.delete_session(c, session_id=session_id))
        )
    assert steps[1] <= steps[0] * 1.3 + 10, f"{steps[0]} steps became {steps[1]}"


def test_a_page_in_the_middle_costs_what_the_first_page_costs(stores: Sequence[Path]) -> None:
    large = stores[1]
    db = open_reader(large, vfs=None)
    after = middle(db.cursor())
    db.close()
    page = count_steps(large, lambda c: sessions.sessions(c, **LIST))
    deep = count_steps(
        large, lambda c: sessions.sessions(c, **LIST, among=SessionFilter(after=after))
    )
    assert deep <= page * 1.3 + 10


@pytest.mark.parametrize("ended", [None, False, True])
@pytest.mark.parametrize("after", [None, "middle"])
def test_a_page_has_the_sessions_that_a_full_scan_would_list(
    stores: Sequence[Path], ended: bool | None, after: str | None
) -> None:
    db = open_reader(stores[0], vfs=None)
    cursor = db.cursor()
    place = middle(cursor) if after else None
    found = sessions.sessions(
        cursor, **{**LIST, "offset": 7}, among=SessionFilter(ended=ended, after=place)
    )
    rows = cursor.execute("SELECT id, active_at, ended_at FROM sessions").fetchall()
    expected = sorted(
        (-row[1], row[0])
        for row in rows
        if ended in (None, row[2] is not None) and (place is None or row[1] < place[0])
    )
    assert [row.id for row in found] == [session_id for _, session_id in expected[7:27]]
    db.close()


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_the_sessions_that_expire_first_are_found_whatever_the_policies(
    stores: Sequence[Path], limit: int
) -> None:
    """A daily end, an idle time, and no end at all, by the number of the session."""
    policies = [
        ResetPolicy(mode=ResetMode.DAILY),
        ResetPolicy(mode=ResetMode.IDLE, idle_minutes=4000),
        ResetPolicy(mode=ResetMode.NONE),
    ]
    rules = [
        ResetRule(reset=policy.mode, idle_minutes=policy.idle_minutes) for policy in policies[1:]
    ]
    earliest = ResetPolicies(policies[0], rules).earliest

    def deadline(route: str, active_at: float) -> float | None:
        policy = policies[int(route.rstrip(":").rpartition("E")[2]) % 3]
        return ResetPolicies(policy).earliest(active_at)

    db = open_reader(stores[0], vfs=None)
    cursor = db.cursor()
    found = sessions.expiring_sessions(cursor, deadline=deadline, earliest=earliest, limit=limit)
    rows = cursor.execute("SELECT route, active_at FROM sessions WHERE ended_at IS NULL").fetchall()
    ends = (deadline(str(route), active_at) for route, active_at in rows)
    expected = sorted(end for end in ends if end is not None)
    assert [each.expires_at for each in found] == expected[:limit]
    db.close()


@pytest.mark.parametrize("limit", [5, 200])
@pytest.mark.parametrize("person", [OWNER, PrincipalId("other")])
def test_the_sessions_of_a_person_are_those_that_a_full_scan_would_list(
    stores: Sequence[Path], tmp_path: Path, person: PrincipalId, limit: int
) -> None:
    """Also of a person who has few of those that were active last."""
    shutil.copy(stores[1], copy := tmp_path / "state.db")
    db = open_writer(copy, vfs=None)
    cursor = db.cursor()
    cursor.execute(
        "UPDATE sessions SET principal = 'other' WHERE id IN (SELECT id FROM sessions"
        " ORDER BY active_at LIMIT 900) OR id = (SELECT id FROM sessions ORDER BY active_at DESC)"
    )
    found = sessions.visible_sessions(
        cursor, route=SessionKey("elsewhere"), principal=person, limit=limit
    )
    expected = cursor.execute(
        "SELECT id FROM sessions WHERE principal = ? ORDER BY active_at DESC, id DESC LIMIT ?",
        (person, limit),
    ).fetchall()
    assert [row.id for row in found] == [session_id for (session_id,) in expected]
    db.close()


def counted(cursor: apsw.Cursor, table: str) -> dict[str, int]:
    found = cursor.execute(f"SELECT state, count(*) FROM {table} GROUP BY state").fetchall()
    return {str(state): int(str(count)) for state, count in found}


def test_counts_follow_every_change_of_a_row(tmp_path: Path) -> None:
    """G3: also deletion and pruning, and a row that changes after its end."""
    fill_sessions(tmp_path, sessions=20)
    db = open_writer(Paths(tmp_path).db, vfs=None)
    cursor = db.cursor()

    def check() -> None:
        messages = inbox.inbox_counts(cursor)
        pruned = dict(cursor.execute("SELECT state, count FROM pruned").fetchall())
        for state in InboxState:
            here = counted(cursor, "inbox").get(state, 0)
            assert messages[state] == here + int(str(pruned.get(state, 0)))
        deliveries = outbox.outbox_counts(cursor)
        assert {state: n for state, n in deliveries.items() if n} == counted(cursor, "outbox")

    check()
    cursor.execute("UPDATE outbox SET state = 'failed' WHERE seq % 2")
    check()
    cursor.execute("UPDATE outbox SET state = 'pending' WHERE seq < 4")
    check()
    cursor.execute("UPDATE inbox SET state = 'refused' WHERE id < 3")
    cursor.execute("UPDATE inbox SET state = 'queued', ended_at = NULL WHERE id = 3")
    check()
    session_id = SessionId(f"s_{7:027x}")
    session_history.delete_session(cursor, session_id=session_id)
    check()
    assert session_history.prune_inbox(cursor, before=9e12) > 0
    assert session_history.prune_outbox(cursor, before=9e12) > 0
    check()
    db.close()
