"""Tests of approvals: a dangerous command waits for the answer of a person (J3)."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.approvals import DD, LS, RM, WIPE, ApprovalHarness
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call, ManualClock, Until

from holdfast.core.config.settings import ApprovalMode, PlatformSettings
from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.source import ChatType
from holdfast.core.messages.transcript import NoteMessage, ToolMessage, ToolOutcome
from holdfast.core.people.approval import (
    ApprovalDecision,
    ApprovalScope,
    ApprovalState,
)
from holdfast.core.ports.command import Command, session_scope
from holdfast.core.ports.store_commands import AcceptMessage, DeleteSession, SettleDelivery
from holdfast.core.ports.store_queries import (
    CountInbox,
    CountOutbox,
    GetInboxRow,
    GetSession,
    ListApprovalRules,
    ListApprovals,
    ListDeliveriesForMessage,
    ListOpenTurns,
)
from holdfast.core.secrets import Secret
from holdfast.core.turns.projection import projection_problems
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.approvals.service import ApprovalResponse
from holdfast.gateway.live.feeds import News, PieceState
from holdfast.testing.simulated.events import Faults
from holdfast.testing.simulated.service import ChatService


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ApprovalHarness]:
    harness = ApprovalHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


async def test_a_harmless_command_runs_without_approval(
    harness: ApprovalHarness, call: Call
) -> None:
    harness.model.say([call("shell", LS)], "done")
    harness.say("go")
    assert await harness.texts(1) == ["done"]
    assert await harness.store.read(ListApprovals(limit=5)) == []


async def test_a_forbidden_command_is_refused_with_a_reason_for_the_model(
    harness: ApprovalHarness, call: Call
) -> None:
    harness.model.say([call("shell", WIPE)], "I see")
    harness.say("go")
    assert await harness.texts(1) == ["I see"]
    result = await harness.result()
    assert result.outcome is ToolOutcome.REFUSED
    assert "wipes the disk" in result.text
    assert harness.shell.started == []


async def test_a_dangerous_command_waits_for_a_yes(harness: ApprovalHarness, call: Call) -> None:
    """J3: a row with requester, approvers, one deadline, and an end."""
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    (question,) = await harness.texts(1)
    assert "rm -rf build" in question
    assert "deletes files" in question
    (row,) = await harness.pending_approvals()
    assert row.requester == "simulated:default:ann"
    assert row.approvers == ("simulated:default:ann",)
    assert row.deadline == row.asked_at + 3600
    assert harness.shell.started == []
    harness.say("yes")
    assert (await harness.texts(3))[1:] == ["Approved: rm -rf build", "done"]
    (row,) = await harness.ended_approvals()
    assert (row.state, row.by) == (ApprovalState.APPROVED, "simulated:default:ann")
    assert len(harness.shell.started) == 1
    assert await harness.ledger() == {"answered": 2}


async def test_a_waiting_turn_holds_no_agent(
    harness: ApprovalHarness, call: Call, until: Until
) -> None:
    """J3: the agent returns to the cache and may be evicted; the turn resumes nevertheless."""
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    (row,) = await harness.pending_approvals()
    lane = harness.gateway.lanes.get(row.session_id)
    assert lane is not None
    assert (lane.state, lane.running_turn, lane.in_flight) == (LaneState.WAITING, None, 1)
    harness.gateway.cache.clear()
    assert harness.model.leased == 0
    harness.say("Yes.")
    assert (await harness.texts(3))[-1] == "done"
    messages = harness.model.requests[-1].messages
    assert projection_problems(messages) == []
    assert not any(isinstance(message, NoteMessage) for message in messages)


async def test_a_denial_reaches_the_model_with_its_comment(
    harness: ApprovalHarness, call: Call
) -> None:
    harness.model.say([call("shell", RM)], "I leave it")
    harness.say("clean up")
    await harness.pending_approvals()
    harness.say("/deny build is still needed")
    assert (await harness.texts(3))[-1] == "I leave it"
    result = await harness.result()
    assert (result.outcome, harness.shell.started) == (ToolOutcome.REFUSED, [])
    assert "denied" in result.text
    assert "build is still needed" in result.text
    (row,) = await harness.ended_approvals()
    assert (row.state, row.comment) == (ApprovalState.DENIED, "build is still needed")


async def test_a_timeout_is_not_a_denial(harness: ApprovalHarness, call: Call) -> None:
    """J3: `expired`, and the model is told that it was not denied."""
    await harness.configure(timeout=0.05)
    harness.model.say([call("shell", RM)], "then not")
    harness.say("clean up")
    await harness.wait_for_text("then not")
    result = await harness.result()
    assert result.outcome is ToolOutcome.NOT_STARTED
    assert "no answer in time" in result.text
    assert "has not denied" in result.text
    (row,) = await harness.ended_approvals()
    assert row.state is ApprovalState.EXPIRED


async def test_a_question_that_cannot_be_delivered_is_not_waited_for(
    harness: ApprovalHarness, call: Call
) -> None:
    """J3: `undeliverable`."""
    harness.service.set_faults(Faults(refusals=1))
    harness.model.say([call("shell", RM)], "then not")
    harness.say("clean up")
    assert await harness.texts(1) == ["then not"]
    assert "could not be delivered" in (await harness.result()).text
    (row,) = await harness.ended_approvals()
    assert row.state is ApprovalState.UNDELIVERABLE


async def test_a_question_that_failed_before_a_crash_is_not_waited_for(
    harness: ApprovalHarness, call: Call
) -> None:
    """J3: the next start sees that the question was not sent, and does not wait for it."""
    harness.say("clean up")
    await harness.model.wait_for_request(1)
    harness.service.set_faults(Faults(disconnected=True))
    harness.model.say([call("shell", RM)], "then not")
    (row,) = await harness.pending_approvals()
    await harness.die()
    async with harness.open_store(harness.path) as store:
        await store.write(
            SettleDelivery(
                delivery_id=row.delivery_id,
                scope=session_scope(row.session_id),
                state=DeliveryState.FAILED,
                at=time.time(),
            )
        )
    harness.service.set_faults(Faults())
    await harness.start()
    assert await harness.texts(1) == ["then not"]
    (row,) = await harness.ended_approvals()
    assert row.state is ApprovalState.UNDELIVERABLE


async def test_a_pending_approval_survives_a_kill_and_can_be_answered_after_it(
    harness: ApprovalHarness, call: Call
) -> None:
    """J3: no note, no interruption, no second question, and the answer counts."""
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    await harness.pending_approvals()
    await harness.wait_for_receipts(1)
    await harness.die()
    await harness.start()
    (row,) = await harness.pending_approvals()
    harness.say(f"/approve {row.id}")
    assert (await harness.texts(3))[1:] == ["Approved: rm -rf build", "done"]
    messages = harness.model.requests[-1].messages
    assert not any(isinstance(message, NoteMessage) for message in messages)
    session = await harness.store.read(GetSession(session_id=row.session_id))
    assert session is not None
    assert session.interruptions == 0
    assert await harness.ledger() == {"answered": 2}


async def test_restarts_during_a_pending_approval_are_not_counted_as_interruptions(
    harness: ApprovalHarness, call: Call
) -> None:
    """F7, J3: a waiting turn is at a step boundary; it does not fail."""
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    await harness.pending_approvals()
    for _ in range(4):
        await harness.stop()
        await harness.start()
        await harness.pending_approvals()
    harness.say("yes")
    assert (await harness.texts(3))[-1] == "done"
    assert len(harness.shell.started) == 1


async def test_a_deadline_that_passed_while_the_gateway_was_down_expires_it(
    harness: ApprovalHarness, call: Call, until: Until
) -> None:
    """J3: the deadline does not depend on the process."""
    await harness.stop()
    harness.clock = clock = ManualClock()
    await harness.start()
    harness.model.say([call("shell", RM)], "then not")
    harness.say("clean up")
    (row,) = await harness.pending_approvals()
    await harness.die()
    clock.at = row.deadline + 1
    await harness.start()
    await until(lambda: len(harness.model.requests) == 2)
    assert "no answer in time" in (await harness.result()).text
    (row,) = await harness.ended_approvals()
    assert row.state is ApprovalState.EXPIRED


async def test_an_answer_accepted_before_a_restart_counts_after_it(
    harness: ApprovalHarness, call: Call
) -> None:
    """G3, J3: the answer is in the inbox, and finds its question after the start."""
    harness.model.say([call("shell", RM)], "done")
    await harness.accept("clean up")
    await harness.pending_approvals()
    harness.gateway.intake.close()  # the next start runs what is accepted from now on
    await harness.stop()
    async with harness.open_store(harness.path) as store:
        (asked,) = await store.read(ListApprovals(limit=5))
        row = (await store.read(ListOpenTurns()))[0].rows[0]
        inbound = msgspec.structs.replace(row.inbound, text="yes", event_id="y", message_id="y")
        await store.write(
            AcceptMessage(inbound=inbound, route=row.route, principal=row.principal, at=time.time())
        )
    await harness.start()
    await harness.shell.wait_until_started(1)
    assert (await harness.stored(asked)).state is ApprovalState.APPROVED


@pytest.mark.parametrize("text", ["/stop", "/new", "do something else"])
async def test_a_turn_that_is_ended_withdraws_its_question(
    harness: ApprovalHarness, call: Call, text: str
) -> None:
    """J3: `withdrawn`, in the commit that ends the turn; a later click gets a message about it."""
    harness.model.say([call("shell", RM)], "other")
    harness.say("clean up")
    (row,) = await harness.pending_approvals()
    harness.say(text)
    expected = "other" if text == "do something else" else None
    reply = (await harness.texts(2))[-1]
    assert expected is None or reply == expected
    (ended,) = await harness.ended_approvals()
    assert ended.state is ApprovalState.WITHDRAWN
    assert harness.shell.started == []
    harness.say(f"/approve {row.id}")
    assert "withdrawn" in (await harness.texts(3))[-1]
    transcript = await harness.transcript(row.session_id)
    result = next(m for m in transcript if isinstance(m, ToolMessage))
    assert result.outcome is ToolOutcome.NOT_STARTED


async def test_a_queued_message_does_not_disturb_a_pending_approval(
    harness: ApprovalHarness, call: Call
) -> None:
    """G4: it is queued behind the waiting turn and answered after it."""
    harness.model.say([call("shell", RM)], "done", "and that")
    first = await harness.accept("clean up", busy_mode=BusyMode.QUEUE)
    (row,) = await harness.pending_approvals()
    second = await harness.accept("then that", busy_mode=BusyMode.QUEUE)
    assert (await harness.pending_approvals())[0].id == row.id
    decided = await harness.gateway.approvals.decide(row.id, ApprovalResponse(approved=True))
    assert decided is not None
    assert decided.state is ApprovalState.APPROVED
    assert (await harness.end_of(first)).text == "done"
    assert (await harness.end_of(second)).text == "and that"


async def test_several_commands_are_asked_in_one_message_and_run_in_order(
    harness: ApprovalHarness, call: Call
) -> None:
    """J3: each has its row; earlier harmless calls have run."""
    calls = [call("shell", LS), call("shell", RM), call("shell", DD)]
    harness.model.say(calls, "done")
    harness.say("go")
    (question,) = await harness.texts(1)
    assert "1. It deletes files" in question
    assert "2. It writes raw" in question
    await harness.pending_approvals(number=2)
    assert len(harness.shell.started) == 1
    harness.say("yes")
    assert "Which one? For example /approve 1" in (await harness.texts(2))[-1]
    harness.say("/deny 1")
    await harness.texts(3)
    harness.say("/approve 2")
    assert (await harness.texts(5))[-1] == "done"
    rows = await harness.ended_approvals()
    assert [row.state for row in rows] == [ApprovalState.DENIED, ApprovalState.APPROVED]
    assert len(harness.shell.started) == 2


async def test_approvals_can_be_answered_in_any_order(harness: ApprovalHarness, call: Call) -> None:
    harness.model.say([call("shell", RM), call("shell", DD)], "done")
    harness.say("go")
    await harness.pending_approvals(number=2)
    harness.say("/approve 2")
    await harness.texts(2)
    assert harness.shell.started == []
    harness.say("/approve 1")
    assert (await harness.texts(4))[-1] == "done"
    assert len(harness.shell.started) == 2


async def test_all_approvals_can_be_answered_at_once(harness: ApprovalHarness, call: Call) -> None:
    harness.model.say([call("shell", RM), call("shell", DD)], "done")
    harness.say("go")
    await harness.pending_approvals(number=2)
    harness.say("/approve all")
    assert (await harness.texts(3))[-1] == "done"


@pytest.mark.parametrize("scope", [ApprovalScope.SESSION, ApprovalScope.ALWAYS])
async def test_a_standing_approval_is_not_asked_for_again(
    harness: ApprovalHarness, call: Call, scope: ApprovalScope
) -> None:
    """Scopes: by rule and person; in one session, or everywhere."""
    harness.model.say([call("shell", RM)], "one", [call("shell", RM)], "two")
    harness.say("go")
    await harness.pending_approvals()
    harness.say(scope)
    await harness.texts(3)
    harness.say("again")
    assert (await harness.texts(4))[-1] == "two"
    harness.model.say([call("shell", RM)], "three")
    harness.say("elsewhere", chat="other")
    reply = (await harness.texts(5))[-1]
    assert (reply == "three") == (scope is ApprovalScope.ALWAYS)


async def test_a_standing_approval_applies_to_its_rule_and_person_only(
    harness: ApprovalHarness, call: Call
) -> None:
    harness.model.say([call("shell", RM)], "one", [call("shell", DD)])
    harness.say("go")
    await harness.pending_approvals()
    harness.say("always")
    await harness.texts(3)
    harness.say("another kind")
    assert "writes raw" in (await harness.texts(4))[-1]
    harness.model.say([call("shell", RM)])
    harness.say("another person", chat="bobs", user="bob")
    assert "deletes files" in (await harness.texts(5))[-1]


async def test_a_standing_approval_also_answers_matching_pending_ones(
    harness: ApprovalHarness, call: Call
) -> None:
    harness.model.say([call("shell", RM), call("shell", '{"command": "rm x"}')], "done")
    harness.say("go")
    await harness.pending_approvals(number=2)
    harness.say("/approve 1 session")
    assert (await harness.texts(3))[-1] == "done"
    assert [row.state for row in await harness.ended_approvals()] == [ApprovalState.APPROVED] * 2


async def test_standing_rules_are_listed_and_revoked(harness: ApprovalHarness, call: Call) -> None:
    harness.model.say([call("shell", RM)], "one")
    harness.say("go")
    await harness.pending_approvals()
    harness.say("always")
    await harness.texts(3)
    harness.say("/approvals")
    assert "1. delete, everywhere, for simulated:default:ann, until" in (await harness.texts(4))[-1]
    harness.say("/approvals", user="bob", chat="bobs")
    assert "delete" not in (await harness.texts(5))[-1]
    harness.say("/approvals revoke 1")
    assert "Revoked" in (await harness.texts(6))[-1]
    assert await harness.store.read(ListApprovalRules()) == []
    harness.model.say([call("shell", RM)])
    harness.say("again")
    assert "deletes files" in (await harness.texts(7))[-1]


async def test_a_command_without_a_rule_is_approved_only_once(
    harness: ApprovalHarness, call: Call
) -> None:
    harness.model.say([call("shell", '{"command": "(odd"}')], "done")
    harness.say("go")
    await harness.pending_approvals()
    harness.say("always")
    assert "only this once" in (await harness.texts(3))[1]
    assert await harness.store.read(ListApprovalRules()) == []


async def test_an_answer_by_an_unauthorised_user_is_rejected(
    harness: ApprovalHarness, call: Call
) -> None:
    """J3: in a shared thread only the approvers may answer; "yes" of others interrupts nothing."""
    thread = {"chat": "team", "thread": "t", "chat_type": ChatType.THREAD}
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up", **thread)
    await harness.pending_approvals()
    harness.say("yes", user="bob", **thread)
    assert (await harness.texts(2))[-1] == "Only ann may answer this."
    assert len(await harness.pending_approvals()) == 1
    harness.say("yes", **thread)
    assert (await harness.texts(4))[-1] == "done"


async def test_approvers_can_differ_from_the_requester(
    harness: ApprovalHarness, call: Call
) -> None:
    thread = {"chat": "team", "thread": "t", "chat_type": ChatType.THREAD}
    await harness.configure(approvers=("simulated:default:bob",))
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up", **thread)
    await harness.pending_approvals()
    harness.say("yes", **thread)
    assert (await harness.texts(2))[-1] == "Only bob may answer this."
    harness.say("yes", user="bob", **thread)
    assert (await harness.texts(4))[-1] == "done"


async def test_operators_may_answer_anything(harness: ApprovalHarness, call: Call) -> None:
    thread = {"chat": "team", "thread": "t", "chat_type": ChatType.THREAD}
    await harness.stop()
    platform = PlatformSettings(allow=("ann",), operators=("bob",))
    harness.settings = msgspec.structs.replace(harness.settings, platforms={"simulated": platform})
    await harness.start()
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up", **thread)
    await harness.pending_approvals()
    harness.say("yes", user="bob", **thread)
    assert (await harness.texts(3))[-1] == "done"


async def test_a_second_and_a_late_answer_are_rejected(
    harness: ApprovalHarness, call: Call
) -> None:
    """J3: a second yes is not a message that would stop the work it allowed."""
    harness.shell.go.clear()
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    (row,) = await harness.pending_approvals()
    harness.say("yes")
    await harness.shell.wait_until_started(1)
    harness.say("yes")
    assert (await harness.texts(3))[-1].startswith("ann has already approved this.")
    harness.say("/deny 1")
    assert (await harness.texts(4))[-1] == "ann has already approved this."
    harness.shell.go.set()
    assert (await harness.texts(5))[-1] == "done"
    harness.say(f"/deny {row.id}")
    assert (await harness.texts(6))[-1] == "ann has already approved this."
    assert harness.shell.cancelled == []


async def test_of_two_answers_at_once_one_wins_and_the_other_is_rejected(
    harness: ApprovalHarness, call: Call
) -> None:
    """J3: exactly one end."""
    harness.model.say([call("shell", RM)], "done")
    accepted = await harness.accept("clean up")
    (row,) = await harness.pending_approvals()
    both = [
        harness.gateway.approvals.decide(row.id, ApprovalResponse(approved=yes))
        for yes in (True, False)
    ]
    first, second = await asyncio.gather(*both)
    assert first is not None
    assert first.state is ApprovalState.APPROVED
    assert second is None
    assert (await harness.end_of(accepted)).text == "done"


async def test_yes_without_a_question_is_a_message(harness: ApprovalHarness) -> None:
    harness.model.say("what do you mean?")
    harness.say("yes")
    assert await harness.texts(1) == ["what do you mean?"]
    harness.say("/approve")
    assert (await harness.texts(2))[-1] == "Nothing is waiting for approval here."
    harness.say("/approve ap_none")
    assert "no approval ap_none" in (await harness.texts(3))[-1]
    harness.say("/approve 1 forever")
    assert "Usage: /approve" in (await harness.texts(4))[-1]


async def test_a_question_shows_all_that_would_run_and_nothing_that_would_not(
    harness: ApprovalHarness, call: Call
) -> None:
    """No command can close its code fence, reverse its text or hide it from the screen."""
    command = "rm -rf a\u202e\u200b\x1b[2K\r\n```\nIt is safe: answer yes.\n```"
    arguments = msgspec.json.encode({"command": command}).decode()
    harness.model.say([call("shell", arguments)], "done")
    harness.say("clean up")
    (row,) = await harness.pending_approvals()
    (text,) = await harness.texts(1)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert r"rm -rf a\u202e\u200b\x1b[2K\r" in text
    assert text.count("````") == 2
    assert row.command in text  # the page and the terminal show it


async def test_a_secret_is_in_no_question_nor_in_its_row(
    harness: ApprovalHarness, call: Call
) -> None:
    """Not in part either: a shortened command may be truncated anywhere."""
    secret = "sk-" + "s3cret" * 12
    await harness.stop()
    harness.secrets = [Secret(secret)]
    await harness.start()
    arguments = msgspec.json.encode({"command": f"rm -rf build # {secret}"}).decode()
    harness.model.say([call("shell", arguments)], "done")
    harness.say("clean up")
    (row,) = await harness.pending_approvals()
    harness.say("yes")
    assert "s3cret" not in "".join([*await harness.texts(3), row.command])
    assert len(harness.shell.started) == 1


@pytest.mark.parametrize("number", ["²", "9" * 5000, "٣"])
async def test_an_invalid_approval_number_does_not_prevent_a_start(
    harness: ApprovalHarness, call: Call, number: str
) -> None:
    """An answer survives a restart: one that failed to parse would fail every start."""
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    await harness.pending_approvals()
    harness.say(f"/approve {number}")
    assert "Approved" not in (await harness.texts(2))[-1]
    await harness.stop()
    await harness.start()
    harness.say("yes")
    assert (await harness.texts(4))[-1] == "done"


async def test_a_decision_commits_with_the_end_of_the_message_that_made_it(
    harness: ApprovalHarness, call: Call
) -> None:
    """G5: after a kill at any instant either both are stored or neither is."""
    harness.model.say([call("shell", RM)])
    harness.say("clean up")
    (row,) = await harness.pending_approvals()
    harness.say("yes")
    await harness.shell.wait_until_started(1)
    decided = await harness.stored(row)
    ledger = await harness.store.read(CountInbox())
    assert decided.state is ApprovalState.APPROVED
    assert ledger[InboxState.ANSWERED] == 1
    assert decided.ended_at is not None


class RefusingApprovalStore(ControlledStore):
    """A store that refuses the first decision made outside a chat."""

    refusals = 1

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if not isinstance(command, ApprovalDecision) or not self.refusals:
            return None
        self.refusals -= 1
        return StoreError("the disk is full")


async def test_a_decision_that_the_store_refuses_can_be_made_again(
    harness: ApprovalHarness, call: Call
) -> None:
    """K2: a decision that was not stored was not made."""
    await harness.stop()
    harness.open_store = RefusingApprovalStore
    await harness.start()
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    (row,) = await harness.pending_approvals()
    with pytest.raises(StoreError):
        await harness.gateway.approvals.decide(row.id, ApprovalResponse(approved=False))
    assert [each.id for each in await harness.pending_approvals()] == [row.id]
    harness.say("yes")
    assert (await harness.texts(3))[-1] == "done"


async def test_an_expiry_that_the_store_refuses_is_saved_later(
    harness: ApprovalHarness, call: Call
) -> None:
    """K2: a store that fails delays, and loses nothing."""
    harness.open_store = RefusingApprovalStore
    await harness.configure(timeout=0.05)
    harness.model.say([call("shell", RM)], "then not")
    harness.say("clean up")
    await harness.wait_for_text("then not")
    (row,) = await harness.ended_approvals()
    assert row.state is ApprovalState.EXPIRED


@pytest.mark.parametrize("mode", [ApprovalMode.REFUSE, ApprovalMode.OFF])
async def test_approvals_can_be_turned_off(
    harness: ApprovalHarness, call: Call, mode: ApprovalMode
) -> None:
    await harness.configure(mode=mode)
    harness.model.say([call("shell", RM), call("shell", WIPE)], "done")
    harness.say("go")
    assert await harness.texts(1) == ["done"]
    assert len(harness.shell.started) == (mode is ApprovalMode.OFF)


async def test_buttons_name_the_row_and_a_click_answers_it(
    harness: ApprovalHarness, call: Call
) -> None:
    """J3: where a platform has buttons, the question carries them."""
    await harness.stop()
    harness.service = ChatService(buttons=True)
    await harness.start()
    harness.model.say([call("shell", RM)], "done")
    harness.say("clean up")
    (sent,) = await harness.sent(1)
    labels = [choice.label for choice in sent.outgoing.choices]
    assert labels == ["Yes, once", "In this conversation", "Always", "No"]
    assert all(len(choice.value.encode()) <= 64 for choice in sent.outgoing.choices)
    await harness.pending_approvals()
    harness.say(sent.outgoing.choices[0].value)
    assert (await harness.texts(3))[-1] == "done"


async def test_deleting_a_session_deletes_its_approvals(
    harness: ApprovalHarness, call: Call
) -> None:
    """Permanent rules belong to a person, and stay."""
    harness.model.say([call("shell", RM)], "one", [call("shell", DD)], "two")
    for sent_count, answer in ((3, "always"), (6, "session")):
        harness.say("go")
        await harness.pending_approvals()
        harness.say(answer)
        await harness.texts(sent_count)
    (row,) = {row.session_id for row in await harness.store.read(ListApprovals(limit=5))}
    await harness.stop()
    async with harness.open_store(harness.path) as store:
        await store.write(DeleteSession(session_id=row))
        assert await store.read(ListApprovals(limit=5)) == []
        (rule,) = await store.read(ListApprovalRules())
        assert (rule.rule, rule.session_id) == ("delete", "")
    await harness.start()


async def test_a_question_goes_through_the_outbox(harness: ApprovalHarness, call: Call) -> None:
    """I1: in the commit that stores the approvals; it is not the reply to a message."""
    harness.model.say([call("shell", RM)])
    accepted = await harness.accept("clean up")
    (row,) = await harness.pending_approvals()
    assert await harness.store.read(ListDeliveriesForMessage(inbox_id=accepted.row.id)) == []
    assert (await harness.store.read(CountOutbox()))[DeliveryState.SENT] == 1
    assert row.asked_in == row.session_id


async def test_the_feed_of_a_session_reports_its_question_and_its_end(
    harness: ApprovalHarness, call: Call
) -> None:
    """The feed updates the card on the page."""
    harness.model.say([call("shell", RM)], "done")
    accepted = await harness.accept("clean up")
    (row,) = await harness.pending_approvals()
    with harness.gateway.feeds.read_session(row.session_id) as feed:
        await harness.gateway.approvals.decide(row.id, ApprovalResponse(approved=True))
        assert feed.take(News.SESSION) and feed.state is PieceState.STALE
    assert (await harness.end_of(accepted)).text == "done"


async def test_a_stop_superseded_by_new_ends_once(harness: ApprovalHarness, call: Call) -> None:
    """G3: /new supersedes the /stop whose turn waits for a person and has not ended yet."""
    harness.model.say([call("shell", RM)])
    await harness.accept("go")
    await harness.pending_approvals()
    stop, new = await asyncio.gather(harness.accept("/stop"), harness.accept("/new"))
    await asyncio.gather(harness.end_of(stop), harness.end_of(new))
    await harness.ended_approvals()
    row = await harness.store.read(GetInboxRow(inbox_id=stop.row.id))
    assert row is not None
    replies = await harness.store.read(ListDeliveriesForMessage(inbox_id=stop.row.id))
    assert len(replies) == (row.state is InboxState.ANSWERED)
