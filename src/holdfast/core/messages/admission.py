"""What an arriving message does to the running turn, and which messages belong together.

Pure: the caller passes in everything that is known, and stores the decision.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.core.ids import PrincipalId, SessionKey
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxRow
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.text.splitting import message_length
from holdfast.core.text.translation import N_

NOTICE_INTERVAL = 30.0  # seconds between two notices that a session is busy
_NEAR_LIMIT = 0.95  # clients split a long paste at a word, a little before their limit


class AdmissionReason(StrEnum):
    """Why a message is admitted the way it is."""

    REQUESTED = "requested"  # by the message, by its session or by the config
    OTHER_PERSONS_TURN = "other_persons_turn"  # the turn is another person's, or another chat's
    SUBAGENTS = "subagents"  # they work for the turn, and would be lost with it
    COMPACTING = "compacting"  # the history is being summarised


class RunningTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What admission needs to know of the running turn."""

    route: SessionKey
    principal: PrincipalId
    subagents: int = 0
    compacting: bool = False


class BusyDecision(msgspec.Struct, frozen=True, kw_only=True):
    mode: BusyMode
    reason: AdmissionReason = AdmissionReason.REQUESTED


def admit(row: InboxRow, *, running: RunningTurn, configured: BusyMode) -> BusyDecision:
    """What a message does to the running turn.

    An earlier decision is kept. Otherwise the message itself decides first, the config last. Only
    messages of one route and one person merge, so no one interrupts or steers the turn of another
    person. Subagents and a running compaction are waited for.
    """
    if row.decision is not None:
        return BusyDecision(mode=row.decision)
    mode = row.inbound.busy_mode or configured
    if mode is BusyMode.QUEUE:
        return BusyDecision(mode=mode)
    if (row.route, row.principal) != (running.route, running.principal):
        return BusyDecision(mode=BusyMode.QUEUE, reason=AdmissionReason.OTHER_PERSONS_TURN)
    if mode is BusyMode.INTERRUPT and running.subagents:
        return BusyDecision(mode=BusyMode.QUEUE, reason=AdmissionReason.SUBAGENTS)
    if mode is BusyMode.INTERRUPT and running.compacting:
        return BusyDecision(mode=BusyMode.QUEUE, reason=AdmissionReason.COMPACTING)
    return BusyDecision(mode=mode)


def with_session_mode(row: InboxRow, mode: BusyMode | None) -> InboxRow:
    """The row with the mode that /busy set for its session, if the message itself sets none."""
    if mode is None or row.inbound.busy_mode is not None:
        return row
    inbound = msgspec.structs.replace(row.inbound, busy_mode=mode)
    return msgspec.structs.replace(row, inbound=inbound)


def should_merge(first: InboxRow, second: InboxRow, *, capabilities: Capabilities) -> bool:
    """Whether two adjacent messages form one turn: quick messages of one person do.

    A message that was told to queue has a turn of its own, unless the two are parts of one message.
    """
    if (first.route, first.principal) != (second.route, second.principal):
        return False
    if not (first.inbound.mergeable and second.inbound.mergeable):
        return False
    queued = BusyMode.QUEUE in (first.decision, second.decision)
    return not queued or _are_parts_of_one(first, second, capabilities)


def merge_window(inbound: Inbound, *, capabilities: Capabilities) -> float:
    """Seconds to wait for further parts of this message; 0 for an ordinary one, and 0 if the
    platform did not request it."""
    unfinished = inbound.group is not None or _is_near_limit(inbound, capabilities)
    return capabilities.merge_window if unfinished else 0.0


def _are_parts_of_one(first: InboxRow, second: InboxRow, capabilities: Capabilities) -> bool:
    """Whether both are pictures of one album, or pieces of one paste."""
    if first.inbound.group is not None:
        return first.inbound.group == second.inbound.group
    at_once = second.accepted_at - first.accepted_at <= capabilities.merge_window
    return at_once and _is_near_limit(first.inbound, capabilities)


def _is_near_limit(inbound: Inbound, capabilities: Capabilities) -> bool:
    limit = capabilities.max_length
    if limit is None:
        return False
    return message_length(inbound.text, capabilities.length_unit) >= limit * _NEAR_LIMIT


STEERED_NOTICE = N_("Got it, I am taking this into account.")
_NOTICES: Mapping[tuple[BusyMode, AdmissionReason], str] = {
    (BusyMode.INTERRUPT, AdmissionReason.REQUESTED): N_(
        "I stopped what I was doing and am working on this now."
    ),
    (BusyMode.QUEUE, AdmissionReason.REQUESTED): N_(
        "I am still busy. Your message is next; /stop ends what is running."
    ),
    (BusyMode.QUEUE, AdmissionReason.OTHER_PERSONS_TURN): N_(
        "I am answering someone else. Your message is next."
    ),
    (BusyMode.QUEUE, AdmissionReason.SUBAGENTS): N_(
        "Subagents are still working on the last message. Yours is next; /stop ends them."
    ),
    (BusyMode.QUEUE, AdmissionReason.COMPACTING): N_(
        "I am summarising our conversation so far. Your message is next."
    ),
}


def busy_notice(decision: BusyDecision) -> str | None:
    """The untranslated text for the sender; None if there is no notice yet. The sender of a steer
    is notified when the model has it."""
    return _NOTICES.get((decision.mode, decision.reason))


def is_notice_due(notified_at: float | None, *, now: float) -> bool:
    return notified_at is None or now - notified_at >= NOTICE_INTERVAL
