"""The books of a home that has settled: everything in its file, side by side."""

from collections.abc import Callable, Iterator

import apsw
import msgspec
from tests.state_machine.home import Home

from holdfast.core.ids import InboxId, SessionId
from holdfast.core.jobs.job import Job, JobId, JobRun
from holdfast.core.messages.inbox import END_STATES, BusyMode, InboxRow, InboxState
from holdfast.core.messages.outbox import DeliveryRow
from holdfast.core.messages.transcript import Message, TranscriptRecord
from holdfast.core.people.commands import parse_command_word
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.turn import TurnRow
from holdfast.gateway.commands.command import parse_command
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import outbox, sessions
from holdfast.store.sqlite.writes import outbox as streams


class Books:
    """Everything that is in the file of a gateway that has settled."""

    def __init__(self, home: Home) -> None:
        assert home.life is not None
        self.home = home
        look = home.life.store.look
        self.inbox: dict[InboxId, InboxRow] = {row.id: row for row in look(_inbox)}
        self.outbox: list[DeliveryRow] = look(_outbox)
        self.turns: list[TurnRow] = look(_turns)
        self.jobs: dict[JobId, Job] = {job.id: job for job in home.jobs()}
        self.runs: dict[JobId, list[JobRun]] = {each: home.runs(each) for each in self.jobs}
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

    def told_in(self, row: InboxRow) -> InboxRow | None:
        """The row whose reply is this row's reply too; a steer's is that of its turn."""
        if row.state is not InboxState.MERGED:
            return row
        if row.merged_into is not None:
            return self.told_in(self.inbox[row.merged_into])
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
            return self.told_in(interrupted[-1])
        return leads[-1] if leads else None

    def replies_to(self, row: InboxRow) -> list[DeliveryRow]:
        return [delivery for delivery in self.outbox if delivery.inbox_id == row.id]


Law = Callable[[Books], Iterator[str]]


Law = Callable[[Books], Iterator[str]]
Instant = Callable[[Home], Iterator[str]]


def is_command(row: InboxRow) -> bool:
    """Or a word that is one where something was asked."""
    text = row.inbound.text
    return row.inbound.commands and (
        parse_command(text) is not None or parse_command_word(text) is not None
    )


def may_be_late(books: Books, row: InboxRow) -> bool:
    """A command whose commit failed: whoever waits is told so, and the next start does it. What
    it dropped from a lane, or left to the commit that failed, is late with it."""
    if not books.home.weather.refused:
        return False
    if is_command(row):
        return True
    return any(
        other.route == row.route and other.id > row.id and other.state not in END_STATES
        for other in books.inbox.values()
        if is_command(other)
    )


def was_steered(row: InboxRow) -> bool:
    """Into a turn that others began, perhaps long before; its decision may not have been kept."""
    into_turn = row.state is InboxState.MERGED and row.merged_into is None
    return row.decision is BusyMode.STEER or into_turn


def ran_elsewhere(row: InboxRow) -> bool:
    """Or not at all: it may name a turn that only ended it."""
    return was_steered(row) or row.state is InboxState.SUPERSEDED


def is_said_again(row: InboxRow) -> bool:
    return row.inbound.event_id.startswith("holdfast/retry/")


def is_inner(row: InboxRow) -> bool:
    """Made by the gateway itself, on behalf of somebody who said something else."""
    return row.inbound.note or row.inbound.run is not None or is_said_again(row)


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
    return sessions.sessions(cursor, limit=10_000, offset=0, q="", platform="", children=True)
