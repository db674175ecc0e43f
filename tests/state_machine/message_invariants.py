"""Invariants of messages: each is accepted once, ends once, has a reply, and is in one transcript.

Each invariant yields a sentence for every violation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.state_machine.home_contents import (
    HomeContents,
    Invariant,
    is_command,
    is_internal,
    is_retry,
    may_be_late,
    was_steered,
)

from holdfast.core.commands import text_for_agent
from holdfast.core.ids import InboxId, SessionId, TurnId
from holdfast.core.messages.inbox import END_STATES, InboxRow, InboxState
from holdfast.core.messages.transcript import (
    AssistantMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.turn import TurnRowState
from holdfast.gateway.turns.transcript_notes import interruption_note
from holdfast.store.sqlite.reads import inbox


def every_message_ends(contents: HomeContents) -> Iterator[str]:
    """G3: every accepted message reaches one visible end, without intervention."""
    for row in contents.inbox.values():
        if row.state not in END_STATES:
            yield f"row {row.id} ({row.inbound.text!r}) is {row.state}"


def every_message_but_failed_commands_ends(contents: HomeContents) -> Iterator[str]:
    """G3: a command whose commit failed is carried out at the next start, as its error said."""
    for row in contents.inbox.values():
        if row.state not in END_STATES and not may_be_late(contents, row):
            yield f"row {row.id} ({row.inbound.text!r}) is {row.state}"


def ended_messages_have_replies(contents: HomeContents) -> Iterator[str]:
    """G3: what is answered, failed or refused has one reply, what is superseded has none."""
    for row in contents.inbox.values():
        replies = len(contents.replies_to(row))
        expected = 0 if row.state in (InboxState.MERGED, InboxState.SUPERSEDED) else 1
        if row.state in END_STATES and replies != expected:
            yield f"row {row.id} ({row.inbound.text!r}) is {row.state} with {replies} replies"
        if row.state is InboxState.MERGED and contents.reply_row(row) is None:
            yield f"row {row.id} is merged into nothing"


def no_turn_is_open(contents: HomeContents) -> Iterator[str]:
    for turn in contents.turns:
        if turn.state is TurnRowState.OPEN:
            yield f"turn {turn.id} is open"


def each_message_is_accepted_once(contents: HomeContents) -> Iterator[str]:
    """G1, G2: as often as it was sent: an edit counts as sent again. Messages of a user who is not
    allowed at the time are not accepted."""
    known = Counter(
        row.inbound.message_id
        for row in contents.inbox.values()
        if row.inbound.source.platform == "simulated" and not is_internal(row)
    )
    for sent in contents.home.service.ledger().said:
        times, expected = known[sent.message_id], 1 + len(sent.edits)
        refused = sent.user_id == "bob" and contents.home.bob_was_denied
        if times > expected or (times < expected and not refused):
            yield f"{sent.text!r} was accepted {times} times, and sent {expected} times"


def each_message_is_in_one_transcript(contents: HomeContents) -> Iterator[str]:
    """A message that was answered is in one transcript once, with its turn; a copy names no
    turn."""
    places: defaultdict[str, list[tuple[SessionId, TurnId]]] = defaultdict(list)
    for session_id, records in contents.records.items():
        for record in records:
            if record.turn_id is not None and isinstance(record.message, UserMessage):
                places[record.message.text].append((session_id, record.turn_id))
    retried = {row.inbound.text for row in contents.inbox.values() if is_retry(row)}
    for row in contents.inbox.values():
        text = row.inbound.text
        if is_command(row) or is_internal(row) or text in retried:
            continue
        found = places[text]
        if len(found) > 1:
            yield f"{text!r} is {len(found)} times in the transcripts"
        ended = row.state in (InboxState.ANSWERED, InboxState.MERGED)
        if ended and [session_id for session_id, _ in found] != [row.session_id]:
            yield f"{text!r} of {row.session_id} is in {found}"


def every_call_has_one_result(contents: HomeContents) -> Iterator[str]:
    """H7: and no result is without its call."""
    for session_id, messages in contents.transcripts.items():
        called = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.calls]
        results = [m.call_id for m in messages if isinstance(m, ToolMessage)]
        if Counter(called) != Counter(results):
            yield f"{session_id}: the calls are {called}, the results of {results}"


def each_interruption_is_noted_once(contents: HomeContents) -> Iterator[str]:
    """F6: one note for each interruption, with its cause; none for a parked turn."""
    noted: Counter[tuple[TurnId, str]] = Counter(
        (record.turn_id, record.message.text)
        for records in contents.records.values()
        for record in records
        if record.turn_id is not None and isinstance(record.message, NoteMessage)
    )
    for turn in contents.turns:
        interruptions = 0
        for left in (TurnExitReason.RESTART_TIMEOUT, TurnExitReason.SHUTDOWN_TIMEOUT, None):
            notes = noted[turn.id, interruption_note(left or "crash").text]
            interruptions += contents.home.process_ends.interruptions[turn.id, left]
            if notes > contents.home.process_ends.interruptions[turn.id, left]:
                yield f"{turn.id} has {notes} notes of {left}, and was interrupted so less often"
        notes_in_all = sum(n for (turn_id, text), n in noted.items() if turn_id == turn.id)
        if turn.state is TurnRowState.ANSWERED and interruptions and not notes_in_all:
            yield f"{turn.id} was interrupted, and has no note"


def messages_run_in_order(contents: HomeContents) -> Iterator[str]:
    """H5: turns take the messages of a route in the order of acceptance, except one that was meant
    to steer and came too late."""
    if contents.home.disk.undecided:
        return  # which one that was is unknown
    began = {turn.id: int(turn.id.removeprefix("turn_")) for turn in contents.turns}
    last: dict[str, tuple[InboxId, int]] = {}
    for row in contents.inbox.values():
        if row.turn_id is None or was_steered(row) or _only_ended_with_it(row):
            continue
        before = last.get(row.route)
        if before is not None and began[row.turn_id] < before[1]:
            yield f"row {row.id} ran before row {before[0]} of its route"
        last[row.route] = (row.id, began[row.turn_id])


def _only_ended_with_it(row: InboxRow) -> bool:
    """The turn that a /stop ended is named by that command, and by what it dropped: neither ran
    in it, and where its route has another session now the turn may be an old one."""
    command = row.inbound.commands and text_for_agent(row.inbound.text) is None
    return command or row.state is InboxState.SUPERSEDED


def inbox_counts_match_the_rows(contents: HomeContents) -> Iterator[str]:
    """G3: each message is counted once, by its end."""
    assert contents.home.current_run is not None
    counts = contents.home.current_run.store.look(inbox.inbox_counts)
    counted = Counter(row.state for row in contents.inbox.values())
    if {state: number for state, number in counts.items() if number} != counted:
        yield f"the store counts {counts}, the inbox has {counted}"


WHEN_IDLE: Sequence[Invariant] = (every_message_but_failed_commands_ends, no_turn_is_open)

AT_THE_END: Sequence[Invariant] = (
    every_message_ends,
    ended_messages_have_replies,
    each_message_is_accepted_once,
    each_message_is_in_one_transcript,
    every_call_has_one_result,
    each_interruption_is_noted_once,
    messages_run_in_order,
    inbox_counts_match_the_rows,
)
