"""Notices of stops and restarts: which chats get them, where, and how often (D1 to D5)."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.approvals import AlwaysDangerousJudge
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock, Until
from tests.support.stores import open_store

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.core.config.settings import DelegateSettings, GatewaySettings, PlatformSettings
from holdfast.core.errors import NotConnected, RestartRefused
from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import (
    Address,
    DeliveryKind,
    DeliveryRow,
    DeliveryState,
    Outbound,
    Receipt,
)
from holdfast.core.messages.source import ChatType
from holdfast.core.ports.store_commands import RecordStop
from holdfast.core.ports.store_queries import (
    CountOutbox,
    GetInboxRow,
    ListHomeChannels,
    ListOpenStops,
    ListUndelivered,
)
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.core.turns.tool import Arguments, ReplayClass
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.lifecycle.stop_request import RestartController, StopRequest
from holdfast.testing.simulated.events import BotMessage, Faults
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

GROUP = ChatType.GROUP


class NoticeHarness(GatewayHarness):
    """A gateway that sends lifecycle notices, and is stopped by orders as a process is."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.service = ChatService(restart_notices=True)
        self.configure(operators=("ann",))
        self.check_error = ""  # why the check refuses a restart
        self.on_check: Callable[[], Awaitable[None] | None] = lambda: None
        self.idle = asyncio.Event()
        self._stop_numbers = itertools.count(1)

    def configure(self, **simulated: Any) -> None:
        account = PlatformSettings(**{"allow": ("ann", "bob"), "operators": ("ann",)} | simulated)
        # A second account, where a test opens one, is set up like the first.
        account = msgspec.structs.replace(account, accounts={"second": account})
        self.settings = msgspec.structs.replace(
            self.settings,
            platforms={"simulated": account},
            gateway=GatewaySettings(park_timeout=0),  # it is long, and no test here needs it
        )

    async def start(self) -> None:
        self.stop_request = StopRequest()
        self.restart_controller = RestartController(
            self.stop_request, check=self._check, wait_until_idle=self._wait_until_idle
        )
        self.lifecycle = self.restart_controller
        await super().start()
        await self.gateway.lifecycle_notices.send_back_notices()

    async def _wait_until_idle(self) -> None:
        await self.idle.wait()

    async def _check(self, soon: bool) -> None:
        if (checking := self.on_check()) is not None:
            await checking
        if self.check_error:
            raise RestartRefused(self.check_error)

    async def stop_by(self, order: StopOrder | None = None, *, parked: int = 0) -> StopOrder:
        """Stop by this order, or by the one that was requested, as a process does."""
        if order is not None:
            self.stop_request.request(order)
        async with asyncio.timeout(10):
            order = await self.stop_request.wait()
        row = StopRow(id=f"stop{next(self._stop_numbers)}", order=order, version="1", parked=parked)
        await self.store.write(RecordStop(row=row))
        await self.gateway.stop(order, urgent=self.stop_request.urgent)
        await self.stop()
        return order

    async def crash(self) -> None:
        """Crash, and start again: the start records the crash."""
        await self.die()
        await GatewayHarness.start(self)
        order = self.order(StopKind.CRASH, StopRequester.NONE)
        row = StopRow(id=f"stop{next(self._stop_numbers)}", order=order, version="1", interrupted=1)
        await self.store.write(RecordStop(row=row))
        await self.gateway.lifecycle_notices.send_back_notices()

    def order(
        self, kind: StopKind = StopKind.RESTART, by: StopRequester = StopRequester.CLI
    ) -> StopOrder:
        return StopOrder(kind=kind, by=by, at=self.clock.now())

    async def start_turn(self, text: str, number: int, **more: Any) -> str:
        """A user sends a message, and its turn runs."""
        message = self.say(text, **more)
        await self.model.wait_for_request(number)
        return message

    async def outbox(self) -> list[DeliveryRow]:
        return await self.store.read(ListUndelivered())


def destinations(sent: list[BotMessage]) -> list[tuple[str, str | None, str | None]]:
    """Chat, thread and replied-to message of each message."""
    outgoing = [each.outgoing for each in sent]
    return [(each.chat_id, each.thread_id, each.reply_to) for each in outgoing]


def sent_messages(harness: GatewayHarness) -> list[BotMessage]:
    return list(harness.service.ledger().sent)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[NoticeHarness]:
    harness = NoticeHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


@pytest.mark.parametrize(
    ("kind", "text"),
    [(StopKind.RESTART, "restarting"), (StopKind.STOP, "shutting down")],
)
async def test_each_chat_with_a_running_turn_gets_a_shutdown_notice_in_its_thread(
    harness: NoticeHarness, kind: StopKind, text: str
) -> None:
    """D1: before the drain, with the kind of stop and that turns will be resumed; no other chat."""
    harness.model.say("done")
    harness.say("earlier", chat="quiet")
    await harness.sent(1)
    await harness.start_turn("one", 2, chat="a")
    await harness.start_turn("two", 3, chat="b", chat_type=GROUP, thread="t9")
    await harness.stop_by(harness.order(kind))
    notices = sent_messages(harness)[1:]
    assert sorted(destinations(notices), key=str) == [("a", None, None), ("b", "t9", None)]
    for notice in notices:
        assert text in notice.outgoing.text
        assert "try to resume" in notice.outgoing.text


async def test_a_chat_whose_turn_is_only_parked_is_not_told_of_an_interruption(
    harness: NoticeHarness, call: Call
) -> None:
    """D1, H6: before the drain it is not known how the turn is left, and a parked one continues as
    if nothing had happened. The notice has the words of the contract."""
    harness.held_tools[ReplayClass.ATTACH].go.clear()
    harness.model.say([call("attach")])
    harness.say("work", chat="a")
    await harness.held_tools[ReplayClass.ATTACH].wait_until_started(1)
    harness.say("/restart", chat="ops")
    order = await harness.stop_by()
    assert order.kind is StopKind.RESTART
    assert (harness.gateway.parked, harness.gateway.interrupted) == (1, 0)
    texts = {each.outgoing.chat_id: each.outgoing.text for each in sent_messages(harness)}
    assert sorted(texts) == ["a", "ops"]
    for text in texts.values():
        assert "interrupt" not in text
        assert "restarting" in text and "try to resume" in text


async def test_shutdown_notices_are_sent_before_the_drain(harness: NoticeHarness) -> None:
    """D1, C1: the drained turn may still reply, and its chat has the notice by then."""
    await harness.start_turn("one", 1)
    stopping = asyncio.create_task(harness.stop_by(harness.order()))
    await harness.sent(1)
    assert harness.states.index("notify") == harness.states.index("close intake") + 1
    await stopping


async def test_a_group_gets_one_shutdown_notice(harness: NoticeHarness) -> None:
    """D1: one message per chat and thread, also where each person has a turn of their own."""
    await harness.start_turn("mine", 1, chat="group", chat_type=GROUP, user="ann")
    await harness.start_turn("and mine", 2, chat="group", chat_type=GROUP, user="bob")
    await harness.start_turn("a thread", 3, chat="group", chat_type=GROUP, user="bob", thread="t")
    await harness.stop_by(harness.order())
    assert sorted(destinations(sent_messages(harness)), key=str) == [
        ("group", "t", None),
        ("group", None, None),
    ]


async def test_the_home_channel_gets_a_notice_of_a_stop_not_requested_in_a_chat(
    harness: NoticeHarness,
) -> None:
    """D1: each home channel, and only once where a turn runs there too."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.stop_by(harness.order(StopKind.STOP))
    assert [each.outgoing.text for each in sent_messages(harness)[1:]] == [
        "The gateway is shutting down."
    ]
    await harness.start()
    await harness.start_turn("busy here", 1, chat="hall")
    await harness.stop_by(harness.order())
    (last,) = sent_messages(harness)[2:]
    assert last.outgoing.chat_id == "hall"
    assert "restarting" in last.outgoing.text
    assert "try to resume" in last.outgoing.text


async def test_turns_waiting_for_approval_and_api_clients_get_no_notice(
    harness: NoticeHarness, call: Call, until: Until
) -> None:
    """D1: a turn that waits for an approval is not interrupted, and API clients poll."""

    await harness.stop()
    harness.judge = AlwaysDangerousJudge()
    harness.held_tools[ReplayClass.SAFE].command = _command  # type: ignore[attr-defined]
    await harness.start()
    harness.model.say([call("safe")])
    harness.say("something dangerous")
    await until(lambda: harness.gateway.lanes.count(LaneState.WAITING) == 1)
    before = len(await harness.sent(1))
    await harness.accept("over the API")
    await harness.model.wait_for_request(2)
    await harness.stop_by(harness.order())
    assert sent_messages(harness)[before:] == []


def _command(arguments: Arguments) -> str | None:
    return "anything"


async def test_the_chat_of_a_background_subagent_gets_a_notice(
    harness: NoticeHarness, until: Until
) -> None:
    """D1: its work is interrupted too, and it has no chat of its own."""
    await harness.stop()
    harness.extra_tools = [DelegateTool(DelegateSettings())]
    await harness.start()
    harness.say("/background look into it", chat="a")
    await harness.model.wait_for_request(1)
    await harness.sent(1)
    await harness.stop_by(harness.order())
    assert destinations(sent_messages(harness)[1:]) == [("a", None, None)]


async def test_an_unsent_shutdown_notice_is_never_sent_late(
    harness: NoticeHarness, until: Until
) -> None:
    """D1: the platform is down during the stop; the successor drops the notice."""
    await harness.start_turn("one", 1)
    harness.service.set_faults(Faults(disconnected=True))
    await harness.stop_by(harness.order())
    harness.service.set_faults(Faults())
    harness.model.say("the answer")
    await harness.start()
    texts = await harness.texts(1)
    assert "gateway" not in texts[0]
    await until(harness.all_delivered)
    assert len(sent_messages(harness)) == 1
    assert (await harness.store.read(CountOutbox()))[DeliveryState.FAILED] == 1


async def test_a_stop_does_not_wait_for_a_platform_that_is_down(
    harness: NoticeHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """C1: its pending deliveries are in the store, so the stop does not wait for the deadline."""
    await harness.start_turn("one", 1)
    harness.service.set_faults(Faults(disconnected=True))
    await harness.stop_by(harness.order())
    assert [row.kind for row in await _undelivered(harness)] == [DeliveryKind.SHUTDOWN_NOTICE]
    assert not [record for record in caplog.records if "took longer" in record.message]
    harness.service.set_faults(Faults())
    await harness.start()


async def _undelivered(harness: NoticeHarness) -> list[DeliveryRow]:
    async with open_store(harness.path) as store:
        return await store.read(ListUndelivered())


class SlowPlatform(SimulatedPlatform):
    """A platform whose first send fails, and whose later sends wait for the test."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, account="second")
        self.tried = False
        self.sending = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def send(self, outbound: Outbound) -> Receipt:
        if not self.tried:
            self.tried = True
            raise NotConnected("no connection")
        self.sending.set()
        await self.may_answer.wait()
        return await super().send(outbound)


async def test_a_flush_waits_for_a_platform_that_has_reconnected(harness: NoticeHarness) -> None:
    """C1: an earlier failure does not mean that it is still unreachable."""
    await harness.stop()
    platform = SlowPlatform(ChatService(restart_notices=True))
    harness.extra_platforms = [platform]
    harness.configure(home="hall")
    await harness.start()
    await harness.gateway.lifecycle_notices.send_shutdown_notices(harness.order())
    await harness.gateway.outbox.flush()  # it is disconnected
    assert not platform.sending.is_set()
    harness.gateway.intake.report_alive("simulated", "second")
    flushing = asyncio.create_task(harness.gateway.outbox.flush())
    await platform.sending.wait()
    assert not flushing.done()
    platform.may_answer.set()
    await flushing


async def test_restart_in_a_chat_is_answered_by_the_notice(harness: NoticeHarness) -> None:
    """D2: it replies to that message, in its thread, and is the only notice there; the home channel
    gets none."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.start_turn("one", 1, chat="ops", chat_type=GROUP, thread="t", user="bob")
    await harness.start_turn("two", 2, chat="elsewhere")
    request = harness.say("/restart", chat="ops", chat_type=GROUP, thread="t")
    order = await harness.stop_by(parked=2)
    assert order.by is StopRequester.CHAT
    notices = sent_messages(harness)[1:]
    assert sorted(destinations(notices), key=str) == [
        ("elsewhere", None, None),
        ("ops", "t", request),
    ]
    (answer,) = [each for each in notices if each.outgoing.chat_id == "ops"]
    assert answer.outgoing.text.startswith("The gateway is restarting. 2 turns are running")
    assert "try to resume" in answer.outgoing.text
    await harness.start()
    (back,) = (await harness.sent(4))[3:]
    assert destinations([back]) == [("ops", "t", request)]
    assert back.outgoing.text == "The gateway is back. 2 conversations continue."
    assert (await harness.ledger())["answered"] == 2


async def test_shutdown_notices_wait_for_the_reply_to_the_restart_command(
    harness: NoticeHarness,
) -> None:
    """D2: the notices of a stop wait until the reply to its command is queued."""
    address = Address(platform="simulated", account="default", chat_id="ops", reply_to="m1")
    order = msgspec.structs.replace(harness.order(by=StopRequester.CHAT), address=address)
    notices = harness.gateway.lifecycle_notices
    with notices.answering(order):
        stopping = asyncio.create_task(notices.send_shutdown_notices(order))
        await asyncio.wait({stopping}, timeout=0.05)
        assert not stopping.done()
        await notices.send_shutdown_notices(harness.order())  # another order does not wait
    await stopping


async def test_restart_in_a_chat_of_two_replies_too(harness: NoticeHarness) -> None:
    """D2, D3: nothing runs, so the notice mentions no interruption."""
    request = harness.say("/restart")
    await harness.stop_by()
    (notice,) = sent_messages(harness)
    assert destinations([notice]) == [("home", None, request)]
    assert notice.outgoing.text == "The gateway is restarting."
    await harness.start()
    (back,) = (await harness.sent(2))[1:]
    assert destinations([back]) == [("home", None, request)]
    assert back.outgoing.text == "The gateway is back."


async def test_a_restart_notice_that_was_not_sent_in_time_stays_unsent(
    harness: NoticeHarness,
) -> None:
    """D1, D2: also the reply to a command; the back notice is sent."""
    harness.on_check = lambda: harness.service.set_faults(Faults(disconnected=True))
    request = harness.say("/restart")
    await harness.stop_by()
    harness.service.set_faults(Faults())
    await harness.start()
    (only,) = await harness.sent(1)
    assert (only.outgoing.text, only.outgoing.reply_to) == ("The gateway is back.", request)


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        (StopKind.RESTART, StopRequester.CLI),
        (StopKind.RESTART, StopRequester.PAGE),
        (StopKind.RESTART, StopRequester.SIGNAL),
        (StopKind.REPLACE, StopRequester.SUCCESSOR),
        (StopKind.SIGNAL, StopRequester.SIGNAL),
    ],
)
async def test_the_home_channel_gets_a_back_notice(
    harness: NoticeHarness, kind: StopKind, by: StopRequester
) -> None:
    """D4: after a restart that was not requested in a chat; once, however often it starts."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.stop_by(harness.order(kind, by))
    await harness.start()
    (back,) = (await harness.sent(3))[2:]
    assert destinations([back]) == [("hall", None, None)]
    assert back.outgoing.text == "The gateway is back."
    assert await harness.store.read(ListOpenStops()) == []
    await harness.stop_by(harness.order(StopKind.STOP))
    await harness.start()
    assert len(sent_messages(harness)) == 4  # and the shutdown notice of this stop


async def test_a_start_after_a_requested_stop_sends_no_notice(harness: NoticeHarness) -> None:
    """D4: no user waits for it."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.stop_by(harness.order(StopKind.STOP))
    before = len(sent_messages(harness))
    await harness.start()
    assert await harness.outbox() == []
    assert len(sent_messages(harness)) == before


async def test_a_back_notice_is_sent_once_although_the_successor_crashes(
    harness: NoticeHarness, until: Until
) -> None:
    """D4: the notice and the end of the stop are one commit, and the notice is sent once."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.stop_by(harness.order())
    harness.service.set_faults(Faults(disconnected=True))
    await harness.start()
    assert [row.kind for row in await harness.outbox()] == [DeliveryKind.NOTICE]
    await harness.die()
    harness.service.set_faults(Faults())
    await harness.start()
    (back,) = (await harness.sent(3))[2:]
    assert back.outgoing.text == "The gateway is back."
    await until(harness.all_delivered)
    assert len(sent_messages(harness)) == 3


async def test_a_late_platform_gets_the_back_notice_when_it_connects(
    harness: NoticeHarness,
) -> None:
    """D4: its notice waits in the outbox."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.stop_by(harness.order())
    harness.service.set_faults(Faults(disconnected=True))
    await harness.start()
    assert len(sent_messages(harness)) == 2
    harness.service.set_faults(Faults())
    (back,) = (await harness.sent(3))[2:]
    assert back.outgoing.text == "The gateway is back."


async def test_the_home_channel_gets_one_notice_for_a_crash_loop(
    harness: NoticeHarness, until: Until
) -> None:
    """The spec does not say how often: one notice in ten minutes."""
    await harness.stop()
    harness.clock = clock = ManualClock()
    harness.configure(home="hall")
    await harness.start()
    crash = "The gateway was interrupted and is back. 1 conversation continues."

    def crash_notices() -> int:
        return sum(sent.outgoing.text == crash for sent in sent_messages(harness))

    for minutes, times in ((0, 1), (4, 1), (8, 1), (12, 2), (16, 2)):
        clock.at = 1_800_000_000.0 + minutes * 60
        await harness.crash()
        await until(harness.all_delivered)
        assert crash_notices() == times
    await harness.stop_by(harness.order())
    await harness.start()
    await until(harness.all_delivered)
    assert sent_messages(harness)[-1].outgoing.text == "The gateway is back."


@pytest.mark.parametrize("how", ["by its settings", "by itself"])
async def test_a_platform_can_opt_out(tmp_path: Path, how: str) -> None:
    """D5: neither running chats nor home channels get a notice; a command is still answered."""
    harness = NoticeHarness(tmp_path / "state.db")
    if how == "by its settings":
        harness.configure(restart_notices=False, home="hall")
    else:
        harness.configure(home="hall")
        harness.service = ChatService(restart_notices=False)
    await harness.start()
    await harness.start_turn("one", 1)
    request = harness.say("/restart", chat="ops")
    await harness.stop_by()
    assert destinations(sent_messages(harness)) == [("ops", None, request)]
    await harness.start()
    await harness.stop_by(harness.order())
    await harness.start()
    assert await harness.outbox() == []
    assert len(sent_messages(harness)) == 1
    await harness.stop()


async def test_each_account_has_its_own_home_channel(harness: NoticeHarness) -> None:
    """D1, D4: `/sethome` overrides the configuration, and survives a restart."""
    await harness.stop()
    other = ChatService(restart_notices=True)
    harness.configure(home="lobby/t1")
    harness.extra_platforms = [SimulatedPlatform(other, account="second")]
    await harness.start()
    homes = harness.gateway.home_channels
    assert {(h.address.account, h.address.chat_id, h.address.thread_id) for h in homes.all()} == {
        ("default", "lobby", "t1"),
        ("second", "lobby", "t1"),
    }
    harness.say("/sethome", chat="hall", chat_type=GROUP, thread="t2")
    assert "now the home channel of simulated" in (await harness.texts(1))[0]
    await harness.stop_by(harness.order())
    await harness.start()
    assert destinations((await harness.sent(3))[1:]) == [("hall", "t2", None), ("hall", "t2", None)]
    other_sent = (await other.wait_for_ledger(sent=2, wait=10)).sent
    assert destinations(list(other_sent)) == [("lobby", "t1", None), ("lobby", "t1", None)]
    harness.say("/sethome off", chat="anywhere")
    assert "is now lobby/t1, as platforms.simulated.home says" in (await harness.texts(4))[3]
    assert {home.address.chat_id for home in harness.gateway.home_channels.all()} == {"lobby"}


async def test_sethome_off_without_a_configured_one_leaves_none(harness: NoticeHarness) -> None:
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    harness.say("/sethome off", chat="hall")
    assert "has no home channel now" in (await harness.texts(2))[1]
    assert harness.gateway.home_channels.all() == []
    assert await harness.store.read(ListHomeChannels()) == []


async def test_an_api_chat_cannot_be_a_home_channel(harness: NoticeHarness) -> None:
    ended = await harness.end_of(await harness.accept("/sethome"))
    assert "cannot be a home channel" in ended.text
    ended = await harness.end_of(await harness.accept("/sethome away"))
    assert "/sethome does not know 'away'" in ended.text
    assert harness.gateway.home_channels.all() == []


async def test_a_refused_restart_gives_the_reason_and_the_gateway_keeps_running(
    harness: NoticeHarness,
) -> None:
    """If a successor could not start, the running gateway continues."""
    harness.check_error = "holdfast.toml, line 3: gateway.prot is not a key that Holdfast knows."
    request = harness.say("/restart", chat="ops")
    (answer,) = await harness.sent(1)
    assert answer.outgoing.text == f"Not restarted: {harness.check_error}"
    assert request
    assert harness.stop_request.order is None
    harness.model.say("still here")
    harness.say("are you?")
    assert (await harness.texts(2))[1] == "still here"


async def test_a_restart_when_idle_waits_for_the_turns(
    harness: NoticeHarness, until: Until
) -> None:
    await harness.start_turn("one", 1)
    request = harness.say("/restart when-idle", chat="ops")
    (promise,) = await harness.sent(1)
    assert promise.outgoing.text.startswith("The gateway restarts as soon as it is idle; 1 turn")
    assert harness.stop_request.order is None
    harness.model.say("done")
    await harness.sent(2)
    harness.idle.set()
    await harness.stop_by()
    assert len(sent_messages(harness)) == 2
    await harness.start()
    (back,) = (await harness.sent(3))[2:]
    assert destinations([back]) == [("ops", None, request)]


async def test_a_turn_that_began_before_a_restart_when_idle_gets_a_notice(
    harness: NoticeHarness,
) -> None:
    """D1: the promise of a later restart does not replace the notice when it happens."""
    await harness.start_turn("one", 1, chat="ops")
    harness.say("/restart when idle", chat="ops")
    await harness.sent(1)
    harness.idle.set()
    await harness.stop_by()
    (notice,) = sent_messages(harness)[1:]
    assert destinations([notice]) == [("ops", None, None)]
    assert "try to resume" in notice.outgoing.text
    await harness.start()


async def test_a_restart_now_waits_for_nothing(harness: NoticeHarness, until: Until) -> None:
    harness.say("/restart now")
    await until(lambda: harness.stop_request.order is not None)
    assert harness.stop_request.urgent.is_set()
    assert (await harness.stop_by()).now


async def test_only_operators_restart_and_set_a_home(harness: NoticeHarness) -> None:
    """Law 12, G3: default deny; the row ends as refused, and the refusal names the key."""
    harness.say("/restart", user="bob")
    harness.say("/sethome", user="bob")
    for text in await harness.texts(2):
        assert "platforms.simulated.operators" in text
    assert await harness.ledger() == {"refused": 2}
    harness.say("/restart maybe")
    assert "/restart does not know 'maybe'" in (await harness.texts(3))[2]
    assert harness.stop_request.order is None


async def test_restart_without_a_supervisor_is_refused_with_a_hint(tmp_path: Path) -> None:
    harness = GatewayHarness(tmp_path / "state.db")
    await harness.start()
    ended = await harness.end_of(await harness.accept("/restart"))
    assert "Restart it where it was started" in ended.text
    await harness.stop()


async def test_a_restart_typed_over_the_api_is_answered_there(harness: NoticeHarness) -> None:
    """D2: the client gets the reply, and no back notice is pending."""
    ended = await harness.end_of(await harness.accept("/restart"))
    assert ended.text == "The gateway is restarting."
    await harness.stop_by()
    await harness.start()
    assert await harness.outbox() == []


async def test_a_restart_interrupted_by_a_crash_is_dropped(
    harness: NoticeHarness, until: Until
) -> None:
    """Law 8: it was meant for the process that crashed. Later starts drop it, also when the
    platform redelivers it."""
    harness.service.set_faults(Faults(duplicates=1))
    checked, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        checked.set()
        await never.wait()

    harness.on_check = hang
    request = harness.say("/restart")
    await checked.wait()
    await harness.die()
    checked.clear()
    for _ in range(3):
        await harness.start()
        (message,) = harness.service.ledger().said
        await until(lambda: harness.service.ledger().said[0].times_given >= 2)
        row = await harness.store.read(GetInboxRow(inbox_id=InboxId(1)))
        assert row is not None
        assert (row.inbound.message_id, row.state) == (request, InboxState.SUPERSEDED)
        assert harness.stop_request.order is None
        await harness.stop()
    assert message.acked
    assert not checked.is_set()
    assert sent_messages(harness) == []
    await harness.start()


async def test_agent_output_never_triggers_a_restart(harness: NoticeHarness, call: Call) -> None:
    """Law 8: neither its reply nor the task or the reply of a subagent."""
    await harness.stop()
    harness.extra_tools = [DelegateTool(DelegateSettings())]
    await harness.start()
    task = json.dumps({"tasks": [{"task": "/restart"}], "background": True})
    harness.model.say([call("delegate", task)], "/restart", "/restart now", "/restart")
    harness.say("go on")
    await harness.sent(2)
    assert harness.stop_request.order is None
    assert harness.restart_controller.pending_restart is None
