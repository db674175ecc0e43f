"""Chapter J, approvals: a command that needs a person's word waits for it, and for nothing else."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract.conftest import Call, HeldClock, Lever, Until, World

from holdfast.core.config.settings import ApprovalMode, ApprovalSettings, PlatformSettings
from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import BusyMode, InboxState
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.source import ChatType
from holdfast.core.messages.transcript import Message, NoteMessage, ToolMessage, ToolOutcome
from holdfast.core.people.approval import (
    HARMLESS,
    Approval,
    ApprovalDecision,
    ApprovalScope,
    ApprovalState,
    CommandRisk,
    CommandVerdict,
)
from holdfast.core.secrets import Secret
from holdfast.core.turns.projection import projection_problems
from holdfast.core.turns.tool import Arguments, ReplayClass
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.approvals.service import ApprovalResponse
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.simulated.events import Faults
from holdfast.testing.simulated.service import ChatService

RM = '{"command": "rm -rf build"}'
DD = '{"command": "dd if=/dev/zero of=disk"}'
LS = '{"command": "ls"}'
WIPE = '{"command": "rm -rf /"}'


class ByWords:
    """Judges by the first words; the real judge has tests of its own."""

    def judge(self, command: str) -> CommandVerdict:
        if command == "rm -rf /":
            return CommandVerdict(
                level=CommandRisk.FORBIDDEN, rule="wipe", why="It wipes the disk."
            )
        for word, rule, why in (
            ("rm", "delete", "It deletes files."),
            ("dd", "dd", "It writes raw."),
        ):
            if command.startswith(word):
                return CommandVerdict(level=CommandRisk.DANGEROUS, rule=rule, why=why)
        if command.startswith("("):
            return CommandVerdict(level=CommandRisk.DANGEROUS, why="It cannot be read.")
        return HARMLESS


class Shell(Lever):
    """A lever that runs commands."""

    def __init__(self) -> None:
        super().__init__("shell", ReplayClass.ATTACH)

    def command(self, arguments: Arguments) -> str | None:
        wanted = arguments.get("command")
        return wanted if isinstance(wanted, str) else None


class Asking(World):
    """A world with a shell, a judge, and people to ask."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.shell = Shell()
        self.more_tools = [self.shell]
        self.judge = ByWords()

    async def configure(self, **approvals: Any) -> None:
        await self.stop()
        settings = ApprovalSettings(**approvals)
        self.settings = msgspec.structs.replace(self.settings, approvals=settings)
        await self.start()

    async def asked(self, *, number: int = 1) -> list[Approval]:
        """What is pending, once it is so much, with the lanes at rest."""
        async with asyncio.timeout(30):
            while True:
                rows = await self.store.approvals(limit=50, pending=True)
                waits = self.gateway.lanes.count(LaneState.WAITING)
                if len(rows) >= number and waits:
                    return rows[::-1]
                await asyncio.sleep(0.005)

    async def ended(self) -> list[Approval]:
        """All that was asked, once nothing is pending any more."""
        async with asyncio.timeout(30):
            while await self.store.approvals(limit=1, pending=True):
                await asyncio.sleep(0.005)
        return (await self.store.approvals(limit=50))[::-1]

    async def receipts(self, number: int) -> None:
        """Returns when so many messages are known to have arrived."""
        async with asyncio.timeout(30):
            while (await self.store.outbox_counts())[DeliveryState.SENT] < number:
                await asyncio.sleep(0.005)

    async def told(self, text: str) -> None:
        """Returns when the chat has this; a question that expires at once may never come there."""
        async with asyncio.timeout(30):
            while text not in await self.texts(0):
                await asyncio.sleep(0.005)

    async def row(self, approval: Approval) -> Approval:
        found = await self.store.approval(approval.id)
        assert found is not None
        return found

    async def result(self) -> ToolMessage:
        """The last tool result that the model was shown."""
        messages: tuple[Message, ...] = self.model.requests[-1].messages
        return [m for m in messages if isinstance(m, ToolMessage)][-1]


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    world = Asking(tmp_path / "state.db")
    await world.start()
    yield world
    await world.stop()


async def test_a_harmless_command_runs_and_nobody_is_asked(world: Asking, call: Call) -> None:
    world.model.say([call("shell", LS)], "done")
    world.say("go")
    assert await world.texts(1) == ["done"]
    assert await world.store.approvals(limit=5) == []


async def test_a_hopeless_command_is_refused_and_the_model_hears_why(
    world: Asking, call: Call
) -> None:
    world.model.say([call("shell", WIPE)], "I see")
    world.say("go")
    assert await world.texts(1) == ["I see"]
    result = await world.result()
    assert result.outcome is ToolOutcome.REFUSED
    assert "wipes the disk" in result.text
    assert world.shell.pulled == []


async def test_a_dangerous_command_waits_for_a_yes(world: Asking, call: Call) -> None:
    """J3: a row with requester, approvers, one deadline, and an end."""
    world.model.say([call("shell", RM)], "done")
    world.say("clean up")
    (question,) = await world.texts(1)
    assert "rm -rf build" in question
    assert "deletes files" in question
    (row,) = await world.asked()
    assert row.requester == "simulated:default:ann"
    assert row.approvers == ("simulated:default:ann",)
    assert row.deadline == row.asked_at + 3600
    assert world.shell.pulled == []
    world.say("yes")
    assert (await world.texts(3))[1:] == ["Approved: rm -rf build", "done"]
    (row,) = await world.ended()
    assert (row.state, row.by) == (ApprovalState.APPROVED, "simulated:default:ann")
    assert len(world.shell.pulled) == 1
    assert await world.ledger() == {"answered": 2}


async def test_a_waiting_turn_holds_no_agent(world: Asking, call: Call, until: Until) -> None:
    """J3: the agent goes back to the cache, and may be evicted; the turn goes on all the same."""
    world.model.say([call("shell", RM)], "done")
    world.say("clean up")
    (row,) = await world.asked()
    lane = world.gateway.lanes.get(row.session_id)
    assert lane is not None
    assert (lane.state, lane.running_turn, lane.in_flight) == (LaneState.WAITING, None, 1)
    world.gateway.services.cache.clear()
    assert world.model.leased == 0
    world.say("Yes.")
    assert (await world.texts(3))[-1] == "done"
    messages = world.model.requests[-1].messages
    assert projection_problems(messages) == []
    assert not any(isinstance(message, NoteMessage) for message in messages)


async def test_a_no_is_told_to_the_model_with_its_words(world: Asking, call: Call) -> None:
    world.model.say([call("shell", RM)], "I leave it")
    world.say("clean up")
    await world.asked()
    world.say("/deny build is still needed")
    assert (await world.texts(3))[-1] == "I leave it"
    result = await world.result()
    assert (result.outcome, world.shell.pulled) == (ToolOutcome.REFUSED, [])
    assert "denied" in result.text
    assert "build is still needed" in result.text
    (row,) = await world.ended()
    assert (row.state, row.comment) == (ApprovalState.DENIED, "build is still needed")


async def test_a_timeout_is_not_a_no(world: Asking, call: Call) -> None:
    """J3: `expired`, and the model is told that nobody denied it."""
    await world.configure(timeout=0.05)
    world.model.say([call("shell", RM)], "then not")
    world.say("clean up")
    await world.told("then not")
    result = await world.result()
    assert result.outcome is ToolOutcome.NOT_STARTED
    assert "nobody answered in time" in result.text
    assert "has not denied" in result.text
    (row,) = await world.ended()
    assert row.state is ApprovalState.EXPIRED


async def test_a_question_that_cannot_be_delivered_is_not_waited_for(
    world: Asking, call: Call
) -> None:
    """J3: `undeliverable`."""
    world.service.set_faults(Faults(refusals=1))
    world.model.say([call("shell", RM)], "then not")
    world.say("clean up")
    assert await world.texts(1) == ["then not"]
    assert "could not be delivered" in (await world.result()).text
    (row,) = await world.ended()
    assert row.state is ApprovalState.UNDELIVERABLE


async def test_a_question_that_failed_as_the_process_died_is_not_waited_for(
    world: Asking, call: Call
) -> None:
    """J3: the next start sees that nobody was asked, and the deadline is not waited for."""
    world.say("clean up")
    await world.model.wait_for_request(1)
    world.service.set_faults(Faults(disconnected=True))
    world.model.say([call("shell", RM)], "then not")
    (row,) = await world.asked()
    await world.die()
    async with world.open_store(world.path) as store:
        await store.settle_delivery(row.delivery_id, DeliveryState.FAILED, at=time.time())
    world.service.set_faults(Faults())
    await world.start()
    assert await world.texts(1) == ["then not"]
    (row,) = await world.ended()
    assert row.state is ApprovalState.UNDELIVERABLE


async def test_what_was_asked_survives_a_kill_and_a_click_after_it_counts(
    world: Asking, call: Call
) -> None:
    """J3: no note, no cut, nobody is asked twice, and the answer counts."""
    world.model.say([call("shell", RM)], "done")
    world.say("clean up")
    await world.asked()
    await world.receipts(1)
    await world.die()
    await world.start()
    (row,) = await world.asked()
    world.say(f"/approve {row.id}")
    assert (await world.texts(3))[1:] == ["Approved: rm -rf build", "done"]
    messages = world.model.requests[-1].messages
    assert not any(isinstance(message, NoteMessage) for message in messages)
    session = await world.store.session(row.session_id)
    assert session is not None
    assert session.interruptions == 0
    assert await world.ledger() == {"answered": 2}


async def test_many_restarts_while_one_waits_are_no_cuts(world: Asking, call: Call) -> None:
    """F7, J3: a turn that waits stands at a step boundary; it is not given up."""
    world.model.say([call("shell", RM)], "done")
    world.say("clean up")
    await world.asked()
    for _ in range(4):
        await world.stop()
        await world.start()
        await world.asked()
    world.say("yes")
    assert (await world.texts(3))[-1] == "done"
    assert len(world.shell.pulled) == 1


async def test_a_deadline_that_passed_while_the_gateway_was_down_expires_it(
    world: Asking, call: Call, until: Until
) -> None:
    """J3: one deadline, whoever is there to see it pass."""
    await world.stop()
    world.clock = clock = HeldClock()
    await world.start()
    world.model.say([call("shell", RM)], "then not")
    world.say("clean up")
    (row,) = await world.asked()
    await world.die()
    clock.at = row.deadline + 1
    await world.start()
    await until(lambda: len(world.model.requests) == 2)
    assert "nobody answered in time" in (await world.result()).text
    (row,) = await world.ended()
    assert row.state is ApprovalState.EXPIRED


async def test_an_answer_that_was_accepted_and_not_yet_heard_counts_after_a_restart(
    world: Asking, call: Call
) -> None:
    """G3, J3: the yes is in the inbox, and finds its question after the start."""
    world.model.say([call("shell", RM)], "done")
    await world.accept("clean up")
    await world.asked()
    world.gateway.intake.close()  # what is accepted from now on is the next start's to run
    await world.stop()
    async with world.open_store(world.path) as store:
        (asked,) = await store.approvals(limit=5)
        row = (await store.open_turns())[0].rows[0]
        inbound = msgspec.structs.replace(row.inbound, text="yes", event_id="y", message_id="y")
        await store.accept(inbound, route=row.route, principal=row.principal, at=time.time())
    await world.start()
    await world.shell.was_pulled(1)
    assert (await world.row(asked)).state is ApprovalState.APPROVED


@pytest.mark.parametrize("text", ["/stop", "/new", "do something else"])
async def test_a_turn_that_is_ended_withdraws_its_question(
    world: Asking, call: Call, text: str
) -> None:
    """J3: `withdrawn`, in the commit that ends the turn; a click after that is told so."""
    world.model.say([call("shell", RM)], "other")
    world.say("clean up")
    (row,) = await world.asked()
    world.say(text)
    expected = "other" if text == "do something else" else None
    told = (await world.texts(2))[-1]
    assert expected is None or told == expected
    (ended,) = await world.ended()
    assert ended.state is ApprovalState.WITHDRAWN
    assert world.shell.pulled == []
    world.say(f"/approve {row.id}")
    assert "withdrawn" in (await world.texts(3))[-1]
    transcript = await world.transcript(row.session_id)
    result = next(m for m in transcript if isinstance(m, ToolMessage))
    assert result.outcome is ToolOutcome.NOT_STARTED


async def test_a_message_that_is_to_wait_does_not_disturb(world: Asking, call: Call) -> None:
    """G4: queued behind the turn that waits, and answered after it."""
    world.model.say([call("shell", RM)], "done", "and that")
    first = await world.accept("clean up", busy_mode=BusyMode.QUEUE)
    (row,) = await world.asked()
    second = await world.accept("then that", busy_mode=BusyMode.QUEUE)
    assert (await world.asked())[0].id == row.id
    decided = await world.gateway.approvals.decide(row.id, ApprovalResponse(approved=True))
    assert decided is not None
    assert decided.state is ApprovalState.APPROVED
    assert (await world.end_of(first)).text == "done"
    assert (await world.end_of(second)).text == "and that"


async def test_several_are_asked_in_one_message_and_run_in_order(world: Asking, call: Call) -> None:
    """J3: each has its row; what is in order before them has run."""
    calls = [call("shell", LS), call("shell", RM), call("shell", DD)]
    world.model.say(calls, "done")
    world.say("go")
    (question,) = await world.texts(1)
    assert "1. It deletes files" in question
    assert "2. It writes raw" in question
    await world.asked(number=2)
    assert len(world.shell.pulled) == 1
    world.say("yes")
    assert "Which one? /approve 1 is the first" in (await world.texts(2))[-1]
    world.say("/deny 1")
    await world.texts(3)
    world.say("/approve 2")
    assert (await world.texts(5))[-1] == "done"
    rows = await world.ended()
    assert [row.state for row in rows] == [ApprovalState.DENIED, ApprovalState.APPROVED]
    assert len(world.shell.pulled) == 2


async def test_the_second_may_be_answered_first(world: Asking, call: Call) -> None:
    world.model.say([call("shell", RM), call("shell", DD)], "done")
    world.say("go")
    await world.asked(number=2)
    world.say("/approve 2")
    await world.texts(2)
    assert world.shell.pulled == []
    world.say("/approve 1")
    assert (await world.texts(4))[-1] == "done"
    assert len(world.shell.pulled) == 2


async def test_all_can_be_answered_at_once(world: Asking, call: Call) -> None:
    world.model.say([call("shell", RM), call("shell", DD)], "done")
    world.say("go")
    await world.asked(number=2)
    world.say("/approve all")
    assert (await world.texts(3))[-1] == "done"


@pytest.mark.parametrize("scope", [ApprovalScope.SESSION, ApprovalScope.ALWAYS])
async def test_a_yes_that_stands_is_not_asked_for_again(
    world: Asking, call: Call, scope: ApprovalScope
) -> None:
    """Scopes: by rule and person; in the conversation, or wherever that person is."""
    world.model.say([call("shell", RM)], "one", [call("shell", RM)], "two")
    world.say("go")
    await world.asked()
    world.say(scope)
    await world.texts(3)
    world.say("again")
    assert (await world.texts(4))[-1] == "two"
    world.model.say([call("shell", RM)], "three")
    world.say("elsewhere", chat="other")
    told = (await world.texts(5))[-1]
    assert (told == "three") == (scope is ApprovalScope.ALWAYS)


async def test_a_standing_yes_holds_for_its_rule_and_person_alone(
    world: Asking, call: Call
) -> None:
    world.model.say([call("shell", RM)], "one", [call("shell", DD)])
    world.say("go")
    await world.asked()
    world.say("always")
    await world.texts(3)
    world.say("another kind")
    assert "writes raw" in (await world.texts(4))[-1]
    world.model.say([call("shell", RM)])
    world.say("another person", chat="bobs", user="bob")
    assert "deletes files" in (await world.texts(5))[-1]


async def test_a_standing_yes_also_answers_what_is_pending_and_like_it(
    world: Asking, call: Call
) -> None:
    world.model.say([call("shell", RM), call("shell", '{"command": "rm x"}')], "done")
    world.say("go")
    await world.asked(number=2)
    world.say("/approve 1 session")
    assert (await world.texts(3))[-1] == "done"
    assert [row.state for row in await world.ended()] == [ApprovalState.APPROVED] * 2


async def test_standing_rules_are_listed_and_revoked(world: Asking, call: Call) -> None:
    world.model.say([call("shell", RM)], "one")
    world.say("go")
    await world.asked()
    world.say("always")
    await world.texts(3)
    world.say("/approvals")
    assert "1. delete, always, for simulated:default:ann" in (await world.texts(4))[-1]
    world.say("/approvals", user="bob", chat="bobs")
    assert "delete" not in (await world.texts(5))[-1]
    world.say("/approvals revoke 1")
    assert "Revoked" in (await world.texts(6))[-1]
    assert await world.store.approval_rules() == []
    world.model.say([call("shell", RM)])
    world.say("again")
    assert "deletes files" in (await world.texts(7))[-1]


async def test_what_no_rule_names_is_approved_only_once(world: Asking, call: Call) -> None:
    world.model.say([call("shell", '{"command": "(odd"}')], "done")
    world.say("go")
    await world.asked()
    world.say("always")
    assert "only this once" in (await world.texts(3))[1]
    assert await world.store.approval_rules() == []


async def test_a_foreign_answer_is_told_so(world: Asking, call: Call) -> None:
    """J3: in a shared thread only those may answer who are named; nobody interrupts by a yes."""
    place = {"chat": "team", "thread": "t", "chat_type": ChatType.THREAD}
    world.model.say([call("shell", RM)], "done")
    world.say("clean up", **place)
    await world.asked()
    world.say("yes", user="bob", **place)
    assert (await world.texts(2))[-1] == "Only ann may answer this."
    assert len(await world.asked()) == 1
    world.say("yes", **place)
    assert (await world.texts(4))[-1] == "done"


async def test_approvers_can_be_others_than_who_asks(world: Asking, call: Call) -> None:
    place = {"chat": "team", "thread": "t", "chat_type": ChatType.THREAD}
    await world.configure(approvers=("simulated:default:bob",))
    world.model.say([call("shell", RM)], "done")
    world.say("clean up", **place)
    await world.asked()
    world.say("yes", **place)
    assert (await world.texts(2))[-1] == "Only bob may answer this."
    world.say("yes", user="bob", **place)
    assert (await world.texts(4))[-1] == "done"


async def test_operators_may_answer_anything(world: Asking, call: Call) -> None:
    place = {"chat": "team", "thread": "t", "chat_type": ChatType.THREAD}
    await world.stop()
    platform = PlatformSettings(allow=("ann",), operators=("bob",))
    world.settings = msgspec.structs.replace(world.settings, platforms={"simulated": platform})
    await world.start()
    world.model.say([call("shell", RM)], "done")
    world.say("clean up", **place)
    await world.asked()
    world.say("yes", user="bob", **place)
    assert (await world.texts(3))[-1] == "done"


async def test_a_second_and_a_late_answer_are_told_so(world: Asking, call: Call) -> None:
    """J3: a second yes is not a message that would stop the work it allowed."""
    world.shell.go.clear()
    world.model.say([call("shell", RM)], "done")
    world.say("clean up")
    (row,) = await world.asked()
    world.say("yes")
    await world.shell.was_pulled(1)
    world.say("yes")
    assert (await world.texts(3))[-1].startswith("This was approved already, by ann.")
    world.say("/deny 1")
    assert (await world.texts(4))[-1] == "This was approved already, by ann."
    world.shell.go.set()
    assert (await world.texts(5))[-1] == "done"
    world.say(f"/deny {row.id}")
    assert (await world.texts(6))[-1] == "This was approved already, by ann."
    assert world.shell.cancelled == []


async def test_of_two_answers_at_once_one_wins_and_the_other_is_told(
    world: Asking, call: Call
) -> None:
    """J3: exactly one end."""
    world.model.say([call("shell", RM)], "done")
    accepted = await world.accept("clean up")
    (row,) = await world.asked()
    both = [
        world.gateway.approvals.decide(row.id, ApprovalResponse(approved=yes))
        for yes in (True, False)
    ]
    first, second = await asyncio.gather(*both)
    assert first is not None
    assert first.state is ApprovalState.APPROVED
    assert second is None
    assert (await world.end_of(accepted)).text == "done"


async def test_yes_without_a_question_is_a_message(world: Asking) -> None:
    world.model.say("what do you mean?")
    world.say("yes")
    assert await world.texts(1) == ["what do you mean?"]
    world.say("/approve")
    assert (await world.texts(2))[-1] == "Nothing waits for approval here."
    world.say("/approve ap_none")
    assert "no approval ap_none" in (await world.texts(3))[-1]
    world.say("/approve 1 forever")
    assert "Usage: /approve" in (await world.texts(4))[-1]


async def test_a_question_shows_all_that_would_run_and_nothing_that_would_not(
    world: Asking, call: Call
) -> None:
    """No command can end its own fence, turn its letters round or take them off the screen."""
    command = "rm -rf a\u202e\u200b\x1b[2K\r\n```\nIt is safe: answer yes.\n```"
    arguments = msgspec.json.encode({"command": command}).decode()
    world.model.say([call("shell", arguments)], "done")
    world.say("clean up")
    (row,) = await world.asked()
    (text,) = await world.texts(1)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert r"rm -rf a\u202e\u200b\x1b[2K\r" in text
    assert text.count("````") == 2
    assert row.command in text  # which is what the page and the terminal show


async def test_a_secret_is_in_no_question_nor_in_its_row(world: Asking, call: Call) -> None:
    """Not by half either: what is shown of a command in a line is cut anywhere."""
    secret = "sk-" + "s3cret" * 12
    await world.stop()
    world.secrets = [Secret(secret)]
    await world.start()
    arguments = msgspec.json.encode({"command": f"rm -rf build # {secret}"}).decode()
    world.model.say([call("shell", arguments)], "done")
    world.say("clean up")
    (row,) = await world.asked()
    world.say("yes")
    assert "s3cret" not in "".join([*await world.texts(3), row.command])
    assert len(world.shell.pulled) == 1


@pytest.mark.parametrize("number", ["²", "9" * 5000, "٣"])
async def test_a_number_that_is_none_keeps_no_gateway_from_starting(
    world: Asking, call: Call, number: str
) -> None:
    """An answer outlives a restart: one that could not be read would be read at every start."""
    world.model.say([call("shell", RM)], "done")
    world.say("clean up")
    await world.asked()
    world.say(f"/approve {number}")
    assert "Approved" not in (await world.texts(2))[-1]
    await world.stop()
    await world.start()
    world.say("yes")
    assert (await world.texts(4))[-1] == "done"


async def test_a_decision_commits_with_the_end_of_the_message_that_made_it(
    world: Asking, call: Call
) -> None:
    """G5: after a kill at any instant either both are there or neither is."""
    world.model.say([call("shell", RM)])
    world.say("clean up")
    (row,) = await world.asked()
    world.say("yes")
    await world.shell.was_pulled(1)
    decided = await world.row(row)
    ledger = await world.store.inbox_counts()
    assert decided.state is ApprovalState.APPROVED
    assert ledger[InboxState.ANSWERED] == 1
    assert decided.ended_at is not None


class Refusing(SqliteStore):
    """A store that does not take the first decision that comes outside a chat."""

    refusals = 1

    def decide_approvals(self, decision: ApprovalDecision) -> asyncio.Future[None]:
        if self.refusals:
            self.refusals -= 1
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(StoreError("the disk is full"))
            return refused
        return super().decide_approvals(decision)


async def test_a_decision_that_the_store_refuses_can_be_made_again(
    world: Asking, call: Call
) -> None:
    """K2: what could not be kept has not been decided."""
    await world.stop()
    world.open_store = Refusing
    await world.start()
    world.model.say([call("shell", RM)], "done")
    world.say("clean up")
    (row,) = await world.asked()
    with pytest.raises(StoreError):
        await world.gateway.approvals.decide(row.id, ApprovalResponse(approved=False))
    assert [each.id for each in await world.asked()] == [row.id]
    world.say("yes")
    assert (await world.texts(3))[-1] == "done"


async def test_a_deadline_that_the_store_cannot_keep_is_kept_later(
    world: Asking, call: Call
) -> None:
    """K2: a store that fails delays, and loses nothing."""
    world.open_store = Refusing
    await world.configure(timeout=0.05)
    world.model.say([call("shell", RM)], "then not")
    world.say("clean up")
    await world.told("then not")
    (row,) = await world.ended()
    assert row.state is ApprovalState.EXPIRED


@pytest.mark.parametrize("mode", [ApprovalMode.REFUSE, ApprovalMode.OFF])
async def test_a_gateway_can_be_told_not_to_ask(
    world: Asking, call: Call, mode: ApprovalMode
) -> None:
    await world.configure(mode=mode)
    world.model.say([call("shell", RM), call("shell", WIPE)], "done")
    world.say("go")
    assert await world.texts(1) == ["done"]
    assert len(world.shell.pulled) == (mode is ApprovalMode.OFF)


async def test_buttons_name_the_row_and_a_click_answers_it(world: Asking, call: Call) -> None:
    """J3: where a platform has buttons, the question carries them."""
    await world.stop()
    world.service = ChatService(buttons=True)
    await world.start()
    world.model.say([call("shell", RM)], "done")
    world.say("clean up")
    (sent,) = await world.sent(1)
    labels = [choice.label for choice in sent.outgoing.choices]
    assert labels == ["Yes, once", "In this conversation", "Always", "No"]
    assert all(len(choice.value.encode()) <= 64 for choice in sent.outgoing.choices)
    await world.asked()
    world.say(sent.outgoing.choices[0].value)
    assert (await world.texts(3))[-1] == "done"


async def test_deleting_a_session_deletes_what_it_asked(world: Asking, call: Call) -> None:
    """What was allowed for good was said about a person, and stays."""
    world.model.say([call("shell", RM)], "one", [call("shell", DD)], "two")
    for said, word in ((3, "always"), (6, "session")):
        world.say("go")
        await world.asked()
        world.say(word)
        await world.texts(said)
    (row,) = {row.session_id for row in await world.store.approvals(limit=5)}
    await world.stop()
    async with world.open_store(world.path) as store:
        await store.delete_session(row, inbox_ids=await store.session_inbox_ids(row))
        assert await store.approvals(limit=5) == []
        (rule,) = await store.approval_rules()
        assert (rule.rule, rule.session_id) == ("delete", "")
    await world.start()


async def test_a_question_is_owed_like_any_message(world: Asking, call: Call) -> None:
    """I1: through the outbox, in the commit that keeps the rows; it answers no message."""
    world.model.say([call("shell", RM)])
    accepted = await world.accept("clean up")
    (row,) = await world.asked()
    assert await world.store.deliveries_for_message(accepted.row.id) == []
    assert (await world.store.outbox_counts())[DeliveryState.SENT] == 1
    assert row.asked_in == row.session_id


async def test_people_who_look_at_a_session_hear_of_its_question_and_its_end(
    world: Asking, call: Call
) -> None:
    """The page's card comes and goes by the feed."""
    world.model.say([call("shell", RM)], "done")
    accepted = await world.accept("clean up")
    (row,) = await world.asked()
    with world.gateway.services.feeds.read_session(row.session_id) as feed:
        await world.gateway.approvals.decide(row.id, ApprovalResponse(approved=True))
        assert (feed.changed, feed.stale) == (True, True)
    assert (await world.end_of(accepted)).text == "done"


async def test_a_stop_that_a_new_overtakes_has_one_end_and_no_reply_besides(
    world: Asking, call: Call
) -> None:
    """G3: /new supersedes the /stop whose turn waits for a person and has not ended yet."""
    world.model.say([call("shell", RM)])
    await world.accept("go")
    await world.asked()
    stop, new = await asyncio.gather(world.accept("/stop"), world.accept("/new"))
    await asyncio.gather(world.end_of(stop), world.end_of(new))
    await world.ended()
    row = await world.store.inbox_row(stop.row.id)
    assert row is not None
    replies = await world.store.deliveries_for_message(stop.row.id)
    assert len(replies) == (row.state is InboxState.ANSWERED)
