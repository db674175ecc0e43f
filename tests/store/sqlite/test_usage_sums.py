"""The usage of people, chats and conversations: kept as sums, and always what a sum of all turns
and auxiliary calls would be."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import apsw
import pytest
from tests.faults.backup_homes import write_turns

from holdfast.core.crash_points import no_crash
from holdfast.core.ids import CallId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import AssistantMessage, CompactionMessage, UserMessage
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.subagent import Subagent, SubagentKind
from holdfast.core.turns.turn import BeginTurn, EndTurn, StepKind, TurnRowState, Usage
from holdfast.store.recovery.recover import recover_database
from holdfast.store.sqlite.connection import open_writer
from holdfast.store.sqlite.reads import session_stats, sessions
from holdfast.store.sqlite.rows import USAGE_COLUMNS
from holdfast.store.sqlite.schema import apply_migration, load_migrations
from holdfast.store.sqlite.totals import WriterConnection, advance_marks
from holdfast.store.sqlite.writer import WriterThread
from holdfast.store.sqlite.writes import (
    commands,
    inbox,
    session_history,
    transcript,
    turns,
)

CHATS = [SessionKey(f"irc:default:dm:{chat}:") for chat in "abc"]
PEOPLE = [PrincipalId("ann"), PrincipalId("ben"), None]
_TOTALS = ", ".join(f"coalesce(sum({column}), 0)" for column in USAGE_COLUMNS.split(", "))
_OF_THOSE = (
    f"SELECT {_TOTALS} FROM (SELECT session_id, {USAGE_COLUMNS} FROM turns UNION ALL"
    f" SELECT session_id, {USAGE_COLUMNS} FROM auxiliary) WHERE session_id IN"
)
_REACHED = (
    "(WITH RECURSIVE mine (id) AS (SELECT s.id FROM sessions s WHERE (s.route = ?1 OR"
    " s.principal = ?2 OR s.id = (SELECT session_id FROM routes WHERE key = ?1))"
    " AND NOT EXISTS (SELECT 1 FROM children c WHERE c.session_id = s.id) UNION"
    " SELECT c.session_id FROM children c JOIN mine ON c.parent_id = mine.id) SELECT id FROM mine)"
)
_BELOW = (
    "(WITH RECURSIVE below (id) AS (SELECT session_id FROM children WHERE parent_id = ?1 UNION"
    " SELECT c.session_id FROM children c JOIN below ON c.parent_id = below.id)"
    " SELECT id FROM below)"
)


def full_sum(cursor: apsw.Cursor, those: str, *bindings: str | None) -> Usage:
    (found,) = cursor.execute(f"{_OF_THOSE} {those}", bindings).fetchall()
    return Usage(**dict(zip(USAGE_COLUMNS.split(", "), found, strict=True)))  # type: ignore[arg-type]


def check_usage(cursor: apsw.Cursor) -> None:
    for route in CHATS:
        for principal in PEOPLE:
            found = sessions.visible_usage(cursor, route=route, principal=principal)
            assert found == full_sum(cursor, _REACHED, route, principal), (route, principal)
    for (name,) in cursor.execute("SELECT id FROM sessions").fetchall():
        session_id = SessionId(str(name))
        assert sessions.session_usage(cursor, session_id) == full_sum(cursor, "(?1)", session_id)
        below = sessions.subagents_usage(cursor, session_id)
        assert below == full_sum(cursor, _BELOW, session_id)


def count_usage(cursor: apsw.Cursor) -> None:
    """As the writer does after every thousand writes."""
    assert isinstance(cursor.connection, WriterConnection)
    advance_marks(cursor.connection)


class History:
    """Random writes, as a gateway makes them."""

    def __init__(self, cursor: apsw.Cursor, seed: int) -> None:
        self._cursor = cursor
        self._random = Random(seed)
        self._now = 1000
        self._open: dict[SessionId, TurnId] = {}

    def step(self) -> None:
        self._now += 1
        actions = [self.begin, self.begin, self.end, self.end, self.start_subagent]
        actions += [self.use_beside, self.renew, self.resume, self.own, self.delete, self.count]
        self._random.choice(actions)()

    def begin(self) -> None:
        """In a chat, or in any session that is there; also with an earlier clock."""
        route = self._random.choice(CHATS)
        session_id = SessionId(self._id("s"))
        known = self._sessions()
        if known and self._random.random() < 0.7:
            session_id, route = self._random.choice(known)
        if session_id in self._open:
            return
        turn_id = TurnId(self._id("t"))
        is_subagent = route not in CHATS
        turns.begin_turn(
            self._cursor,
            BeginTurn(
                session_id=session_id,
                turn_id=turn_id,
                route=route,
                inbox_ids=(),
                messages=(UserMessage(text="hi"),),
                prompt="",
                principal=None if is_subagent else self._random.choice(PEOPLE),
                at=self._now,
            ),
        )
        self._open[session_id] = turn_id

    def end(self) -> None:
        if not self._open:
            return
        session_id = self._random.choice(list(self._open))
        turns.end_turn(
            self._cursor,
            EndTurn(
                session_id=session_id,
                turn_id=self._open.pop(session_id),
                state=TurnRowState.ANSWERED,
                usage=self._usage(),
                at=self._now,
            ),
        )

    def start_subagent(self) -> None:
        if not (known := self._sessions()):
            return
        parent, _ = self._random.choice(known)
        session_id = SessionId(self._id("s"))
        source = Source(platform="internal", chat_id=session_id, user_id="ann")
        subagent = Subagent(
            session_id=session_id,
            parent=parent,
            call_id=CallId("call"),
            kind=SubagentKind.BACKGROUND,
            principal=PrincipalId("ann"),
            title="",
            depth=1,
            max_steps=1,
            toolsets=(),
            sandbox_session=parent,
            chat=source,
            message_id="",
        )
        inbox.accept_subagent_task(
            self._cursor,
            subagent,
            inbound=Inbound(source=source, event_id=session_id, message_id="", text="do it"),
            route=SessionKey(f"internal:{session_id}:"),
            principal=PrincipalId("ann"),
            at=self._now,
        )

    def use_beside(self) -> None:
        if known := self._sessions():
            transcript.add_auxiliary_usage(
                self._cursor,
                session_id=self._random.choice(known)[0],
                errand=self._random.choice(("title", "summary")),
                usage=self._usage(),
            )

    def renew(self) -> None:
        """`/new`"""
        commands.apply_command(
            self._cursor,
            CommandEffect(
                inbox_ends=(),
                route=self._random.choice(CHATS),
                new_session=SessionId(self._id("s")),
                at=self._now,
            ),
        )

    def resume(self) -> None:
        """A chat goes on in a session of any chat, which may move to it."""
        if known := [each for each in self._sessions() if each[1] in CHATS]:
            session_id, _ = self._random.choice(known)
            session_history.resume_session(
                self._cursor, session_id, route=self._random.choice(CHATS), at=self._now
            )

    def own(self) -> None:
        if known := [each for each in self._sessions() if each[1] in CHATS]:
            self._cursor.execute(
                "UPDATE sessions SET principal = ? WHERE id = ?",
                (self._random.choice(PEOPLE), self._random.choice(known)[0]),
            )

    def delete(self) -> None:
        """With its subagents, of which the last begun go first."""
        known = self._sessions()
        if not known or self._random.random() < 0.5:
            return
        session_id, _ = self._random.choice(known)
        below = sessions.subagents_below(self._cursor, session_id)
        for each in (*(one.session_id for one in reversed(below)), session_id):
            session_history.delete_session(self._cursor, session_id=each)
            self._open.pop(each, None)

    def delete_all(self) -> None:
        for session_id, _ in reversed(self._sessions()):
            session_history.delete_session(self._cursor, session_id=session_id)

    def count(self) -> None:
        count_usage(self._cursor)

    def _sessions(self) -> Sequence[tuple[SessionId, SessionKey]]:
        found = self._cursor.execute("SELECT id, route FROM sessions ORDER BY created_at, id")
        return [(SessionId(str(name)), SessionKey(str(route))) for name, route in found.fetchall()]

    def _id(self, kind: str) -> str:
        """Ids rise with time, unless the clock was set back."""
        at = self._now - self._random.choice((0, 0, 0, 20))
        return f"{kind}_{at:06}{self._random.getrandbits(32):08x}"

    def _usage(self) -> Usage:
        numbers = [self._random.randrange(1000) for _ in range(4)]
        return Usage(**dict(zip(USAGE_COLUMNS.split(", "), numbers, strict=True)))


@pytest.fixture
def cursor(tmp_path: Path) -> Iterator[apsw.Cursor]:
    db = open_writer(tmp_path / "state.db", vfs=None)
    yield db.cursor()
    db.close()


@pytest.mark.parametrize("seed", range(12))
def test_usage_is_that_of_a_full_sum_whatever_happens(cursor: apsw.Cursor, seed: int) -> None:
    history = History(cursor, seed)
    for _ in range(150):
        history.step()
        check_usage(cursor)
    assert cursor.execute("SELECT count(*) FROM usage_counted").get
    history.delete_all()
    check_usage(cursor)
    for table in ("usage_counted", "usage_sums"):
        assert cursor.execute(f"SELECT * FROM {table}").fetchall() == []


async def test_usage_is_counted_after_every_thousand_writes(tmp_path: Path) -> None:
    def write(cursor: apsw.Cursor) -> None:
        cursor.execute(
            "INSERT INTO turns (id, session_id, state, started_at, ended_at, input_tokens)"
            " SELECT printf('t_%05d', count(*)), 's', 'answered', 1.0, 1.0, 1 FROM turns"
        )

    def open_session(cursor: apsw.Cursor) -> None:
        cursor.execute(
            "INSERT INTO sessions (id, route, created_at, active_at, principal)"
            " VALUES ('s', 'r', 1.0, 1.0, 'ann')"
        )

    path = tmp_path / "state.db"
    async with WriterThread(path, vfs=None, crash=no_crash) as writer:
        await writer.submit(open_session)
        for _ in range(998):
            await writer.submit(write)
        assert await counted_usage(writer) == 0  # the write that reads it is the thousandth
        await writer.submit(write)
        assert await counted_usage(writer) == 998
        await asyncio.gather(*(writer.submit(write) for _ in range(1500)))
        assert await counted_usage(writer) >= 1998
    cursor = open_writer(path, vfs=None).cursor()
    found = sessions.visible_usage(cursor, route=CHATS[0], principal=PrincipalId("ann"))
    assert found.input_tokens == 2499


async def counted_usage(writer: WriterThread) -> int:
    found: int = await writer.submit(
        lambda cursor: (
            cursor.execute("SELECT coalesce(sum(input_tokens), 0) FROM usage_counted").get
        )
    )
    return found


def test_usage_is_counted_anew_when_a_damaged_file_is_recovered(tmp_path: Path) -> None:
    """Its rows are inserted in no useful order."""
    path, new = tmp_path / "state.db", tmp_path / "new.db"
    asyncio.run(write_turns(path, turns=12, sessions=3))
    db = open_writer(path, vfs=None)
    history = History(db.cursor(), 3)
    for _ in range(100):
        history.step()
    db.close()
    recover_database(path, new, progress=lambda done, of: None)
    db = open_writer(new, vfs=None)
    check_usage(db.cursor())
    assert db.execute("SELECT count(*) FROM usage_counted").get
    db.close()


def test_usage_of_an_older_store_is_counted_when_it_is_migrated(tmp_path: Path) -> None:
    """Also of subagents of subagents."""
    db = apsw.Connection(":memory:")
    for migration in load_migrations()[:22]:
        apply_migration(db, migration)
    db.execute(
        "INSERT INTO sessions (id, route, created_at, active_at, principal) VALUES"
        " ('s_1', 'irc:default:dm:a:', 1.0, 9e3, 'ann'), ('s_2', 'x', 1.0, 1.0, NULL),"
        " ('s_3', 'x', 1.0, 1.0, NULL), ('s_4', 'irc:default:dm:b:', 1.0, 1.0, NULL);"
        "INSERT INTO children VALUES ('s_2', 's_1', 1, 1.0, '{}'), ('s_3', 's_2', 1, 1.0, '{}');"
        "INSERT INTO turns (id, session_id, state, started_at, input_tokens) SELECT"
        " 't' || id, id, 'answered', 1.0, 10 FROM sessions;"
        "INSERT INTO auxiliary SELECT id, 'title', 1, 1, 2, 3, 4 FROM sessions"
    )
    for migration in load_migrations()[22:]:
        apply_migration(db, migration)
    assert db.execute("SELECT active_hour FROM sessions WHERE id = 's_1'").get == 2
    check_usage(db.cursor())
    assert db.execute("SELECT count(*) FROM usage_counted").get == 4
    db.close()


@pytest.mark.parametrize("seed", range(6))
def test_usage_by_model_is_that_of_all_steps_wherever_it_was_stored(
    cursor: apsw.Cursor, seed: int
) -> None:
    """In the middle of a turn, too, and though a tool that began before ends after it."""
    random, session_id = Random(seed), SessionId("s")
    cursor.execute(
        "INSERT INTO sessions (id, route, created_at, active_at) VALUES ('s', 'r', 1, 1)"
    )
    position = transcript.TurnPosition(session_id, TurnId("t0"), 1.0)
    expected: dict[str, Usage] = {}

    def reply() -> None:
        used, model = Usage(input_tokens=random.randrange(9)), random.choice(["", "big", "small"])
        message = AssistantMessage(text="so", model=model)
        seq = transcript.append_message(cursor, message, position)
        transcript.add_step(cursor, StepKind.MODEL, position, message_seq=seq, usage=used)
        expected[model] = expected.get(model, Usage()) + used

    def compact() -> None:
        used, message = (
            Usage(output_tokens=random.randrange(9)),
            CompactionMessage(text="", covers=1),
        )
        transcript.add_compaction_in_turn(cursor, position=position, message=message, usage=used)
        expected[""] = expected.get("", Usage()) + used

    def start_tool() -> None:
        transcript.start_step(cursor, CallId("call"), position, allowed=None)

    def finish_tool() -> None:
        seq = transcript.append_message(cursor, UserMessage(text="done"), position)
        transcript.finish_step(cursor, CallId("call"), position, message_seq=seq)

    def begin_turn() -> None:
        nonlocal position
        position = position._replace(turn_id=TurnId(f"t{random.getrandbits(32)}"))

    def store() -> None:
        transcript.count_model_usage(cursor, session_id)
        assert session_stats.session_usage_by_model(cursor, session_id).uncounted == 0

    for _ in range(120):
        random.choice([reply, reply, compact, start_tool, finish_tool, begin_turn, store])()
        found = session_stats.session_usage_by_model(cursor, session_id).by_model
        assert found == {model: used for model, used in expected.items() if used != Usage()}
    session_history.delete_session(cursor, session_id=session_id)
    store()
    assert cursor.execute("SELECT * FROM model_usage").fetchall() == []
