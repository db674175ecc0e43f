"""Busy: where messages can be marked, one that waits bears a sign until its turn begins."""

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
async def chat(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    """A gateway whose platform marks messages, and lets them wait."""
    harness = GatewayHarness(tmp_path / "state.db")
    await in_mode(harness, BusyMode.QUEUE, reactions=True)
    yield harness
    await harness.stop()


async def in_mode(harness: GatewayHarness, mode: BusyMode, **about: Any) -> None:
    gateway = GatewaySettings(busy_mode=mode)
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)
    harness.service = ChatService(**about)
    await harness.start()


async def until_shows(harness: GatewayHarness, fact: Callable[[Ledger], object]) -> Ledger:
    async with asyncio.timeout(30):
        while not fact(ledger := harness.service.ledger()):
            await asyncio.sleep(0.005)
    return ledger


async def marked(harness: GatewayHarness, *messages: str) -> None:
    """Until exactly these bear a sign."""
    await until_shows(
        harness, lambda ledger: [s.message_id for s in ledger.said if s.reactions] == list(messages)
    )


async def until_decided(harness: GatewayHarness, message: str) -> None:
    """Until the log has what becomes of it."""
    async with asyncio.timeout(30):
        while not [
            row
            for row in await harness.store.queued_messages()
            if row.inbound.message_id == message and row.decision is not None
        ]:
            await asyncio.sleep(0.005)


def tried(harness: GatewayHarness) -> list[tuple[str, str | None]]:
    return [(each.message_id, each.emoji) for each in harness.service.ledger().reactions]


async def queued(harness: GatewayHarness, number: int) -> None:
    async with asyncio.timeout(30):
        while sum(lane.queued for lane in harness.gateway.lanes) < number:
            await asyncio.sleep(0.005)


async def test_a_queued_message_has_a_reaction_until_its_turn_begins(chat: GatewayHarness) -> None:
    """Its own message bears the sign, behind the reply that is on its way; nothing else does, and
    no row is owed for it."""
    chat.say("one")
    await chat.model.wait_for_request(1)
    second, third = chat.say("two"), chat.say("three")
    await marked(chat, second, third)
    assert await chat.store.undelivered_rows() == []
    chat.model.say("1")
    await chat.model.wait_for_request(2)
    await marked(chat, third)
    chat.model.say("2", "3")
    assert await chat.texts(3) == ["1", "2", "3"]
    await marked(chat)
    assert tried(chat) == [
        (second, WAITING_REACTION),
        (third, WAITING_REACTION),
        (second, None),
        (third, None),
    ]


async def test_a_steer_has_a_reaction_until_the_turn_takes_it(
    chat: GatewayHarness, call: Call
) -> None:
    await chat.stop()
    await in_mode(chat, BusyMode.STEER, reactions=True)
    lever = chat.held_tools[ReplayClass.SAFE]
    lever.go.clear()
    chat.model.say([call("safe")])
    chat.say("paint it")
    await lever.wait_until_started(1)
    steer = chat.say("in green")
    await marked(chat, steer)
    lever.go.set()
    await chat.model.wait_for_request(2)
    await marked(chat)
    chat.model.say("green it is")
    assert await chat.texts(1) == ["green it is"]


async def test_an_interrupting_message_gets_no_reaction(chat: GatewayHarness) -> None:
    await chat.stop()
    await in_mode(chat, BusyMode.INTERRUPT, reactions=True)
    chat.say("one")
    await chat.model.wait_for_request(1)
    chat.say("two")
    await chat.model.wait_for_request(2)
    chat.model.say("done")
    assert await chat.texts(1) == ["done"]
    assert tried(chat) == []


@pytest.mark.parametrize("command", ["/stop", "/new"])
async def test_a_dropped_message_loses_its_reaction(chat: GatewayHarness, command: str) -> None:
    chat.say("one")
    await chat.model.wait_for_request(1)
    second = chat.say("two")
    await marked(chat, second)
    chat.say(command)
    await chat.sent(1)
    await marked(chat)
    assert tried(chat) == [(second, WAITING_REACTION), (second, None)]


async def test_the_busy_notice_is_sent_besides_the_reaction(chat: GatewayHarness) -> None:
    await chat.stop()
    await in_mode(chat, BusyMode.QUEUE, reactions=True, busy_notices=True)
    chat.say("one")
    await chat.model.wait_for_request(1)
    second = chat.say("two")
    (told,) = await chat.texts(1)
    assert told.startswith("I am still busy.")
    await marked(chat, second)
    chat.model.say("1", "2")
    await chat.sent(3)


async def test_a_quiet_chat_gets_no_reactions(chat: GatewayHarness) -> None:
    await chat.stop()
    chats = {"library": ChatSettings(quiet=True)}
    platform = PlatformSettings(allow=("ann",), chats=chats)
    chat.settings = Settings(platforms={"simulated": platform})
    await in_mode(chat, BusyMode.QUEUE, reactions=True)
    second = {}
    for number, place in enumerate(("library", "pub"), start=1):
        chat.say("one", chat=place)
        await chat.model.wait_for_request(number)
        second[place] = chat.say("two", chat=place)
        await queued(chat, number)
    await marked(chat, second["pub"])
    chat.model.say("1", "1", "2", "2")
    await chat.sent(4)
    await marked(chat)
    assert {message for message, _ in tried(chat)} == {second["pub"]}


async def test_a_platform_that_declares_no_reactions_gets_none(chat: GatewayHarness) -> None:
    await chat.stop()
    await in_mode(chat, BusyMode.QUEUE)
    chat.say("one")
    await chat.model.wait_for_request(1)
    chat.say("two")
    await queued(chat, 1)
    chat.model.say("1", "2")
    assert await chat.texts(2) == ["1", "2"]
    assert tried(chat) == []


async def test_a_refused_reaction_is_not_retried_and_delays_no_other(
    chat: GatewayHarness,
) -> None:
    chat.say("one")
    await chat.model.wait_for_request(1)
    chat.service.set_faults(Faults(rejected_reactions=1))
    second = chat.say("two")
    ledger = await until_shows(chat, lambda ledger: ledger.reactions)
    failed = ReactAttempt(message_id=second, emoji=WAITING_REACTION, verdict=VendorVerdict.REFUSED)
    assert ledger.reactions == (failed,)
    third = chat.say("three")
    await marked(chat, third)
    chat.model.say("1", "2", "3")
    assert await chat.texts(3) == ["1", "2", "3"]
    await marked(chat)
    assert tried(chat) == [(second, WAITING_REACTION), (third, WAITING_REACTION), (third, None)]


async def test_flood_control_of_reactions_delays_reactions_and_no_reply(
    chat: GatewayHarness,
) -> None:
    """I3: though it spoke of minutes."""
    chat.say("one")
    await chat.model.wait_for_request(1)
    chat.service.set_faults(Faults(floods=1, retry_after=600.0))
    second = chat.say("two")
    ledger = await until_shows(chat, lambda ledger: ledger.reactions)
    failed = ReactAttempt(message_id=second, emoji=WAITING_REACTION, verdict=VendorVerdict.FLOOD)
    assert ledger.reactions == (failed,)
    chat.say("three")
    await queued(chat, 2)
    chat.model.say("1", "2", "3")
    assert await chat.texts(3) == ["1", "2", "3"]
    assert tried(chat) == [(second, WAITING_REACTION)]


async def test_flood_control_of_the_whole_account_stops_reactions_too(chat: GatewayHarness) -> None:
    """They are dropped then, and come to nobody's mind later."""
    chat.say("one")
    await chat.model.wait_for_request(1)
    chat.service.set_faults(Faults(account_floods=1, retry_after=2.0))
    second = chat.say("two")
    await until_shows(chat, lambda ledger: ledger.reactions)
    chat.say("three")
    await queued(chat, 2)
    chat.model.say("1", "2", "3")
    assert await chat.texts(3) == ["1", "2", "3"]
    assert tried(chat) == [(second, WAITING_REACTION)]


class Deaf(SimulatedPlatform):
    """A door that never answers where a sign is concerned, or raises what its port does not
    name."""

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
    """Where nobody knows whether a sign stands it is taken back; and each call is made once."""
    two_accounts = TwoAccountsHarness(tmp_path / "state.db")
    two_accounts.work = ChatService(reactions=True)
    door = Deaf(two_accounts.work, error=error)
    two_accounts.extra_platforms = [door]
    await in_mode(two_accounts, BusyMode.QUEUE)
    two_accounts.say_to_work("one")
    await two_accounts.model.wait_for_request(1)
    two_accounts.say_to_work("two")
    await queued(two_accounts, 1)
    two_accounts.model.say("1", "2")
    assert await two_accounts.work_texts(2) == ["1", "2"]
    await until_asked(door, 2)
    await two_accounts.stop()
    assert door.requests == [WAITING_REACTION, None]


async def until_asked(door: "Deaf | Pressed", number: int) -> None:
    async with asyncio.timeout(30):
        while len(door.requests) < number:
            await asyncio.sleep(0.01)


class Pressed(SimulatedPlatform):
    """A door whose vendor wants to wait before the first sign is taken back."""

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
    """Who sees it would take it for a message that waits: it is tried once more, when it may be."""
    two_accounts = TwoAccountsHarness(tmp_path / "state.db")
    two_accounts.work = ChatService(reactions=True)
    door = Pressed(two_accounts.work)
    two_accounts.extra_platforms = [door]
    await in_mode(two_accounts, BusyMode.QUEUE)
    two_accounts.say_to_work("one")
    await two_accounts.model.wait_for_request(1)
    two_accounts.say_to_work("two")
    await until_asked(door, 1)
    two_accounts.model.say("1", "2")
    await until_asked(door, 3)
    assert [sign for _, sign in door.requests] == [WAITING_REACTION, None, None]
    await two_accounts.stop()
    assert not any(said.reactions for said in two_accounts.work.ledger().said)


async def test_a_hanging_platform_gets_one_reaction_request_at_a_time(tmp_path: Path) -> None:
    """I3: however many messages wait, and whoever else is to be told something there."""
    two_accounts = TwoAccountsHarness(tmp_path / "state.db")
    two_accounts.work = ChatService(reactions=True)
    door = Deaf(two_accounts.work)
    two_accounts.extra_platforms = [door]
    await in_mode(two_accounts, BusyMode.QUEUE)
    two_accounts.say_to_work("one")
    await two_accounts.model.wait_for_request(1)
    for number in range(5):
        two_accounts.say_to_work(f"more {number}")
    await queued(two_accounts, 5)
    async with asyncio.timeout(30):
        while (
            not two_accounts.gateway.services.reactions._cool_down_until
        ):  # it was waited for, and for long enough
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.1)
    assert door.requests == [WAITING_REACTION]
    answers = [str(number) for number in range(6)]
    two_accounts.model.say(*answers)
    assert await two_accounts.work_texts(6) == answers
    await until_asked(door, 2)
    await two_accounts.stop()
    assert door.requests == [WAITING_REACTION, None]


async def test_a_reaction_left_by_a_crash_is_removed_by_the_next_start(
    chat: GatewayHarness,
) -> None:
    """What was decided of the message is the trace of it; its platform is asked once connected."""
    chat.say("one")
    await chat.model.wait_for_request(1)
    second = chat.say("two")
    await marked(chat, second)
    await until_decided(chat, second)
    await chat.die()
    chat.model.say("1", "2")
    await chat.start()
    assert await chat.texts(2) == ["1", "2"]
    await marked(chat)
    assert tried(chat)[-1] == (second, None)


async def test_a_reaction_is_removed_also_when_no_turn_was_open_at_the_crash(
    chat: GatewayHarness,
) -> None:
    """The process died between the end of one turn and the beginning of the next."""
    chat.model.say("1")
    first = chat.say("one")
    await chat.sent(1)
    chat.service.react(ReactRequest(message_id=first, emoji=WAITING_REACTION))
    source = Source(platform="simulated", chat_id="home", user_id="ann", chat_type=ChatType.DM)
    late = Inbound(source=source, event_id="late", message_id=first, text="two")
    route, principal = build_session_key(source), PrincipalId("simulated:ann")
    at = chat.clock.now()
    kept = await chat.store.accept(late, route=route, principal=principal, at=at)
    assert kept.route_session is not None
    await chat.store.record_busy_decision(
        kept.row.id, session_id=kept.route_session, decision=BusyMode.QUEUE
    )
    await chat.die()
    chat.model.say("2")
    await chat.start()
    assert await chat.texts(2) == ["1", "2"]
    await marked(chat)
    assert tried(chat) == [(first, WAITING_REACTION), (first, None)]


async def test_a_reaction_left_by_a_crash_is_removed_from_a_message_dropped_later(
    chat: GatewayHarness, call: Call
) -> None:
    """Also where no turn goes on that it would wait for: this one waits for a person."""
    await chat.stop()
    chat.extra_tools, chat.judge = [InstantShell()], AlwaysDangerousJudge()
    await in_mode(chat, BusyMode.QUEUE, reactions=True)
    chat.say("one")
    await chat.model.wait_for_request(1)
    second = chat.say("two")
    await marked(chat, second)
    await until_decided(chat, second)
    chat.model.say([call("shell", '{"command": "rm -r notes"}')])
    await chat.sent(1)  # the question
    await chat.die()
    await chat.start()
    assert tried(chat) == [(second, WAITING_REACTION)]
    chat.say("/stop")
    await marked(chat)
    assert tried(chat)[-1] == (second, None)


async def test_a_subagent_result_puts_no_reaction_on_an_old_message(
    chat: GatewayHarness,
) -> None:
    """It comes in where it was asked for, under the name of the message that asked."""
    chat.model.say("1")
    first = chat.say("one")
    await chat.sent(1)
    chat.say("two")
    await chat.model.wait_for_request(2)
    source = Source(platform="simulated", chat_id="home", user_id="ann", chat_type=ChatType.DM)
    brought = Inbound(
        source=source, event_id="child", message_id=first, text="done", note=True, mergeable=False
    )
    await chat.gateway.intake.accept(brought)
    await queued(chat, 1)
    chat.model.say("2", "3")
    await chat.sent(3)
    assert tried(chat) == []


async def test_an_api_message_gets_no_reaction(
    chat: GatewayHarness,
) -> None:
    first = await chat.accept("one")
    await chat.model.wait_for_request(1)
    second = await chat.accept("two")
    chat.model.say("1", "2")
    assert [(await chat.end_of(one)).text for one in (first, second)] == ["1", "2"]
    assert tried(chat) == []
