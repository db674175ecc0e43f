"""Reads cost as much as their answers, however much is stored: counted in steps of SQLite's virtual
machine, which do not depend on how busy the machine is."""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from bench.big_stores import fill_sessions

from holdfast.core.ids import DeliveryId, InboxId, PrincipalId, SessionId, SessionKey
from holdfast.core.messages.inbox import END_STATES, Inbound, InboxEnd, InboxState
from holdfast.core.messages.outbox import Address, DeliveryKind, DeliveryState, NewDelivery
from holdfast.core.messages.source import Source
from holdfast.core.sessions.reset import ResetMode, ResetPolicies, ResetPolicy, ResetRule
from holdfast.core.sessions.session import SessionFilter
from holdfast.core.turns.turn import Usage
from holdfast.store.search.index_file import (
    changes_since,
    count_entries,
    delete_session,
    index_next_batch,
    open_index,
    saved_position,
)
from holdfast.store.sqlite.connection import open_reader, open_writer
from holdfast.store.sqlite.file_check import SEARCH_FILE
from holdfast.store.sqlite.reads import inbox, outbox, session_stats, sessions, turns
from holdfast.store.sqlite.totals import advance_marks
from holdfast.store.sqlite.writes import inbox as inbox_writes
from holdfast.store.sqlite.writes import outbox as outbox_writes
from holdfast.store.sqlite.writes import session_history, session_state, transcript
from holdfast.system.paths import Paths

SMALL, LARGE = 300, 3000
Read = Callable[[apsw.Cursor], object]
DAY = 86400.0
OWNER = PrincipalId("api:default:owner")  # of every session
COUNT_USAGE = "UPDATE counted SET last = last WHERE name = 'inbox'"  # as every thousand messages do
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
            "UPDATE sessions SET ended_at = active_at WHERE instr('13579bdf', substr(id, -1));"
            "UPDATE sessions SET route = 'api-2' || substr(route, 4) WHERE id LIKE '%00'"
        )
        db.close()
        paths.append(path)
    return paths


@pytest.fixture(scope="module")
def peopled(stores: Sequence[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same stores, where the older sessions are another person's, in one chat."""
    copies = []
    for path in stores:
        shutil.copy(path, copy := tmp_path_factory.mktemp("peopled") / path.name)
        db = open_writer(copy, vfs=None)
        db.execute(
            "UPDATE sessions SET principal = 'early', route = 'chat' WHERE id IN"
            " (SELECT id FROM sessions ORDER BY active_at LIMIT (SELECT count(*) FROM sessions) / 4"
            f" * 3); {COUNT_USAGE}"
        )
        db.close()
        copies.append(copy)
    return copies


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
        *(
            pytest.param(
                lambda c, platform=platform: sessions.sessions(
                    c, **{**LIST, "limit": 2, "platform": platform}
                ),
                id=f"of {platform}",
            )
            for platform in ("api", "irc")  # all sessions, and none
        ),
        pytest.param(
            lambda c: sessions.sessions(c, **LIST, among=SessionFilter(suspended=True)),
            id="suspended",
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
            lambda c: session_state.recently_active_sessions(c, 9e9), id="active just now"
        ),
    ],
)
def test_a_read_does_not_cost_more_in_a_store_of_ten_times_the_size(
    stores: Sequence[Path], read: Read
) -> None:
    small, large = (count_steps(path, read) for path in stores)
    assert large <= small * 1.3 + 10, f"{small} steps became {large}"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="of an old platform"),
        pytest.param({"q": "session"}, id="and with a title"),
        pytest.param({"among": SessionFilter(ended=True)}, id="and ended"),
        pytest.param({"among": SessionFilter(suspended=True)}, id="and suspended"),
        pytest.param({"among": SessionFilter(after=(1e12, SessionId("")))}, id="from a place on"),
    ],
)
def test_a_page_of_a_platform_does_not_cost_more_if_others_were_active_later(
    peopled: Sequence[Path], tmp_path: Path, change: dict[str, Any]
) -> None:
    """Also if the platform has many pages."""
    steps = []
    for number, path in enumerate(peopled):
        shutil.copy(path, copy := tmp_path / f"{number}.db")
        db = open_writer(copy, vfs=None)
        db.execute(
            "UPDATE sessions SET route = 'irc:default:dm:old:', title = 'A session'"
            " WHERE principal = 'early'"
        )
        db.close()
        steps.append(
            count_steps(
                copy,
                lambda c: sessions.sessions(c, **{**LIST, "limit": 2, "platform": "irc"} | change),
            )
        )
    assert steps[1] <= steps[0] * 1.3 + 10, f"{steps[0]} steps became {steps[1]}"


@pytest.mark.parametrize(
    "read", [partial(sessions.visible_sessions, limit=50), sessions.visible_usage]
)
@pytest.mark.parametrize(
    ("route", "person"),
    [
        pytest.param("elsewhere", OWNER, id="active last"),
        pytest.param("elsewhere", "early", id="active long ago"),
        pytest.param("chat", "new", id="a chat that was active long ago"),
        pytest.param("elsewhere", "new", id="none"),
    ],
)
def test_the_sessions_of_a_person_and_their_usage_do_not_cost_more(
    peopled: Sequence[Path], read: Callable[..., object], route: str, person: str
) -> None:
    small, large = (
        count_steps(path, lambda c: read(c, route=SessionKey(route), principal=PrincipalId(person)))
        for path in peopled
    )
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
        for (session_id,) in db.execute("SELECT session_id FROM messages WHERE seq = 100"):
            transcript.note_added_messages(db.cursor(), SessionId(str(session_id)))
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
            "INSERT INTO approval_rules SELECT id, 'session', id, 'p', 'r', '', 'p', 1.0, NULL, 0.0"
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
@pytest.mark.parametrize("platform", ["", "api", "api-2", "ap"])
def test_a_page_has_the_sessions_that_a_full_scan_would_list(
    stores: Sequence[Path], ended: bool | None, after: str | None, platform: str
) -> None:
    db = open_reader(stores[0], vfs=None)
    cursor = db.cursor()
    place = middle(cursor) if after else None
    found = sessions.sessions(
        cursor,
        **{**LIST, "offset": 7, "platform": platform},
        among=SessionFilter(ended=ended, after=place),
    )
    rows = [
        row[:3]
        for row in cursor.execute("SELECT id, active_at, ended_at, route FROM sessions").fetchall()
        if not platform or str(row[3]).startswith(f"{platform}:")
    ]
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


def test_the_sessions_of_a_person_do_not_cost_more_when_all_were_active_at_once(
    stores: Sequence[Path], tmp_path: Path
) -> None:
    """So many in one hour that it is not read as a whole."""
    steps = []
    for number, path in enumerate(stores):
        shutil.copy(path, copy := tmp_path / f"{number}.db")
        db = open_writer(copy, vfs=None)
        db.execute("UPDATE sessions SET active_at = 1e9 + abs(random() % 700)")
        db.close()
        read = partial(
            sessions.visible_sessions, route=SessionKey("elsewhere"), principal=OWNER, limit=10
        )
        steps.append(count_steps(copy, read))
    assert steps[1] <= steps[0] * 1.3 + 10, f"{steps[0]} steps became {steps[1]}"


@pytest.mark.parametrize("limit", [1, 50, 5000])
@pytest.mark.parametrize("person", [OWNER, PrincipalId("early"), PrincipalId("new"), None])
@pytest.mark.parametrize("route", ["elsewhere", "chat", "api-2"])
def test_the_sessions_of_a_person_are_those_that_a_full_scan_would_list(
    peopled: Sequence[Path], tmp_path: Path, route: str, person: PrincipalId | None, limit: int
) -> None:
    """Also of a chat that goes on in a session of another one, without subagents, and with many
    in one hour."""
    shutil.copy(peopled[0], copy := tmp_path / "state.db")
    db = open_writer(copy, vfs=None)
    cursor = db.cursor()
    cursor.execute(
        "UPDATE sessions SET active_at = 2e9 + random() % 100 WHERE id LIKE '%2';"
        "UPDATE sessions SET active_at = 1e9 WHERE id LIKE '%3';"
        "INSERT INTO routes SELECT 'api-2', id FROM sessions WHERE id LIKE '%77';"
        "INSERT INTO children SELECT id, '', 1, 1.0, '{}', '' FROM sessions WHERE id LIKE '%9'"
    )
    found = sessions.visible_sessions(
        cursor, route=SessionKey(route), principal=person, limit=limit
    )
    expected = cursor.execute(
        "SELECT id FROM sessions WHERE (principal = ?1 OR route = ?2"
        " OR id = (SELECT session_id FROM routes WHERE key = ?2)) AND id NOT LIKE '%9'"
        " ORDER BY active_at DESC, id DESC LIMIT ?3",
        (person, route, limit),
    ).fetchall()
    assert [row.id for row in found] == [session_id for (session_id,) in expected]
    db.close()


def test_the_price_of_a_session_is_not_summed_from_all_its_steps_each_time(
    tmp_path: Path,
) -> None:
    steps = []
    for size in (SMALL, LARGE):
        db = open_writer(path := tmp_path / f"{size}.db", vfs=None)
        db.execute(
            "INSERT INTO sessions (id, route, created_at, active_at) VALUES ('s', 'r', 1, 1)"
        )
        db.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers"
            " WHERE n < ?) INSERT INTO messages (session_id, seq, turn_id, created_at, body)"
            " SELECT 's', n, 't' || (n / 9), 1.0, json_object('model', 'm') FROM numbers",
            (size,),
        )
        db.execute(
            "INSERT INTO steps (session_id, turn_id, seq, kind, message_seq, started_at,"
            " output_tokens) SELECT 's', turn_id, seq, 'model', seq, 1.0, 1 FROM messages"
        )
        transcript.count_model_usage(db.cursor(), SessionId("s"))
        # A turn that goes on with another model.
        db.execute(
            "INSERT INTO messages (session_id, seq, turn_id, created_at, body)"
            " SELECT 's', ?1 + 1, turn_id, 1.0, '{}' FROM messages WHERE seq = ?1",
            (size,),
        )
        db.execute(
            "INSERT INTO steps (session_id, turn_id, seq, kind, message_seq, started_at,"
            " input_tokens) SELECT 's', turn_id, seq, 'model', seq, 1.0, 5 FROM messages"
            " WHERE seq = ?",
            (size + 1,),
        )
        db.close()
        steps.append(count_steps(path, partial(_check_price, size=size)))
    assert steps[1] <= steps[0] * 1.3 + 10, f"{steps[0]} steps became {steps[1]}"


def _check_price(cursor: apsw.Cursor, *, size: int) -> None:
    used = session_stats.session_usage_by_model(cursor, SessionId("s"))
    assert used.uncounted == 1
    assert used.by_model == {"m": Usage(output_tokens=size), "": Usage(input_tokens=5)}


def test_the_hour_of_the_last_activity_follows_it(tmp_path: Path) -> None:
    """Whatever writes it, and whatever it says of the hour."""
    db = open_writer(tmp_path / "state.db", vfs=None)
    cursor = db.cursor()
    cursor.execute(
        "INSERT INTO sessions (id, route, created_at, active_at, active_hour)"
        " VALUES ('a', 'r', 1.0, 7300.0, 99), ('b', 'r', 1.0, 3599.0, 0)"
    )
    hours = "SELECT active_hour FROM sessions ORDER BY id"
    assert cursor.execute(hours).fetchall() == [(2,), (0,)]
    cursor.execute("UPDATE sessions SET active_at = active_at + 1")
    assert cursor.execute(hours).fetchall() == [(2,), (1,)]
    db.close()


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(sessions.session_usage, id="usage"),
        pytest.param(sessions.subagents_usage, id="usage of its subagents"),
        pytest.param(sessions.last_turn, id="last turn"),
        pytest.param(sessions.last_source, id="last source"),
        pytest.param(
            lambda c, session_id: turns.turns_of_session(
                c, session_id=session_id, limit=5, before=None
            ),
            id="last turns",
        ),
        pytest.param(
            lambda c, session_id: sessions.visible_usage(
                c, route=SessionKey("elsewhere"), principal=None
            ),
            id="usage of a chat that goes on there",
        ),
    ],
)
def test_a_read_of_a_session_does_not_cost_more_with_ten_times_the_turns(
    tmp_path: Path, read: Callable[[apsw.Cursor, SessionId], object]
) -> None:
    """And ten times the subagents."""
    steps = []
    for size in (SMALL, LARGE):
        db = open_writer(path := tmp_path / f"{size}.db", vfs=None)
        db.execute(
            "INSERT INTO sessions (id, route, created_at, active_at) VALUES ('s', 'r', 1.0, 1.0);"
            "INSERT INTO routes VALUES ('elsewhere', 's')"
        )
        db.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers"
            " WHERE n < ?) INSERT INTO turns (id, session_id, state, started_at)"
            " SELECT printf('t_%06d', n), 's', 'answered', n FROM numbers",
            (size,),
        )
        db.execute(
            "INSERT INTO children SELECT 'c' || id, 's', 1, 1.0, '{}', 's' FROM turns;"
            "INSERT INTO turns (id, session_id, state, input_tokens, started_at)"
            " SELECT 'a_' || session_id, session_id, 'answered', 7, 1.0 FROM children;"
            "INSERT INTO inbox (id, platform, account, event_id, route, principal, state,"
            " accepted_at, body) VALUES (1, 'irc', '', '', '', '', 'answered', 1.0, json_object("
            "'source', json_object('platform', 'irc', 'chat_id', 'c', 'user_id', 'u')));"
            "INSERT INTO outbox (id, address, kind, turn_id, inbox_id, state, created_at,"
            " updated_at) SELECT id, '', 'reply', id, 1, 'sent', 1.0, 1.0 FROM turns;"
            f"{COUNT_USAGE}"
        )
        db.close()
        steps.append(count_steps(path, lambda c: read(c, SessionId("s"))))
    assert steps[1] <= steps[0] * 1.3 + 10, f"{steps[0]} steps became {steps[1]}"


def test_the_number_of_indexed_messages_is_known_without_a_count(
    stores: Sequence[Path], tmp_path: Path
) -> None:
    """Counted in pages: SQLite counts the rows of a table in one step of its machine."""
    pages = []
    for number, path in enumerate(stores):
        home = tmp_path / str(number)
        shutil.copytree(path.parent, home)
        index = open_index(home / SEARCH_FILE, state=home / path.name, vfs=None)
        cursor = index.cursor()
        before = _pages_read(index)
        found = count_entries(cursor)
        pages.append(_pages_read(index) - before)
        entries = "SELECT count(*) FROM entries"
        assert found == cursor.execute(entries).get > SMALL
        delete_session(cursor, SessionId(f"s_{7:027x}"))
        assert found > count_entries(cursor) == cursor.execute(entries).get
        index.close()
    assert pages[1] <= pages[0] + 3, f"{pages[0]} pages became {pages[1]}"


def _pages_read(db: apsw.Connection) -> int:
    kinds = (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS)
    return sum(db.status(kind)[0] for kind in kinds)


def test_a_search_index_without_messages_has_none(tmp_path: Path) -> None:
    open_writer(state := tmp_path / "state.db", vfs=None).close()
    index = open_index(tmp_path / SEARCH_FILE, state=state, vfs=None)
    assert count_entries(index.cursor()) == 0
    index.close()


def counted(cursor: apsw.Cursor, table: str) -> dict[str, int]:
    found = cursor.execute(f"SELECT state, count(*) FROM {table} GROUP BY state").fetchall()
    return {str(state): int(str(count)) for state, count in found}


def check_counts(cursor: apsw.Cursor) -> None:
    messages = inbox.inbox_counts(cursor)
    pruned = dict(cursor.execute("SELECT state, count FROM pruned").fetchall())
    for state in InboxState:
        here = counted(cursor, "inbox").get(state, 0)
        assert messages[state] == here + int(str(pruned.get(state, 0)))
    deliveries = outbox.outbox_counts(cursor)
    assert {state: n for state, n in deliveries.items() if n} == counted(cursor, "outbox")


def test_counts_follow_every_change_of_a_row(tmp_path: Path) -> None:
    """G3: also deletion and pruning, and a delivery that is sent again."""
    fill_sessions(tmp_path, sessions=20)
    db = open_writer(Paths(tmp_path).db, vfs=None)
    cursor = db.cursor()

    check_counts(cursor)
    cursor.execute("UPDATE outbox SET state = 'failed' WHERE seq % 2")
    check_counts(cursor)
    cursor.execute("UPDATE outbox SET state = 'pending' WHERE seq < 4")
    check_counts(cursor)
    session_id = SessionId(f"s_{7:027x}")
    session_history.delete_session(cursor, session_id=session_id)
    check_counts(cursor)
    assert session_history.prune_inbox(cursor, before=9e12) > 0
    assert session_history.prune_outbox(cursor, before=9e12) > 0
    check_counts(cursor)
    db.close()


@pytest.mark.parametrize("seed", range(6))
def test_counts_hold_before_and_after_rows_are_counted(tmp_path: Path, seed: int) -> None:
    """G3: rows end and are deleted, and deliveries are sent, fail and are sent again, before and
    after the totals contain them."""
    random = Random(seed)
    db = open_writer(tmp_path / "state.db", vfs=None)
    cursor = db.cursor()
    route, source = (
        SessionKey("irc:default:dm:a:"),
        Source(platform="irc", chat_id="a", user_id="u"),
    )
    open_ids: list[InboxId] = []
    for number in range(1, 250):
        at = float(number)
        match random.randrange(10):
            case 0 | 1 | 2 | 3:
                row = inbox_writes.accept_message(
                    cursor,
                    inbound=Inbound(source=source, event_id=str(number), message_id="", text=""),
                    route=route,
                    principal=OWNER,
                    at=at,
                ).row
                open_ids.append(row.id)
                state = random.choice((DeliveryState.SENT, DeliveryState.PENDING))
                outbox_writes.add_deliveries(
                    cursor,
                    (
                        NewDelivery(
                            id=DeliveryId(f"d{number}"),
                            address=Address(platform="irc", account="", chat_id="a"),
                            kind=DeliveryKind.REPLY,
                            text="",
                            state=state,
                        ),
                    ),
                    at=at,
                )
            case 4 | 5 | 6 if open_ids:
                ended = open_ids.pop(random.randrange(len(open_ids)))
                end = InboxEnd(inbox_id=ended, state=random.choice(sorted(END_STATES)))
                inbox_writes.end_row(cursor, end, at=at)
            case 7 if open_ids:
                before = InboxId(random.choice(open_ids))
                ended_ids = inbox_writes.supersede_queued(
                    cursor, route, before=before, spared=open_ids[:1], at=at
                )
                open_ids = [each for each in open_ids if each not in ended_ids]
            case 8:
                cursor.execute(
                    "DELETE FROM inbox WHERE ended_at IS NOT NULL AND id % 7 = ?",
                    (random.randrange(7),),
                )
                cursor.execute("DELETE FROM outbox WHERE seq % 9 = ?", (random.randrange(9),))
            case _:
                cursor.execute(
                    "UPDATE outbox SET state = ? WHERE seq % 5 = ?",
                    (random.choice(("sent", "failed")), random.randrange(5)),
                )
        if random.random() < 0.05:
            advance_marks(db)
        check_counts(cursor)
    assert db.marks.message > 0
    db.close()
