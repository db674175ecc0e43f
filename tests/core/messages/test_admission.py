"""Admission: the one decision about a message that comes while a turn runs, as a table."""

from typing import Any

import pytest

from holdfast.core.ids import InboxId, PrincipalId, SessionKey
from holdfast.core.messages.admission import (
    NOTICE_INTERVAL,
    AdmissionReason,
    RunningTurn,
    admit,
    busy_notice,
    is_notice_due,
    merge_window,
    should_merge,
    with_session_mode,
)
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxRow
from holdfast.core.messages.source import Source
from holdfast.core.ports.capabilities import Capabilities

INTERRUPT, QUEUE, STEER = BusyMode.INTERRUPT, BusyMode.QUEUE, BusyMode.STEER
CHAT = Capabilities(max_length=100, merge_window=1.0)


def row(
    text: str = "hi",
    *,
    by: str = "ann",
    route: str = "chat",
    at: float = 0.0,
    decision: BusyMode | None = None,
    **inbound: Any,
) -> InboxRow:
    source = Source(platform="simulated", chat_id="c", user_id=by)
    said = Inbound(source=source, event_id="e", message_id="m", text=text, **inbound)
    return InboxRow(
        id=InboxId(1),
        route=SessionKey(route),
        principal=PrincipalId(by),
        inbound=said,
        decision=decision,
        accepted_at=at,
    )


def running(**facts: Any) -> RunningTurn:
    plain: dict[str, Any] = {"route": SessionKey("chat"), "principal": PrincipalId("ann")}
    return RunningTurn(**{**plain, **facts})


@pytest.mark.parametrize(
    ("message", "turn", "configured", "mode", "because"),
    [
        (row(), running(), INTERRUPT, INTERRUPT, AdmissionReason.REQUESTED),
        (row(), running(), QUEUE, QUEUE, AdmissionReason.REQUESTED),
        (row(), running(), STEER, STEER, AdmissionReason.REQUESTED),
        (row(busy_mode=STEER), running(), INTERRUPT, STEER, AdmissionReason.REQUESTED),
        (row(busy_mode=INTERRUPT), running(), QUEUE, INTERRUPT, AdmissionReason.REQUESTED),
        (row(by="bob"), running(), INTERRUPT, QUEUE, AdmissionReason.OTHER_PERSONS_TURN),
        (row(by="bob"), running(), STEER, QUEUE, AdmissionReason.OTHER_PERSONS_TURN),
        (row(by="bob"), running(), QUEUE, QUEUE, AdmissionReason.REQUESTED),
        (row(route="other"), running(), INTERRUPT, QUEUE, AdmissionReason.OTHER_PERSONS_TURN),
        (row(), running(subagents=2), INTERRUPT, QUEUE, AdmissionReason.SUBAGENTS),
        (row(), running(subagents=2), STEER, STEER, AdmissionReason.REQUESTED),
        (row(), running(compacting=True), INTERRUPT, QUEUE, AdmissionReason.COMPACTING),
        (row(), running(compacting=True), STEER, STEER, AdmissionReason.REQUESTED),
        (row(decision=STEER), running(), INTERRUPT, STEER, AdmissionReason.REQUESTED),
        (row(decision=INTERRUPT, by="bob"), running(), QUEUE, INTERRUPT, AdmissionReason.REQUESTED),
    ],
)
def test_what_a_message_does_to_the_running_turn(
    message: InboxRow,
    turn: RunningTurn,
    configured: BusyMode,
    mode: BusyMode,
    because: AdmissionReason,
) -> None:
    """G4: the message, then its session, then the config; no person interrupts another's turn,
    nor the work of subagents or a summary; and a decision once made is kept."""
    decision = admit(message, running=turn, configured=configured)
    assert (decision.mode, decision.reason) == (mode, because)


def test_the_mode_of_the_session_applies_where_the_message_has_none() -> None:
    assert with_session_mode(row(), QUEUE).inbound.busy_mode is QUEUE
    assert with_session_mode(row(busy_mode=STEER), QUEUE).inbound.busy_mode is STEER
    assert with_session_mode(row(), None) == row()


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (row(), row(), True),
        (row(), row(by="bob"), False),
        (row(), row(route="other"), False),
        (row(mergeable=False), row(), False),
        (row(), row(mergeable=False), False),
        (row(), row(decision=QUEUE), False),
        (row(decision=QUEUE), row(), False),
        (row(decision=INTERRUPT), row(), True),
        (row(decision=QUEUE, group="g"), row(decision=QUEUE, group="g"), True),
        (row(decision=QUEUE, group="g"), row(decision=QUEUE, group="h"), False),
        (row(decision=QUEUE, group="g"), row(decision=QUEUE), False),
        (row("x" * 96, decision=QUEUE), row(decision=QUEUE, at=0.9), True),
        (row("x" * 96, decision=QUEUE), row(decision=QUEUE, at=1.1), False),
        (row("x" * 90, decision=QUEUE), row(decision=QUEUE, at=0.1), False),
        (row("x" * 96, decision=QUEUE), row(decision=QUEUE, at=0.1, by="bob"), False),
    ],
)
def test_which_messages_are_one_turn(one: InboxRow, other: InboxRow, together: bool) -> None:
    """G4: only those of one route and one person, and queued ones only as parts of one."""
    assert should_merge(one, other, capabilities=CHAT) is together


@pytest.mark.parametrize(
    ("message", "capabilities", "seconds"),
    [
        (row(), CHAT, 0.0),
        (row(group="g"), CHAT, 1.0),
        (row("x" * 95), CHAT, 1.0),
        (row("x" * 94), CHAT, 0.0),
        (row(group="g"), Capabilities(max_length=100), 0.0),
        (row("x" * 500), Capabilities(merge_window=1.0), 0.0),
    ],
)
def test_only_the_parts_of_something_are_waited_for(
    message: InboxRow, capabilities: Capabilities, seconds: float
) -> None:
    assert merge_window(message.inbound, capabilities=capabilities) == seconds


def test_every_decision_but_a_steer_has_a_notice_for_its_sender() -> None:
    """A steer is told of when the model has it, and not before."""
    for turn in (running(), running(subagents=1), running(compacting=True)):
        for mode in BusyMode:
            for by in ("ann", "bob"):
                decision = admit(row(by=by), running=turn, configured=mode)
                assert (busy_notice(decision) is None) is (decision.mode is STEER)


def test_a_notice_is_due_once_in_thirty_seconds() -> None:
    assert NOTICE_INTERVAL == 30
    assert is_notice_due(None, now=0)
    assert not is_notice_due(100.0, now=129.9)
    assert is_notice_due(100.0, now=130.0)
