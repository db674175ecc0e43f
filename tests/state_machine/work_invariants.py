"""Invariants of approvals, subagents, concurrent turns and undone messages.

Each invariant yields a sentence for every violation.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import apsw
from tests.state_machine.home import Home
from tests.state_machine.home_contents import HomeContents, Invariant, StepInvariant
from tests.state_machine.model import AUXILIARY_MODEL
from tests.state_machine.tools import DANGEROUS_COMMAND, FORBIDDEN_COMMAND, UNCLASSIFIED_COMMAND

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow, InboxState
from holdfast.core.messages.transcript import AssistantMessage, ToolMessage
from holdfast.core.people.approval import ApprovalState
from holdfast.core.turns.subagent import INTERNAL_PLATFORM, SubagentKind
from holdfast.core.turns.turn import TurnRowState
from holdfast.core.turns.turn_state import LaneState
from holdfast.store.sqlite.reads import approvals


def approvals_end_once(home: Home) -> Iterator[str]:
    """J3: what has ended stays ended, as it was."""
    for approval in home.approvals():
        if approval.pending:
            if approval.id in home.approvals_ended:
                yield f"{approval.id} is pending again"
            continue
        ended = home.approvals_ended.setdefault(approval.id, approval)
        if (ended.state, ended.ended_at) != (approval.state, approval.ended_at):
            yield f"{approval.id} was {ended.state} and is {approval.state}"


def dangerous_commands_need_approval(home: Home) -> Iterator[str]:
    """J3: a dangerous command runs only with an approval or an approval rule."""
    if not home.shell.ran or home.current_run is None or not home.current_run.store.reader.open:
        return
    found = {approval.call_id: approval for approval in home.approvals()}
    rules = home.current_run.store.look(approvals.approval_rules, principal=None, rule=None)
    for call_id, command in home.shell.ran.items():
        approval = found.get(call_id)
        if command == FORBIDDEN_COMMAND:
            yield f"{call_id} is forbidden, and ran"
        elif call_id in home.shell.without_approval:
            continue
        elif approval is not None and approval.state is not ApprovalState.APPROVED:
            yield f"{call_id} ran, and {approval.id} is {approval.state}"
        elif approval is None and command == UNCLASSIFIED_COMMAND:
            yield f"{call_id} ran without an approval"
        elif approval is None and command == DANGEROUS_COMMAND and not rules:
            yield f"{call_id} ran without an approval or a rule"


def waiting_turns_hold_no_agent(home: Home) -> Iterator[str]:
    """J3: a turn that waits for a person holds nothing but its row."""
    if not home.ready:
        return
    entries = home.gateway.cache._entries
    for lane in home.gateway.lanes:
        entry = entries.get(lane.session_id)
        if lane.state is LaneState.WAITING and entry is not None and entry.busy:
            yield f"the lane of {lane.session_id} waits, and its agent is leased"


def each_session_runs_one_turn_at_a_time(home: Home) -> Iterator[str]:
    """H5: each model request belongs to the one turn of a lane, or is an auxiliary call."""
    if not home.ready or home.current_run is None:
        return
    turns = [lane.turn for lane in home.gateway.lanes if lane.turn is not None]
    clients = Counter(id(turn.context.agent.client) for turn in turns if turn.has_agent)
    for request in home.current_run.model.pending:
        lanes = clients[id(request.client)]
        if request.client.name != AUXILIARY_MODEL and lanes != 1:
            yield f"{lanes} lanes have the turn that requests {request.messages[-1]}"


def undone_answers_are_not_sent_to_the_model(home: Home) -> Iterator[str]:
    """An answer that was undone is in no request of its session any more."""
    if not home.ready or home.current_run is None or not home.current_run.model.pending:
        return
    undone: dict[str, SessionId] = dict(home.current_run.store.look(_undone_answers))
    if not undone:
        return
    sessions = {
        id(lane.turn.context.agent.client): lane.session_id
        for lane in home.gateway.lanes
        if lane.turn is not None and lane.turn.has_agent
    }
    for request in home.current_run.model.pending:
        for message in request.messages:
            undone_in = undone.get(message.text) if isinstance(message, AssistantMessage) else None
            if undone_in is not None and sessions.get(id(request.client)) == undone_in:
                yield f"{message.text!r} was undone, and sent to the model again in {undone_in}"


def sessions_of_single_tasks_end_with_them(home: Home) -> Iterator[str]:
    """A11, J4: the session of a subagent, or of a run of a job, ends in the commit that ends its
    one message."""
    if home.current_run is None or not home.current_run.store.reader.open:
        return
    for session_id in home.current_run.store.look(_open_sessions_of_ended_tasks):
        yield f"{session_id} is open, and its only message has ended"


ALWAYS: Sequence[StepInvariant] = (
    approvals_end_once,
    dangerous_commands_need_approval,
    waiting_turns_hold_no_agent,
    each_session_runs_one_turn_at_a_time,
    undone_answers_are_not_sent_to_the_model,
    sessions_of_single_tasks_end_with_them,
)


def every_approval_has_an_end(contents: HomeContents) -> Iterator[str]:
    """J3: and where it was a yes, and the turn went on to its answer, its command ran once."""
    turns = {turn.id: turn for turn in contents.turns}
    for approval in contents.home.approvals():
        ran = contents.home.shell.started[approval.call_id]
        if approval.pending:
            yield f"{approval.id} is pending"
        answered = turns[approval.turn_id].state is TurnRowState.ANSWERED
        if approval.state is ApprovalState.APPROVED and answered and ran != 1:
            yield f"{approval.id} was approved, and its command ran {ran} times"


def subagents_report_once(contents: HomeContents) -> Iterator[str]:
    """A subagent's reply is the result of the call that waits for it, or one message of its
    chat."""
    results = {
        message.call_id: message.text
        for records in contents.records.values()
        for message in (record.message for record in records)
        if isinstance(message, ToolMessage)
    }
    waited = {turn.id for turn in contents.turns if turn.state is TurnRowState.ANSWERED}
    for row in contents.inbox.values():
        subagent = row.inbound.subagent
        if subagent is None or row.state is not InboxState.ANSWERED:
            continue
        [reply] = contents.replies_to(row)
        result = results.get(subagent.call_id, "")
        delivered = [each for each in contents.inbox.values() if _delivers_reply(each, reply.id)]
        if len(delivered) != (subagent.kind is SubagentKind.BACKGROUND):
            yield f"the reply of {subagent.session_id} came {len(delivered)} times"
        if delivered and reply.text not in delivered[0].inbound.text:
            yield f"the reply of {subagent.session_id} came as {delivered[0].inbound.text!r}"
        if subagent.turn_id in waited and reply.text not in result:
            yield f"the result of {subagent.call_id} is {result!r}, without {reply.text!r}"


AT_THE_END: Sequence[Invariant] = (every_approval_has_an_end, subagents_report_once)


def _delivers_reply(row: InboxRow, delivery_id: str) -> bool:
    return row.inbound.event_id == f"{INTERNAL_PLATFORM}:{delivery_id}"


def _open_sessions_of_ended_tasks(cursor: apsw.Cursor) -> list[SessionId]:
    found = cursor.execute(
        "SELECT s.id FROM sessions s JOIN inbox i ON i.session_id = s.id"
        " WHERE s.ended_at IS NULL AND i.ended_at IS NOT NULL AND i.platform = ?",
        (INTERNAL_PLATFORM,),
    )
    return [SessionId(str(row[0])) for row in found]


def _undone_answers(cursor: apsw.Cursor) -> list[tuple[str, SessionId]]:
    """The undone replies of the scripted model: each of their texts is unique."""
    found = cursor.execute(
        "SELECT json_extract(m.body, '$.text'), m.session_id FROM messages m JOIN undone u"
        " ON u.session_id = m.session_id AND m.seq BETWEEN u.from_seq AND u.to_seq"
        " WHERE json_extract(m.body, '$.text') LIKE 'answer to %' AND m.turn_id IS NOT NULL"
    )
    return [(str(row[0]), SessionId(str(row[1]))) for row in found]
