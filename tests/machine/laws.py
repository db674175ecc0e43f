"""The laws: what must hold at every instant, and what of a gateway that was left in peace.

Each law yields a sentence for every breach of it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw
from tests.machine.home import Home, Watch

from holdfast.core.child import HOUSE
from holdfast.core.commands import spoken
from holdfast.core.events import MessageEnded, StepEnded, StreamVoided, TextStreamed, TurnStarted
from holdfast.core.ids import DeliveryId, InboxId, SessionId, TurnId
from holdfast.core.inbox import ENDS, BusyMode, InboxRow, InboxState
from holdfast.core.message import (
    AssistantMessage,
    Message,
    NoteMessage,
    Record,
    ToolMessage,
    UserMessage,
)
from holdfast.core.outbox import DeliveryRow, DeliveryState
from holdfast.core.session import SessionRow
from holdfast.core.stopping import LeftAs
from holdfast.core.tool import Replay
from holdfast.core.turn import TurnRow, TurnState
from holdfast.gateway.commands.command import parse
from holdfast.gateway.cut_notes import cut_note
from holdfast.platforms.simulated.wire import Sent
from holdfast.store import outbox_reads, reads, rows

Instant = Callable[[Home], Iterator[str]]


def the_gateway_lives(home: Home) -> Iterator[str]:
    gone = home.life is not None and home.life.task.done() and not home.life.leaving
    if gone and not home.failed_to_start:
        yield f"the gateway has ended by itself: {home.life.task}"


def requests_are_sound(home: Home) -> Iterator[str]:
    """H7, H5: what the model was asked is what a provider takes, one turn at a time."""
    yield from home.complaints


def no_effect_twice(home: Home) -> Iterator[str]:
    """H2: what may have had an effect is not done again."""
    for name, lever in home.levers.items():
        for call_id, times in lever.pulled.items():
            if times > 1 and lever.replay is not Replay.SAFE:
                yield f"the call {call_id} of the tool {name} was run {times} times"


def nothing_is_repeated_unmarked(home: Home) -> Iterator[str]:
    """I2: a reply is there once, or a second time with a mark."""
    idempotent = home.service.about.idempotent_send
    for delivery_id, sent in _sent(home).items():
        if len(sent) > (1 if idempotent else 2):
            yield f"{delivery_id} was taken {len(sent)} times"
        if any(not again.outgoing.maybe_repeated for again in sent[1:]):
            yield f"{delivery_id} was repeated without a mark"


def what_was_acknowledged_is_there(home: Home) -> Iterator[str]:
    """G1, G2: a row that was told to be accepted is in the log, with its event."""
    if home.life is None or home.life.store.writer.open is False:
        return
    known = dict(home.life.store.look(_events))
    for inbox_id, event_id in home.rows.items():
        if known.get(inbox_id) != event_id:
            yield f"row {inbox_id} of event {event_id} is gone"


def buffers_are_the_log(home: Home) -> Iterator[str]:
    """The buffer of an agent that no turn has is the transcript, message for message."""
    if not home.ready or home.life is None or home.life.store.writer.jobs:
        return
    gateway = home.gateway
    for session_id, entry in gateway.house.cache._entries.items():
        if entry.busy or gateway.lanes.get(session_id) is not None:
            continue
        skipped, records = home.life.store.look(reads.context, session_id=session_id)
        log, agent = [record.message for record in records], entry.agent
        if (skipped, log) != (agent.context.skipped, agent.messages):
            yield (
                f"the buffer of {session_id} is {agent.messages} after {agent.context.skipped}, "
                f"the log has {log} after {skipped}"
            )


def turns_are_left_as_they_stood(home: Home) -> Iterator[str]:
    """F5, F7, H6: ended, parked or marked; counted once, and never for being parked."""
    yield from home.ends.breaches


ALWAYS: Sequence[Instant] = (
    the_gateway_lives,
    turns_are_left_as_they_stood,
    requests_are_sound,
    no_effect_twice,
    nothing_is_repeated_unmarked,
    what_was_acknowledged_is_there,
    buffers_are_the_log,
)


class Books:
    """Everything that is in the file of a gateway that has settled."""

    def __init__(self, home: Home) -> None:
        assert home.life is not None
        self.home = home
        look = home.life.store.look
        self.inbox: dict[InboxId, InboxRow] = {row.id: row for row in look(_inbox)}
        self.outbox: list[DeliveryRow] = look(_outbox)
        self.turns: list[TurnRow] = look(_turns)
        self.sessions: dict[SessionId, SessionRow] = {row.id: row for row in look(_sessions)}
        self.records: dict[SessionId, list[Record]] = {
            session_id: look(reads.records, session_id=session_id, limit=9999, after=0, before=None)
            for session_id in self.sessions
        }
        self.transcripts: dict[SessionId, list[Message]] = {
            session_id: [r.message for r in look(reads.messages, session_id=session_id)]
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


def everything_ends(books: Books) -> Iterator[str]:
    """G3: every accepted message reaches one visible end, without anybody's help."""
    for row in books.inbox.values():
        if row.state not in ENDS:
            yield f"row {row.id} ({row.inbound.text!r}) is {row.state}"


def everything_ends_but_commands_that_failed(books: Books) -> Iterator[str]:
    """G3: a command whose commit failed is carried out at the next start, as it was told."""
    for row in books.inbox.values():
        if row.state not in ENDS and not _may_be_late(books, row):
            yield f"row {row.id} ({row.inbound.text!r}) is {row.state}"


def _may_be_late(books: Books, row: InboxRow) -> bool:
    """A command whose commit failed: whoever waits is told so, and the next start does it. What
    it dropped from a lane, or left to the commit that failed, is late with it."""
    if not books.home.weather.refused:
        return False
    if is_command(row):
        return True
    return any(
        other.route == row.route and other.id > row.id and other.state not in ENDS
        for other in books.inbox.values()
        if is_command(other)
    )


def ends_are_told(books: Books) -> Iterator[str]:
    """G3: what is answered, failed or refused has one reply, what is superseded has none."""
    for row in books.inbox.values():
        replies = len(books.replies_to(row))
        wanted = 0 if row.state in (InboxState.MERGED, InboxState.SUPERSEDED) else 1
        if row.state in ENDS and replies != wanted:
            yield f"row {row.id} ({row.inbound.text!r}) is {row.state} with {replies} replies"
        if row.state is InboxState.MERGED and books.told_in(row) is None:
            yield f"row {row.id} is merged into nothing"


def no_turn_is_open(books: Books) -> Iterator[str]:
    for turn in books.turns:
        if turn.state is TurnState.OPEN:
            yield f"turn {turn.id} is open"


def what_was_said_is_accepted_once(books: Books) -> Iterator[str]:
    """G1, G2."""
    known = Counter(
        row.inbound.message_id
        for row in books.inbox.values()
        if row.inbound.source.platform == "simulated" and not is_inner(row)
    )
    for said in books.home.service.ledger().said:
        if known[said.message_id] != 1:
            yield f"{said.text!r} was accepted {known[said.message_id]} times"


def what_was_said_is_in_one_place(books: Books) -> Iterator[str]:
    """A message that was answered stands once in the log, with its turn; a copy names none."""
    places: defaultdict[str, list[tuple[SessionId, TurnId]]] = defaultdict(list)
    for session_id, records in books.records.items():
        for record in records:
            if record.turn_id is not None and isinstance(record.message, UserMessage):
                places[record.message.text].append((session_id, record.turn_id))
    said_again = {row.inbound.text for row in books.inbox.values() if is_said_again(row)}
    for row in books.inbox.values():
        text = row.inbound.text
        if is_command(row) or row.inbound.note or text in said_again or is_said_again(row):
            continue
        found = places[text]
        if len(found) > 1:
            yield f"{text!r} stands {len(found)} times in the log"
        told = row.state in (InboxState.ANSWERED, InboxState.MERGED)
        if told and [place[0] for place in found] != [row.session_id]:
            yield f"{text!r} of {row.session_id} stands in {found}"


def every_call_has_one_result(books: Books) -> Iterator[str]:
    """H7: and no result is without its call."""
    for session_id, messages in books.transcripts.items():
        called = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.calls]
        results = [m.call_id for m in messages if isinstance(m, ToolMessage)]
        if Counter(called) != Counter(results):
            yield f"{session_id}: the calls are {called}, the results of {results}"


def cuts_are_told_once(books: Books) -> Iterator[str]:
    """F6: one note for one cut, by what cut it; none where a turn was parked."""
    told: Counter[tuple[TurnId, str]] = Counter(
        (record.turn_id, record.message.text)
        for records in books.records.values()
        for record in records
        if record.turn_id is not None and isinstance(record.message, NoteMessage)
    )
    for turn in books.turns:
        cuts = 0
        for left in (LeftAs.RESTART_TIMEOUT, LeftAs.SHUTDOWN_TIMEOUT, None):
            notes = told[turn.id, cut_note(left or "crash").text]
            cuts += books.home.ends.cuts[turn.id, left]
            if notes > books.home.ends.cuts[turn.id, left]:
                yield f"{turn.id} has {notes} notes of {left}, and was cut so less often"
        notes_in_all = sum(n for (turn_id, text), n in told.items() if turn_id == turn.id)
        if turn.state is TurnState.ANSWERED and cuts and not notes_in_all:
            yield f"{turn.id} was cut, and never told so"


def the_order_is_kept(books: Books) -> Iterator[str]:
    """H5: turns take the messages of a route in the order in which they were accepted, but for
    one that was to steer and came too late."""
    if books.home.weather.undecided:
        return  # which one that was is not known
    began = {turn.id: int(turn.id.removeprefix("turn_")) for turn in books.turns}
    last: dict[str, tuple[InboxId, int]] = {}
    for row in books.inbox.values():
        if row.turn_id is None or was_steered(row):
            continue
        before = last.get(row.route)
        if before is not None and began[row.turn_id] < before[1]:
            yield f"row {row.id} ran before row {before[0]} of its route"
        last[row.route] = (row.id, began[row.turn_id])


def deliveries_are_settled(books: Books) -> Iterator[str]:
    """I2: sent is what the platform has; nothing is owed any more."""
    sent = _sent(books.home)
    for delivery in books.outbox:
        if delivery.state in (DeliveryState.PENDING, DeliveryState.SENDING):
            yield f"delivery {delivery.id} is {delivery.state}"
        if delivery.state is DeliveryState.UNKNOWN and not delivery.doubtful:
            yield f"delivery {delivery.id} is unknown without a doubt"
        fetched = delivery.address.platform in ("api", HOUSE)
        if delivery.state is DeliveryState.SENT and not fetched and delivery.id not in sent:
            yield f"delivery {delivery.id} is sent, and the platform does not have it"


def chats_are_in_order(books: Books) -> Iterator[str]:
    """I3: a chat gets what it is owed in the order in which that was committed, whichever
    conversation or command of that chat it comes from."""
    owed = {delivery.id: delivery for delivery in books.outbox}
    last: dict[str, int] = {}
    for delivery_id in _sent(books.home):
        delivery = owed[DeliveryId(delivery_id)]
        chat = delivery.address.chat_id
        if delivery.seq < last.get(chat, 0):
            yield f"{delivery_id} overtook another of chat {chat}"
        last[chat] = max(delivery.seq, last.get(chat, 0))


def routes_are_where_they_should_be(books: Books) -> Iterator[str]:
    """G4: a route keeps its session until a command leaves it, or until another took its place
    and says so."""
    if books.home.weather.refused:
        return  # a /new that could not be kept is carried out late
    last: dict[str, SessionId] = {}
    for row in books.inbox.values():
        command = parse(row.inbound.text) if row.inbound.commands else None
        if command is not None:
            yield from _led_elsewhere(books, row, command[0], last)
        elif row.session_id and row.turn_id and not _ran_elsewhere(row):
            yield from _went_on(books, row, row.session_id, last)


def _ran_elsewhere(row: InboxRow) -> bool:
    """Or not at all: it may name a turn that only ended it."""
    return was_steered(row) or row.state is InboxState.SUPERSEDED


def _led_elsewhere(
    books: Books, row: InboxRow, name: str, last: dict[str, SessionId]
) -> Iterator[str]:
    if name not in ("new", "resume", "fork"):
        return
    before = last.pop(row.route, None)
    last.pop(f"left {row.route}", None)
    if name == "new":
        left = books.sessions[before] if before is not None else None
        went_back = any(each.inbound.text.startswith("/resume") for each in books.inbox.values())
        open_still = left is not None and left.ended_at is None and not left.suspended
        if open_still and not went_back:
            yield f"/new did not end {before}"
        last[f"left {row.route}"] = before or SessionId("")


def _went_on(
    books: Books, row: InboxRow, session_id: SessionId, last: dict[str, SessionId]
) -> Iterator[str]:
    before = last.get(row.route)
    left = books.sessions.get(before) if before is not None else None
    fresh = books.sessions[session_id].was_auto_reset or (left is not None and left.ended_at)
    if session_id == last.get(f"left {row.route}"):
        yield f"row {row.id} ran in {session_id}, which /new had left"
    if before not in (None, session_id) and not fresh:
        yield f"row {row.id} of {row.route} ran in {session_id}, not in {before}"
    last[row.route] = session_id


def nothing_is_left_in_memory(books: Books) -> Iterator[str]:
    """DESIGN 10: memory is proportional to running turns."""
    gateway = books.home.gateway
    for name, left in (
        ("lanes", list(gateway.lanes)),
        ("routes", gateway.lanes._routes),
        ("watched messages", gateway.house.watchers._watched),
        ("chats", gateway.delivery._chats),
    ):
        if left:
            yield f"{name} are left: {left}"
    assert books.home.life is not None
    leased, cached = books.home.life.voice.leased, len(gateway.house.cache)
    if leased != cached:
        yield f"{leased} clients are leased for {cached} agents"


def agents_speak_with_the_chosen_model(books: Books) -> Iterator[str]:
    """A5: a cached agent is never one of before /model."""
    for session_id, entry in books.home.gateway.house.cache._entries.items():
        chosen = books.sessions[session_id].model_override or "scripted"
        client = entry.agent.client
        if client is None or client.name != chosen:
            yield f"the agent of {session_id} speaks with {client and client.name}, not {chosen}"


def watchers_hear_the_end(books: Books) -> Iterator[str]:
    """The last event of whoever stayed is the end of what they watched, and says what the log
    says; what streamed in the last step is the text of the answer."""
    for watch in books.home.watches:
        if watch.left or _may_be_late(books, books.inbox[watch.inbox_id]):
            continue
        ends = [event for event in watch.events if isinstance(event, MessageEnded)]
        if len(ends) != 1 or watch.events[-1] is not ends[0]:
            yield f"a watcher of row {watch.inbox_id} heard {watch.events}"
            continue
        yield from _told_the_truth(books, watch, ends[0])


def _told_the_truth(books: Books, watch: Watch, end: MessageEnded) -> Iterator[str]:
    row = books.inbox[watch.inbox_id]
    told = books.told_in(row)
    if told is None or row.state not in ENDS:
        return
    if (end.inbox_id, end.state) != (told.id, told.state):
        yield f"a watcher of {row.id} heard {end}, the log has {told.id} {told.state}"
    text = "\n\n".join(delivery.text for delivery in books.replies_to(told))
    if end.text != text:
        yield f"a watcher of {row.id} heard {end.text!r}, the reply is {text!r}"
    streamed = _last_stream(watch).strip()
    if end.state is InboxState.ANSWERED and streamed and streamed != end.text:
        yield f"a watcher of {row.id} saw {streamed!r} stream, and the reply is {end.text!r}"


def _last_stream(watch: Watch) -> str:
    pieces: list[str] = []
    for event in watch.events:
        match event:
            case TextStreamed():
                pieces.append(event.text)
            case TurnStarted() | StepEnded() | StreamVoided():
                pieces.clear()
    return "".join(pieces)


AT_PEACE: Sequence[Law] = (
    everything_ends_but_commands_that_failed,
    deliveries_are_settled,
    watchers_hear_the_end,
    nothing_is_left_in_memory,
    agents_speak_with_the_chosen_model,
    no_turn_is_open,
)

AFTER_ALL: Sequence[Law] = (
    everything_ends,
    ends_are_told,
    what_was_said_is_accepted_once,
    what_was_said_is_in_one_place,
    every_call_has_one_result,
    cuts_are_told_once,
    the_order_is_kept,
    chats_are_in_order,
    routes_are_where_they_should_be,
)


def is_command(row: InboxRow) -> bool:
    """Or a word that is one where something was asked."""
    text = row.inbound.text
    return row.inbound.commands and (parse(text) is not None or spoken(text) is not None)


def was_steered(row: InboxRow) -> bool:
    """Into a turn that others began, perhaps long before; its decision may not have been kept."""
    into_turn = row.state is InboxState.MERGED and row.merged_into is None
    return row.decision is BusyMode.STEER or into_turn


def is_said_again(row: InboxRow) -> bool:
    return row.inbound.event_id.startswith("holdfast/retry/")


def is_inner(row: InboxRow) -> bool:
    """Made by the gateway itself, on behalf of somebody who said something else."""
    return row.inbound.note or is_said_again(row)


def _sent(home: Home) -> dict[str, list[Sent]]:
    taken: dict[str, list[Sent]] = {}
    for sent in home.service.sent:
        taken.setdefault(sent.outgoing.delivery_id, []).append(sent)
    return taken


def _events(cursor: apsw.Cursor) -> list[tuple[Any, Any]]:
    found = cursor.execute("SELECT id, event_id FROM inbox WHERE platform = 'api'")
    return [(row[0], row[1]) for row in found]


def _inbox(cursor: apsw.Cursor) -> list[InboxRow]:
    return [
        rows.inbox_row(r) for r in cursor.execute(f"SELECT {rows.INBOX} FROM inbox ORDER BY id")
    ]


def _outbox(cursor: apsw.Cursor) -> list[DeliveryRow]:
    return outbox_reads._deliveries(cursor, "1 = 1")


def _turns(cursor: apsw.Cursor) -> list[TurnRow]:
    found = cursor.execute(f"SELECT {rows.TURN} FROM turns ORDER BY started_at, id")
    return [rows.turn_row(row) for row in found]


def _sessions(cursor: apsw.Cursor) -> list[SessionRow]:
    return reads.sessions(cursor, limit=10_000, offset=0, q="", platform="", children=True)
