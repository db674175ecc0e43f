"""Admission: what a message does to the turn that is running when it comes, and which messages
are one. Pure: whoever asks brings all that is known, and keeps what was decided."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.core.ids import PrincipalId, SessionKey
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxRow
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.text.length import length

NOTICE_APART = 30.0  # seconds between two notices that a session is busy
_NEAR_LIMIT = 0.95  # clients split a long paste at a word, a little before their limit


class Because(StrEnum):
    """Why a message is admitted as it is."""

    TOLD = "told"  # by the message, by its session or by the config
    OTHERS_TURN = "others_turn"  # the turn is another person's, or another chat's
    CHILDREN = "children"  # child agents work for the turn, and would be lost with it
    COMPACTING = "compacting"  # the history is being summarised


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The running turn, as far as admission asks."""

    route: SessionKey
    principal: PrincipalId
    children: int = 0
    compacting: bool = False


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    mode: BusyMode
    because: Because = Because.TOLD


def admit(row: InboxRow, *, running: Running, configured: BusyMode) -> Decision:
    """What a message does to the running turn.

    What was decided before stands; else the message itself has the first word, the config the
    last. Only messages of one route and one person merge, so nobody interrupts or steers the
    turn of another; and what children or a summary have begun is waited for.
    """
    if row.decision is not None:
        return Decision(mode=row.decision)
    mode = row.inbound.busy_mode or configured
    if mode is BusyMode.QUEUE:
        return Decision(mode=mode)
    if (row.route, row.principal) != (running.route, running.principal):
        return Decision(mode=BusyMode.QUEUE, because=Because.OTHERS_TURN)
    if mode is BusyMode.INTERRUPT and running.children:
        return Decision(mode=BusyMode.QUEUE, because=Because.CHILDREN)
    if mode is BusyMode.INTERRUPT and running.compacting:
        return Decision(mode=BusyMode.QUEUE, because=Because.COMPACTING)
    return Decision(mode=mode)


def chosen_for_session(row: InboxRow, mode: BusyMode | None) -> InboxRow:
    """The row with what /busy chose for its session, where the message itself does not say."""
    if mode is None or row.inbound.busy_mode is not None:
        return row
    inbound = msgspec.structs.replace(row.inbound, busy_mode=mode)
    return msgspec.structs.replace(row, inbound=inbound)


def belong_together(one: InboxRow, other: InboxRow, *, capabilities: Capabilities) -> bool:
    """Whether two messages in a row are one turn: the quick ones of one person are.

    One that was told to queue is its own, unless the two are parts of one message.
    """
    if (one.route, one.principal) != (other.route, other.principal):
        return False
    if not (one.inbound.mergeable and other.inbound.mergeable):
        return False
    queued = BusyMode.QUEUE in (one.decision, other.decision)
    return not queued or _parts_of_one(one, other, capabilities)


def settle_time(inbound: Inbound, *, capabilities: Capabilities) -> float:
    """Seconds to wait for what may still be a part of this message; none for an ordinary one,
    and none where the platform did not ask for it."""
    unfinished = inbound.group is not None or _at_limit(inbound, capabilities)
    return capabilities.settle if unfinished else 0.0


def _parts_of_one(one: InboxRow, other: InboxRow, capabilities: Capabilities) -> bool:
    """Pictures of one album, or the pieces of one paste."""
    if one.inbound.group is not None:
        return one.inbound.group == other.inbound.group
    at_once = other.accepted_at - one.accepted_at <= capabilities.settle
    return at_once and _at_limit(one.inbound, capabilities)


def _at_limit(inbound: Inbound, capabilities: Capabilities) -> bool:
    limit = capabilities.max_length
    if limit is None:
        return False
    return length(inbound.text, capabilities.length_unit) >= limit * _NEAR_LIMIT


STEERED = "Noted: I am taking this into account."
_NOTICES: Mapping[tuple[BusyMode, Because], str] = {
    (BusyMode.INTERRUPT, Because.TOLD): "I stopped what I was doing and turn to this.",
    (BusyMode.QUEUE, Because.TOLD): "I am still busy. This is next in line; /stop ends what runs.",
    (BusyMode.QUEUE, Because.OTHERS_TURN): "I am answering somebody else. You are next in line.",
    (BusyMode.QUEUE, Because.CHILDREN): "Helpers are still working on the last message. This is "
    "next in line; /stop ends them.",
    (BusyMode.QUEUE, Because.COMPACTING): "I am summing up our conversation so far. This is next "
    "in line.",
}


def notice(decision: Decision) -> str | None:
    """What the sender is told; None: nothing yet. A steer is told of when the model has it."""
    return _NOTICES.get((decision.mode, decision.because))


def notice_due(told_at: float | None, *, now: float) -> bool:
    return told_at is None or now - told_at >= NOTICE_APART
