"""What a committed command brings about: a message to route, deliveries to send, messages that have
ended. The subscribers of the store's events read it here."""

from collections.abc import Iterable, Sequence

from holdfast.core.messages.inbox import Accepted, InboxEnd, InboxState
from holdfast.core.messages.outbox import DeliveryRow, NewDelivery, ProactiveDelivery
from holdfast.core.people.approval import ApprovalRequest
from holdfast.core.people.pairing import PairingChange, RefusedMessage
from holdfast.core.ports.command import Committed
from holdfast.core.ports.store_commands import (
    AcceptMessage,
    AddDeliveries,
    RecordReady,
    RecordSteer,
    ReportFailedDelivery,
    RequeueDelivery,
)
from holdfast.core.sessions.session import CommandEffect, CommandOutcome
from holdfast.core.turns.turn import BeginTurn, EndTurn

ACCEPTING_COMMANDS = (AcceptMessage, CommandEffect)
DELIVERING_COMMANDS = (
    BeginTurn,
    EndTurn,
    CommandEffect,
    AddDeliveries,
    ProactiveDelivery,
    ApprovalRequest,
    RefusedMessage,
    PairingChange,
    RecordReady,
    ReportFailedDelivery,
    RequeueDelivery,
)
ENDING_COMMANDS = (EndTurn, CommandEffect, RecordSteer)

_NEW_SESSION_REASON = "a new session was begun"


def accepted_message(event: Committed) -> Accepted | None:
    """The new message that a commit has accepted: one that was sent, the task of a background
    subagent that a chat command started, or the message that /retry submits again."""
    accepted: Accepted | None = None
    if isinstance(event.command, AcceptMessage):
        accepted = event.result
    elif isinstance(event.command, CommandEffect):
        outcome: CommandOutcome = event.result
        accepted = outcome.background
        if outcome.resubmitted is not None:
            accepted = Accepted(
                row=outcome.resubmitted, duplicate=False, route_session=event.command.session_id
            )
    return None if accepted is None or accepted.duplicate else accepted


def committed_deliveries(event: Committed) -> Sequence[NewDelivery]:
    """The deliveries that a commit has added, in order."""
    match event.command:
        case BeginTurn() | EndTurn() | AddDeliveries() | ApprovalRequest() | PairingChange():
            return event.command.deliveries
        case CommandEffect(pairing=pairing):
            outcome: CommandOutcome = event.result
            return (*outcome.deliveries, *(pairing.deliveries if pairing else ()))
        case RefusedMessage(deliveries=deliveries):
            return () if event.result.duplicate else deliveries
        case ProactiveDelivery(delivery=delivery):
            return (delivery,) if event.result else ()
        case RecordReady(deliveries=deliveries):
            return deliveries
        case ReportFailedDelivery(report=report):
            return () if report.notice is None else (report.notice,)
    return ()


def requeued_delivery(event: Committed) -> DeliveryRow | None:
    """The delivery that a commit has made pending again."""
    requeued: DeliveryRow | None = None
    if isinstance(event.command, RequeueDelivery):
        requeued = event.result
    return requeued


def final_text(event: Committed) -> str:
    """The text of deliveries without one: the last reply of the turn that ended."""
    return event.command.final_text if isinstance(event.command, EndTurn) else ""


def ended_messages(event: Committed) -> Iterable[InboxEnd]:
    """The messages that a commit has ended, in order."""
    command = event.command
    if isinstance(command, EndTurn):
        return command.inbox_ends
    if isinstance(command, RecordSteer):
        return (InboxEnd(inbox_id=command.inbox_id, state=InboxState.MERGED),)
    if isinstance(command, CommandEffect):
        superseded = (
            InboxEnd(inbox_id=inbox_id, state=InboxState.SUPERSEDED, reason=_NEW_SESSION_REASON)
            for inbox_id in event.result.superseded
        )
        return (*superseded, *command.inbox_ends)
    return ()
