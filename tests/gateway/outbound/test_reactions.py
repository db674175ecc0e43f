"""Reactions: a queued message has the waiting reaction until its turn begins."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.approvals import AlwaysDangerousJudge, InstantShell
from tests.support.gateway_harness import Call, GatewayHarness
from tests.support.two_accounts import TwoAccountsHarness

from holdfast.core.config.settings import ChatSettings, GatewaySettings, PlatformSettings, Settings
from holdfast.core.errors import StoreError, Throttled
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import BusyMode, Inbound
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import ChatType, Source, build_session_key
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.core.ports.store_commands import AcceptMessage, RecordBusyDecision
from holdfast.core.ports.store_queries import ListQueuedMessages, ListUndelivered
from holdfast.core.turns.tool import ReplayClass
from holdfast.testing.simulated.events import (
    Faults,
    Ledger,
    ReactAttempt,
    ReactRequest,
    VendorVerdict,
)
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A gateway whose platform has reactions, in busy mode `queue`."""
    harness = GatewayHarness(tmp_path / "state.db")
    await start_in_mode(harness, BusyMode.QUEUE, reactions=True)
    yield harness
    await harness.stop()


async def start_in_mode(harness: GatewayHarness, mode: BusyMode, **capabilities: Any) -> None:
    gateway = GatewaySettings(busy_mode=mode)
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)
    harness.service = ChatService(**capabilities)
    await harness.start()


async def wait_for_ledger(harness: GatewayHarness, fact: Callable[[Ledger], object]) -> Ledger:
    async with asyncio.timeout(30):
        while not fact(ledger := harness.service.ledger()):
            await asyncio.sleep(0.005)
    return ledger


async def wait_for_reactions(harness: GatewayHarness, *messages: str) -> None:
    """Wait until exactly these messages have a reaction."""
    await wait_for_ledger(
        harness, lambda ledger: [s.message_id for s in ledger.said if s.reactions] == list(messages)
    )


async def wait_for_decision(harness: GatewayHarness, message: str) -> None:
    """Wait until the busy decision about a message is saved."""
    async with asyncio.timeout(30):
        while not [
            row
            for row in await harness.store.read(ListQueuedMessages())
            if row.inbound.message_id == message and row.decision is not None
        ]:
            await asyncio.sleep(0.005)


def attempts(harness: GatewayHarness) -> list[tuple[str, str | None]]:
    return [(each.message_id, each.emoji) for each in harness.service.ledger().reactions]


async def wait_for_queued(harness: GatewayHarness, number: int) -> None:
    async with asyncio.timeout(30):
        while sum(lane.queued for lane in harness.gateway.lanes) < number:
            await asyncio.sleep(0.005)


async def test_a_queued_message_has_a_reaction_until_its_turn_begins(
    harness: GatewayHarness,
) -> None:
    """Only the queued messages have the reaction, and it has no delivery."""
    harness.say("one")
    await harness.model.wait_for_request(1)
    second, third = harness.say("two"), harness.say("three")
    await wait_for_reactions(harness, second, third)
    assert await harness.store.read(ListUndelivered()) == []
    harness.model.say("1")
    await harness.model.wait_for_request(2)
    await wait_for_reactions(harness, third)
    harness.model.say("2", "3")
    assert await harness.texts(3) == ["1", "2", "3"]
    await wait_for_reactions(harness)
    assert attempts(harness) == [
        (second, WAITING_REACTION),
        (third, WAITING_REACTION),
        (second, None),
        (third, None),
    ]


async def test_a_steer_has_a_reaction_until_the_turn_takes_it(
    harness: GatewayHarness, call: Call
) -> None:
    await harness.stop()
    await start_in_mode(harness, BusyMode.STEER, reactions=True)
    held_tool = harness.held_tools[ReplayClass.SAFE]
    held_tool.go.clear()
    harness.model.say([call("safe")])
    harness.say("paint it")
    await held_tool.wait_until_started(1)
    steer = harness.say("in green")
    await wait_for_reactions(harness, steer)
    held_tool.go.set()
    await harness.model.wait_for_request(2)
    await wait_for_reactions(harness)
    harness.model.say("green it is")
    assert await harness.texts(1) == ["green it is"]


async def test_an_interrupting_message_gets_no_reaction(harness: GatewayHarness) -> None:
    await harness.stop()
    await start_in_mode(harness, BusyMode.INTERRUPT, reactions=True)
    harness.say("one")
    await harness.model.wait_for_request(1)
    harness.say("two")
    await harness.model.wait_for_request(2)
    harness.model.say("done")
    assert await harness.texts(1) == ["done"]
    assert attempts(harness) == []


@pytest.mark.parametrize("command", ["/stop", "/new"])
async def test_a_dropped_message_loses_its_reaction(harness: GatewayHarness, command: str) -> None:
    harness.say("one")
    await harness.model.wait_for_request(1)
    second = harness.say("two")
    await wait_for_reactions(harness, second)
    harness.say(command)
    await harness.sent(1)
    await wait_for_reactions(harness)
    assert attempts(harness) == [(second, WAITING_REACTION), (second, None)]


async def test_the_busy_notice_is_sent_besides_the_reaction(harness: GatewayHarness) -> None:
    await harness.stop()
    await start_in_mode(harness, BusyMode.QUEUE, reactions=True, busy_notices=True)
    harness.say("one")
    await harness.model.wait_for_request(1)
    second = harness.say("two")
    (notice,) = await harness.texts(1)
    assert notice.startswith("I am still busy.")
    await wait_for_reactions(harness, second)
    harness.model.say("1", "2")
    await harness.sent(3)


async def test_a_quiet_chat_gets_no_reactions(harness: GatewayHarness) -> None:
    await harness.stop()
    chats = {"library": ChatSettings(quiet=True)}
    platform = PlatformSettings(allow=("ann",), chats=chats)
    harness.settings = Settings(platforms={"simulated": platform})
    await start_in_mode(harness, BusyMode.QUEUE, reactions=True)
    second = {}
    for number, chat in enumerate(("library", "pub"), start=1):
        harness.say("one", chat=chat)
        await harness.model.wait_for_request(number)
        second[chat] = harness.say("two", chat=chat)
        await wait_for_queued(harness, number)
    await wait_for_reactions(harness, second["pub"])
    harness.model.say("1", "1", "2", "2")
    await harness.sent(4)
    await wait_for_reactions(harness)
    assert {message for message, _ in attempts(harness)} == {second["pub"]}


async def test_a_platform_that_declares_no_reactions_gets_none(harness: GatewayHarness) -> None:
    await harness.stop()
    await start_in_mode(harness, BusyMode.QUEUE)
    harness.say("one")
    await harness.model.wait_for_request(1)
    harness.say("two")
    await wait_for_queued(harness, 1)
    harness.model.say("1", "2")
    assert await harness.texts(2) == ["1", "2"]
    assert attempts(harness) == []


async def test_a_refused_reaction_is_not_retried_and_delays_no_other(
    harness: GatewayHarness,
) -> None:
    harness.say("one")
    await harness.model.wait_for_request(1)
    harness.service.set_faults(Faults(rejected_reactions=1))
    second = harness.say("two")
    ledger = await wait_for_ledger(harness, lambda ledger: ledger.reactions)
    failed = ReactAttempt(message_id=second, emoji=WAITING_REACTION, verdict=VendorVerdict.REFUSED)
    assert ledger.reactions == (failed,)
    third = harness.say("three")
    await wait_for_reactions(harness, third)
    harness.model.say("1", "2", "3")
    assert await harness.texts(3) == ["1", "2", "3"]
    await wait_for_reactions(harness)
    assert attempts(harness) == [
        (second, WAITING_REACTION),
        (third, WAITING_REACTION),
        (third, None),
    ]


async def test_flood_control_of_reactions_delays_reactions_and_no_reply(
    harness: GatewayHarness,
) -> None:
    """I3: although the wait was ten minutes."""
    harness.say("one")
    await harness.model.wait_for_request(1)
    harness.service.set_faults(Faults(floods=1, retry_after=600.0))
    second = harness.say("two")
    ledger = await wait_for_ledger(harness, lambda ledger: ledger.reactions)
    failed = ReactAttempt(message_id=second, emoji=WAITING_REACTION, verdict=VendorVerdict.FLOOD)
    assert ledger.reactions == (failed,)
    harness.say("three")
    await wait_for_queued(harness, 2)
    harness.model.say("1", "2", "3")
    assert await harness.texts(3) == ["1", "2", "3"]
    assert attempts(harness) == [(second, WAITING_REACTION)]


async def test_flood_control_of_the_whole_account_stops_reactions_too(
    harness: GatewayHarness,
) -> None:
    """They are dropped, and not sent later."""
    harness.say("one")
    await harness.model.wait_for_request(1)
    harness.service.set_faults(Faults(account_floods=1, retry_after=2.0))
    second = harness.say("two")
    await wait_for_ledger(harness, lambda ledger: ledger.reactions)
    harness.say("three")
    await wait_for_queued(harness, 2)
    harness.model.say("1", "2", "3")
    assert await harness.texts(3) == ["1", "2", "3"]
    assert attempts(harness) == [(second, WAITING_REACTION)]


class HangingReactPlatform(SimulatedPlatform):
    """A platform whose reaction calls hang, or raise an exception that its port does not name."""

    def __init__(self, service: ChatService, *, error: Exception | None = None) -> None:
        """Without an error it hangs."""
        super().__init__(service, account="work", longest_delay=0.02)
        self.requests: list[str | None] = []
        self._error = error

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        self.requests.append(emoji)
        if self._error is None:
            await asyncio.Event().wait()
        else:
            raise self._error


@pytest.mark.parametrize("error", [None, ValueError("no such message"), StoreError("no room")])
async def test_a_platform_that_fails_at_reactions_still_sends_replies(
    tmp_path: Path, error: Exception | None
) -> None:
    """A reaction with an unknown outcome is removed, and each call is made once."""
    two_accounts = TwoAccountsHarness(tmp_path / "state.db")
    two_accounts.work = ChatService(reactions=True)
    platform = HangingReactPlatform(two_accounts.work, error=error)
    two_accounts.extra_platforms = [platform]
    await start_in_mode(two_accounts, BusyMode.QUEUE)
    two_accounts.say_to_work("one")
    await two_accounts.model.wait_for_request(1)
    two_accounts.say_to_work("two")
    await wait_for_queued(two_accounts, 1)
    two_accounts.model.say("1", "2")
    assert await two_accounts.work_texts(2) == ["1", "2"]
    await wait_for_requests(platform, 2)
    await two_accounts.stop()
    assert platform.requests == [WAITING_REACTION, None]


async def wait_for_requests(
    platform: "HangingReactPlatform | ThrottledReactPlatform", number: int
) -> None:
    async with asyncio.timeout(30):
        while len(platform.requests) < number:
            await asyncio.sleep(0.01)


class ThrottledReactPlatform(SimulatedPlatform):
    """A platform that throttles the first removal of a reaction."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, account="work", longest_delay=0.02)
        self.requests: list[tuple[str, str | None]] = []

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        first = emoji is None and (message_id, None) not in self.requests
        self.requests.append((message_id, emoji))
        if first:
            raise Throttled("slow down", retry_after=0.1)
        await super().react(address, message_id, emoji)


async def test_a_throttled_reaction_removal_is_retried_once(tmp_path: Path) -> None:
    """A reaction that stayed would show a message as queued, so its removal is retried."""
    two_accounts = TwoAccountsHarness(tmp_path / "state.db")
    two_accounts.work = ChatService(reactions=True)
    platform = ThrottledReactPlatform(two_accounts.work)
    two_accounts.extra_platforms = [platform]
    await start_in_mode(two_accounts, BusyMode.QUEUE)
    two_accounts.say_to_work("one")
    await two_accounts.model.wait_for_request(1)
    two_accounts.say_to_work("two")
    await wait_for_requests(platform, 1)
    two_accounts.model.say("1", "2")
    await wait_for_requests(platform, 3)
    assert [emoji for _, emoji in platform.requests] == [WAITING_REACTION, None, None]
    await two_accounts.stop()
    assert not any(said.reactions for said in two_accounts.work.ledger().said)


async def test_a_hanging_platform_gets_one_reaction_request_at_a_time(tmp_path: Path) -> None:
    """I3: however many messages are queued, and whatever else is sent there."""
    two_accounts = TwoAccountsHarness(tmp_path / "state.db")
    two_accounts.work = ChatService(reactions=True)
    platform = HangingReactPlatform(two_accounts.work)
    two_accounts.extra_platforms = [platform]
    await start_in_mode(two_accounts, BusyMode.QUEUE)
    two_accounts.say_to_work("one")
    await two_accounts.model.wait_for_request(1)
    for number in range(5):
        two_accounts.say_to_work(f"more {number}")
    await wait_for_queued(two_accounts, 5)
    async with asyncio.timeout(30):
        while (
            not two_accounts.gateway.reactions._cool_down_until
        ):  # it was waited for, and for long enough
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.1)
    assert platform.requests == [WAITING_REACTION]
    answers = [str(number) for number in range(6)]
    two_accounts.model.say(*answers)
    assert await two_accounts.work_texts(6) == answers
    await wait_for_requests(platform, 2)
    await two_accounts.stop()
    assert platform.requests == [WAITING_REACTION, None]


async def test_a_reaction_left_by_a_crash_is_removed_by_the_next_start(
    harness: GatewayHarness,
) -> None:
    """The saved busy decision tells of it; the reaction is removed once the platform connects."""
    harness.say("one")
    await harness.model.wait_for_request(1)
    second = harness.say("two")
    await wait_for_reactions(harness, second)
    await wait_for_decision(harness, second)
    await harness.die()
    harness.model.say("1", "2")
    await harness.start()
    assert await harness.texts(2) == ["1", "2"]
    await wait_for_reactions(harness)
    assert attempts(harness)[-1] == (second, None)


async def test_a_reaction_is_removed_also_when_no_turn_was_open_at_the_crash(
    harness: GatewayHarness,
) -> None:
    """The process died between the end of one turn and the beginning of the next."""
    harness.model.say("1")
    first = harness.say("one")
    await harness.sent(1)
    harness.service.react(ReactRequest(message_id=first, emoji=WAITING_REACTION))
    source = Source(platform="simulated", chat_id="home", user_id="ann", chat_type=ChatType.DM)
    late = Inbound(source=source, event_id="late", message_id=first, text="two")
    route, principal = build_session_key(source), PrincipalId("simulated:ann")
    at = harness.clock.now()
    harness.gateway.intake.close()  # stored, and not routed
    accepted = await harness.store.write(
        AcceptMessage(inbound=late, route=route, principal=principal, at=at)
    )
    assert accepted.route_session is not None
    await harness.store.write(
        RecordBusyDecision(
            inbox_id=accepted.row.id, session_id=accepted.route_session, decision=BusyMode.QUEUE
        )
    )
    await harness.die()
    harness.model.say("2")
    await harness.start()
    assert await harness.texts(2) == ["1", "2"]
    await wait_for_reactions(harness)
    assert attempts(harness) == [(first, WAITING_REACTION), (first, None)]


async def test_a_reaction_left_by_a_crash_is_removed_from_a_message_dropped_later(
    harness: GatewayHarness, call: Call
) -> None:
    """Also where its turn is not resumed, because it waits for an approval."""
    await harness.stop()
    harness.extra_tools, harness.judge = [InstantShell()], AlwaysDangerousJudge()
    await start_in_mode(harness, BusyMode.QUEUE, reactions=True)
    harness.say("one")
    await harness.model.wait_for_request(1)
    second = harness.say("two")
    await wait_for_reactions(harness, second)
    await wait_for_decision(harness, second)
    harness.model.say([call("shell", '{"command": "rm -r notes"}')])
    await harness.sent(1)  # the question
    await harness.die()
    await harness.start()
    assert attempts(harness) == [(second, WAITING_REACTION)]
    harness.say("/stop")
    await wait_for_reactions(harness)
    assert attempts(harness)[-1] == (second, None)


async def test_a_subagent_result_puts_no_reaction_on_an_old_message(
    harness: GatewayHarness,
) -> None:
    """The result has the message id of the request."""
    harness.model.say("1")
    first = harness.say("one")
    await harness.sent(1)
    harness.say("two")
    await harness.model.wait_for_request(2)
    source = Source(platform="simulated", chat_id="home", user_id="ann", chat_type=ChatType.DM)
    result = Inbound(
        source=source, event_id="child", message_id=first, text="done", note=True, mergeable=False
    )
    await harness.gateway.intake.accept(result)
    await wait_for_queued(harness, 1)
    harness.model.say("2", "3")
    await harness.sent(3)
    assert attempts(harness) == []


async def test_an_api_message_gets_no_reaction(
    harness: GatewayHarness,
) -> None:
    first = await harness.accept("one")
    await harness.model.wait_for_request(1)
    second = await harness.accept("two")
    harness.model.say("1", "2")
    assert [(await harness.end_of(one)).text for one in (first, second)] == ["1", "2"]
    assert attempts(harness) == []
