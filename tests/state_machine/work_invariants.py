"""The laws of work: of what waits for a person, of children, and of what was taken back.

Each law yields a sentence for every breach of it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import apsw
from tests.state_machine.home import Home
from tests.state_machine.home_contents import Books, Instant, Law
from tests.state_machine.model import HELPER
from tests.state_machine.tools import DANGEROUS, HOPELESS, STRANGE

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow, InboxState
from holdfast.core.messages.transcript import AssistantMessage, ToolMessage
from holdfast.core.people.approval import ApprovalState
from holdfast.core.turns.subagent import INTERNAL_PLATFORM, SubagentKind
from holdfast.core.turns.turn import LaneState, TurnState
from holdfast.store.sqlite.reads import approvals


def approvals_end_once(home: Home) -> Iterator[str]:
    """J3: what has ended stays ended, as it was."""
    for approval in home.asked():
        if approval.pending:
            if approval.id in home.approvals_ended:
                yield f"{approval.id} is pending again"
            continue
        ended = home.approvals_ended.setdefault(approval.id, approval)
        if (ended.state, ended.ended_at) != (approval.state, approval.ended_at):
            yield f"{approval.id} was {ended.state} and is {approval.state}"


def nothing_runs_unasked(home: Home) -> Iterator[str]:
    """J3: what is dangerous runs by a yes to it, or by one that stands."""
    if not home.shell.ran or home.life is None or not home.life.store.reader.open:
        return
    asked = {approval.call_id: approval for approval in home.asked()}
    rules = home.life.store.look(approvals.approval_rules, principal=None, rule=None)
    for call_id, command in home.shell.ran.items():
        approval = asked.get(call_id)
        if command == HOPELESS:
            yield f"{call_id} was hopeless, and ran"
        elif call_id in home.shell.free:
            continue
        elif approval is not None and approval.state is not ApprovalState.APPROVED:
            yield f"{call_id} ran, and {approval.id} is {approval.state}"
        elif approval is None and command == STRANGE:
            yield f"{call_id} ran, and nobody was asked"
        elif approval is None and command == DANGEROUS and not rules:
            yield f"{call_id} ran, and nobody has allowed it"


def who_waits_holds_no_agent(home: Home) -> Iterator[str]:
    """J3: a turn that waits for a person holds nothing but its row."""
    if not home.ready:
        return
    entries = home.gateway.services.cache._entries
    for lane in home.gateway.lanes:
        entry = entries.get(lane.session_id)
        if lane.state is LaneState.WAITING and entry is not None and entry.busy:
            yield f"the lane of {lane.session_id} waits, and its agent is leased"


def one_turn_at_a_time(home: Home) -> Iterator[str]:
    """H5: whoever speaks with a model is the one turn of a lane, or on an errand."""
    if not home.ready or home.life is None:
        return
    turns = [lane.current_turn for lane in home.gateway.lanes if lane.current_turn is not None]
    clients = Counter(id(turn.agent.client) for turn in turns)
    for ask in home.life.voice.asks:
        if ask.client.name != HELPER and clients[id(ask.client)] != 1:
            yield f"{clients[id(ask.client)]} lanes have the turn that asks {ask.messages[-1]}"


def what_was_taken_back_is_not_shown(home: Home) -> Iterator[str]:
    """An answer that was undone is in no request of its session any more."""
    if not home.ready or home.life is None or not home.life.voice.asks:
        return
    undone: dict[str, SessionId] = dict(home.life.store.look(_undone_answers))
    if not undone:
        return
    sessions = {
        id(lane.current_turn.agent.client): lane.session_id
        for lane in home.gateway.lanes
        if lane.current_turn is not None
    }
    for ask in home.life.voice.asks:
        for message in ask.messages:
            taken = undone.get(message.text) if isinstance(message, AssistantMessage) else None
            if taken is not None and sessions.get(id(ask.client)) == taken:
                yield f"{message.text!r} was taken back, and shown again in {taken}"


ALWAYS: Sequence[Instant] = (
    approvals_end_once,
    nothing_runs_unasked,
    who_waits_holds_no_agent,
    one_turn_at_a_time,
    what_was_taken_back_is_not_shown,
)


def every_approval_has_an_end(books: Books) -> Iterator[str]:
    """J3: and where it was a yes, and the turn went on to its answer, its command ran once."""
    turns = {turn.id: turn for turn in books.turns}
    for approval in books.home.asked():
        ran = books.home.shell.started[approval.call_id]
        if approval.pending:
            yield f"{approval.id} is pending"
        answered = turns[approval.turn_id].state is TurnState.ANSWERED
        if approval.state is ApprovalState.APPROVED and answered and ran != 1:
            yield f"{approval.id} was approved, and its command ran {ran} times"


def children_report_once(books: Books) -> Iterator[str]:
    """A child's reply is the result of the call that waits for it, or one message of its chat."""
    results = {
        message.call_id: message.text
        for records in books.records.values()
        for message in (record.message for record in records)
        if isinstance(message, ToolMessage)
    }
    waited = {turn.id for turn in books.turns if turn.state is TurnState.ANSWERED}
    for row in books.inbox.values():
        child = row.inbound.subagent
        if child is None or row.state is not InboxState.ANSWERED:
            continue
        [reply] = books.replies_to(row)
        told = results.get(child.call_id, "")
        heard = [each for each in books.inbox.values() if _brings(each, reply.id)]
        if len(heard) != (child.kind is SubagentKind.BACKGROUND):
            yield f"the reply of {child.session_id} came {len(heard)} times"
        if heard and reply.text not in heard[0].inbound.text:
            yield f"the reply of {child.session_id} came as {heard[0].inbound.text!r}"
        if child.turn_id in waited and reply.text not in told:
            yield f"the result of {child.call_id} is {told!r}, without {reply.text!r}"


AFTER_ALL: Sequence[Law] = (every_approval_has_an_end, children_report_once)


def _brings(row: InboxRow, delivery_id: str) -> bool:
    return row.inbound.event_id == f"{INTERNAL_PLATFORM}:{delivery_id}"


def _undone_answers(cursor: apsw.Cursor) -> list[tuple[str, SessionId]]:
    """Those that the machine has made up, for each of those is said once."""
    found = cursor.execute(
        "SELECT json_extract(m.body, '$.text'), m.session_id FROM messages m JOIN undone u"
        " ON u.session_id = m.session_id AND m.seq BETWEEN u.from_seq AND u.to_seq"
        " WHERE json_extract(m.body, '$.text') LIKE 'answer to %' AND m.turn_id IS NOT NULL"
    )
    return [(str(row[0]), SessionId(str(row[1]))) for row in found]
