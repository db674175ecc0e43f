"""The laws of messages: each is accepted once, ends once, is told so, and stands in one place.

Each law yields a sentence for every breach of it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.state_machine.home_contents import (
    Books,
    Law,
    is_command,
    is_inner,
    is_said_again,
    may_be_late,
    was_steered,
)

from holdfast.core.ids import InboxId, SessionId, TurnId
from holdfast.core.messages.inbox import END_STATES, InboxRow, InboxState
from holdfast.core.messages.transcript import (
    AssistantMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import TurnState
from holdfast.gateway.commands.command import text_for_agent
from holdfast.gateway.turns.transcript_notes import interruption_note
from holdfast.store.sqlite.reads import inbox


def everything_ends(books: Books) -> Iterator[str]:
    """G3: every accepted message reaches one visible end, without anybody's help."""
    for row in books.inbox.values():
        if row.state not in END_STATES:
            yield f"row {row.id} ({row.inbound.text!r}) is {row.state}"


def everything_ends_but_commands_that_failed(books: Books) -> Iterator[str]:
    """G3: a command whose commit failed is carried out at the next start, as it was told."""
    for row in books.inbox.values():
        if row.state not in END_STATES and not may_be_late(books, row):
            yield f"row {row.id} ({row.inbound.text!r}) is {row.state}"


def ends_are_told(books: Books) -> Iterator[str]:
    """G3: what is answered, failed or refused has one reply, what is superseded has none."""
    for row in books.inbox.values():
        replies = len(books.replies_to(row))
        wanted = 0 if row.state in (InboxState.MERGED, InboxState.SUPERSEDED) else 1
        if row.state in END_STATES and replies != wanted:
            yield f"row {row.id} ({row.inbound.text!r}) is {row.state} with {replies} replies"
        if row.state is InboxState.MERGED and books.told_in(row) is None:
            yield f"row {row.id} is merged into nothing"


def no_turn_is_open(books: Books) -> Iterator[str]:
    for turn in books.turns:
        if turn.state is TurnState.OPEN:
            yield f"turn {turn.id} is open"


def what_was_said_is_accepted_once(books: Books) -> Iterator[str]:
    """G1, G2: as often as it was said: what somebody changes is said once more. Who may not talk
    at the time is not heard."""
    known = Counter(
        row.inbound.message_id
        for row in books.inbox.values()
        if row.inbound.source.platform == "simulated" and not is_inner(row)
    )
    for said in books.home.service.ledger().said:
        times, wanted = known[said.message_id], 1 + len(said.edits)
        unheard = said.user_id == "bob" and books.home.turned_away
        if times > wanted or (times < wanted and not unheard):
            yield f"{said.text!r} was accepted {times} times, and said {wanted} times"


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
        if is_command(row) or is_inner(row) or text in said_again:
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
        for left in (TurnExitReason.RESTART_TIMEOUT, TurnExitReason.SHUTDOWN_TIMEOUT, None):
            notes = told[turn.id, interruption_note(left or "crash").text]
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
        if row.turn_id is None or was_steered(row) or _only_ended_with_it(row):
            continue
        before = last.get(row.route)
        if before is not None and began[row.turn_id] < before[1]:
            yield f"row {row.id} ran before row {before[0]} of its route"
        last[row.route] = (row.id, began[row.turn_id])


def _only_ended_with_it(row: InboxRow) -> bool:
    """The turn that a /stop ended is named by that command, and by what it dropped: neither ran
    in it, and where its route was led elsewhere the turn may be an old one."""
    command = row.inbound.commands and text_for_agent(row.inbound.text) is None
    return command or row.state is InboxState.SUPERSEDED


def the_ledger_balances(books: Books) -> Iterator[str]:
    """G3: each message is counted once, by its end."""
    assert books.home.life is not None
    ledger = books.home.life.store.look(inbox.inbox_counts)
    counted = Counter(row.state for row in books.inbox.values())
    if {state: number for state, number in ledger.items() if number} != counted:
        yield f"the ledger has {ledger}, the inbox {counted}"


AT_PEACE: Sequence[Law] = (everything_ends_but_commands_that_failed, no_turn_is_open)

AFTER_ALL: Sequence[Law] = (
    everything_ends,
    ends_are_told,
    what_was_said_is_accepted_once,
    what_was_said_is_in_one_place,
    every_call_has_one_result,
    cuts_are_told_once,
    the_order_is_kept,
    the_ledger_balances,
)
