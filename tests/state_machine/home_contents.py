"""Everything in the database of an idle home, and the types of the invariants that check it."""

from collections.abc import Callable, Iterator

import apsw
import msgspec
from tests.state_machine.home import Home

from holdfast.core.commands import parse_command, parse_command_word
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.jobs.job import Job, JobId, JobRun
from holdfast.core.messages.inbox import END_STATES, BusyMode, InboxRow, InboxState
from holdfast.core.messages.outbox import DeliveryRow
from holdfast.core.messages.transcript import Message, TranscriptRecord
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.turn import TurnRow
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import outbox, sessions
from holdfast.store.sqlite.writes import outbox as streams


class HomeContents:
    """Everything in the database of a gateway that is idle."""

    def __init__(self, home: Home) -> None:
        assert home.current_run is not None
        self.home = home
        look = home.current_run.store.look
        self.inbox: dict[InboxId, InboxRow] = {row.id: row for row in look(_inbox)}
        self.outbox: list[DeliveryRow] = look(_outbox)
        self.turns: list[TurnRow] = look(_turns)
        self.jobs: dict[JobId, Job] = {job.id: job for job in home.jobs()}
        self.runs: dict[JobId, list[JobRun]] = {each: home.job_runs(each) for each in self.jobs}
        self.sessions: dict[SessionId, SessionRow] = {row.id: row for row in look(_sessions)}
        self.records: dict[SessionId, list[TranscriptRecord]] = {
            session_id: look(
                sessions.records, session_id=session_id, limit=9999, after=0, before=None
            )
            for session_id in self.sessions
        }
        self.transcripts: dict[SessionId, list[Message]] = {
            session_id: [
                r.message for r in look(sessions.transcript_records, session_id=session_id)
            ]
            for session_id in self.sessions
        }

    def reply_row(self, row: InboxRow) -> InboxRow | None:
        """The row whose reply is this row's reply too; a steer's is that of its turn."""
        if row.state is not InboxState.MERGED:
            return row
        if row.merged_into is not None:
            return self.reply_row(self.inbox[row.merged_into])
        leads = [
            other
            for other in self.inbox.values()
            if other.turn_id == row.turn_id and other.state is not InboxState.MERGED
        ]
        interrupted = [
            other
            for other in self.inbox.values()
            if other.turn_id == row.turn_id and other.merged_into is not None
        ]
        if not leads and interrupted:
            return self.reply_row(interrupted[-1])
        return leads[-1] if leads else None

    def replies_to(self, row: InboxRow) -> list[DeliveryRow]:
        return [delivery for delivery in self.outbox if delivery.inbox_id == row.id]


Invariant = Callable[[HomeContents], Iterator[str]]
StepInvariant = Callable[[Home], Iterator[str]]


def is_command(row: InboxRow) -> bool:
    """Also true for a word such as `yes`, which is a command while an approval is pending."""
    text = row.inbound.text
    return row.inbound.commands and (
        parse_command(text) is not None or parse_command_word(text) is not None
    )


def may_be_late(contents: HomeContents, row: InboxRow) -> bool:
    """Whether a row belongs to a command whose commit failed: the sender gets an error, and the
    next start carries the command out. Messages that the command dropped from a lane are late with
    it."""
    if not contents.home.disk.refused:
        return False
    if is_command(row):
        return True
    return any(
        other.route == row.route and other.id > row.id and other.state not in END_STATES
        for other in contents.inbox.values()
        if is_command(other)
    )


def was_steered(row: InboxRow) -> bool:
    """Whether the message went into a turn that another one began; its decision may not be
    stored."""
    into_turn = row.state is InboxState.MERGED and row.merged_into is None
    return row.decision is BusyMode.STEER or into_turn


def ran_in_another_turn(row: InboxRow) -> bool:
    """Whether the message ran in another turn or not at all: it may name a turn that only ended
    it."""
    return was_steered(row) or row.state is InboxState.SUPERSEDED


def is_retry(row: InboxRow) -> bool:
    return row.inbound.event_id.startswith("holdfast/retry/")


def is_internal(row: InboxRow) -> bool:
    """Whether the gateway itself created the message: a note, a job run or a retry."""
    return row.inbound.note or row.inbound.run is not None or is_retry(row)


def _inbox(cursor: apsw.Cursor) -> list[InboxRow]:
    return [
        rows.decode_inbox_row(r)
        for r in cursor.execute(f"SELECT {rows.INBOX_COLUMNS} FROM inbox ORDER BY id")
    ]


def _outbox(cursor: apsw.Cursor) -> list[DeliveryRow]:
    found = outbox._select(cursor, "1 = 1")
    return [msgspec.structs.replace(row, parts=streams.read_parts(cursor, row.id)) for row in found]


def _turns(cursor: apsw.Cursor) -> list[TurnRow]:
    found = cursor.execute(f"SELECT {rows.TURN_COLUMNS} FROM turns ORDER BY started_at, id")
    return [rows.decode_turn(row) for row in found]


def _sessions(cursor: apsw.Cursor) -> list[SessionRow]:
    return sessions.sessions(
        cursor, limit=10_000, offset=0, q="", platform="", include_subagents=True
    )
