"""Chapter D: who hears that the gateway goes, who hears that it is back, where, and how often."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, ManualClock, Until

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
from holdfast.core.people.approval import CommandRisk, CommandVerdict
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.core.turns.tool import Arguments, ReplayClass
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.lifecycle.stop_request import RestartController, StopRequest
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.simulated.events import BotMessage, Faults
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

GROUP = ChatType.GROUP


class Telling(GatewayHarness):
    """A harness whose chats are told, in a process that is asked to go as a real one is."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.service = ChatService(restart_notices=True)
        self.configure(operators=("ann",))
        self.refused = ""  # why no successor could start
        self.while_checked: Callable[[], Awaitable[None] | None] = lambda: None
        self.rests = asyncio.Event()
        self._lives = itertools.count(1)

    def configure(self, **simulated: Any) -> None:
        wanted = PlatformSettings(**{"allow": ("ann", "bob"), "operators": ("ann",)} | simulated)
        # A second account, where a test opens one, is set up like the first.
        wanted = msgspec.structs.replace(wanted, accounts={"second": wanted})
        self.settings = msgspec.structs.replace(
            self.settings,
            platforms={"simulated": wanted},
            gateway=GatewaySettings(park_timeout=0),  # it is long, and nothing here comes of it
        )

    async def start(self) -> None:
        self.departure = StopRequest()
        self.restarting = RestartController(
            self.departure, check=self._check, wait_until_idle=self._quiet
        )
        self.lifecycle = self.restarting
        await super().start()
        await self.gateway.lifecycle_notices.send_back_notices()

    async def _quiet(self) -> None:
        await self.rests.wait()

    async def _check(self, soon: bool) -> None:
        if (checking := self.while_checked()) is not None:
            await checking
        if self.refused:
            raise RestartRefused(self.refused)

    async def goes(self, order: StopOrder | None = None, *, parked: int = 0) -> StopOrder:
        """It stops by this order, or by the one that it was given, as a process does."""
        if order is not None:
            self.departure.request(order)
        async with asyncio.timeout(10):
            order = await self.departure.wait()
        row = StopRow(id=f"stop{next(self._lives)}", order=order, version="1", parked=parked)
        await self.store.record_stop(row)
        await self.running.stop(order, urgent=self.departure.urgent)
        await self.stop()
        return order

    async def crashes(self) -> None:
        """It dies, and the next one finds that out as it starts."""
        await self.die()
        await GatewayHarness.start(self)
        order = self.order(StopKind.CRASH, StopRequester.NONE)
        row = StopRow(id=f"stop{next(self._lives)}", order=order, version="1", interrupted=1)
        await self.store.record_stop(row)
        await self.gateway.lifecycle_notices.send_back_notices()

    def order(
        self, kind: StopKind = StopKind.RESTART, by: StopRequester = StopRequester.CLI
    ) -> StopOrder:
        return StopOrder(kind=kind, by=by, at=self.clock.now())

    async def works(self, text: str, number: int, **more: Any) -> str:
        """Somebody asks for something, and the turn that answers runs."""
        message = self.say(text, **more)
        await self.model.wait_for_request(number)
        return message

    async def outbox(self) -> list[DeliveryRow]:
        return await self.store.undelivered_rows()


def heard(sent: list[BotMessage]) -> list[tuple[str, str | None, str | None]]:
    """Where each message came: chat, thread, and what it replies to."""
    outgoing = [each.outgoing for each in sent]
    return [(each.chat_id, each.thread_id, each.reply_to) for each in outgoing]


def told(harness: GatewayHarness) -> list[BotMessage]:
    return list(harness.service.ledger().sent)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Telling]:
    harness = Telling(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


@pytest.mark.parametrize(
    ("kind", "goes"),
    [(StopKind.RESTART, "restarting"), (StopKind.STOP, "shutting down")],
)
async def test_each_chat_with_a_running_turn_gets_a_shutdown_notice_in_its_thread(
    harness: Telling, kind: StopKind, goes: str
) -> None:
    """D1: before the drain, that it goes and that it will try to resume; no other chat."""
    harness.model.say("done")
    harness.say("earlier", chat="quiet")
    await harness.sent(1)
    await harness.works("one", 2, chat="a")
    await harness.works("two", 3, chat="b", chat_type=GROUP, thread="t9")
    await harness.goes(harness.order(kind))
    notices = told(harness)[1:]
    assert sorted(heard(notices), key=str) == [("a", None, None), ("b", "t9", None)]
    for notice in notices:
        assert goes in notice.outgoing.text
        assert "try to resume" in notice.outgoing.text


async def test_shutdown_notices_are_sent_before_the_drain(harness: Telling) -> None:
    """D1, C1: the turn that is waited for may still answer, and its people know by then."""
    await harness.works("one", 1)
    going = asyncio.create_task(harness.goes(harness.order()))
    await harness.sent(1)
    assert harness.states.index("notify") == harness.states.index("close intake") + 1
    await going


async def test_a_group_gets_one_shutdown_notice(harness: Telling) -> None:
    """D1: one message per chat and thread, also where each person has a turn of their own."""
    await harness.works("mine", 1, chat="group", chat_type=GROUP, user="ann")
    await harness.works("and mine", 2, chat="group", chat_type=GROUP, user="bob")
    await harness.works("a thread", 3, chat="group", chat_type=GROUP, user="bob", thread="t")
    await harness.goes(harness.order())
    assert sorted(heard(told(harness)), key=str) == [("group", "t", None), ("group", None, None)]


async def test_the_home_channel_gets_a_notice_of_a_stop_not_requested_in_a_chat(
    harness: Telling,
) -> None:
    """D1: each home channel, and once where a turn runs there too."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.goes(harness.order(StopKind.STOP))
    assert [each.outgoing.text for each in told(harness)[1:]] == ["The gateway is shutting down."]
    await harness.start()
    await harness.works("busy here", 1, chat="hall")
    await harness.goes(harness.order())
    (last,) = told(harness)[2:]
    assert last.outgoing.chat_id == "hall"
    assert "restarting" in last.outgoing.text
    assert "try to resume" in last.outgoing.text


async def test_turns_waiting_for_approval_and_api_clients_get_no_notice(
    harness: Telling, call: Call, until: Until
) -> None:
    """D1: a turn that waits for an approval is not interrupted, and the API's clients ask."""

    class Asks:
        def judge(self, command: str) -> CommandVerdict:
            return CommandVerdict(level=CommandRisk.DANGEROUS, why="It might.")

    await harness.stop()
    harness.judge = Asks()
    harness.held_tools[ReplayClass.SAFE].command = _command  # type: ignore[attr-defined]
    await harness.start()
    harness.model.say([call("safe")])
    harness.say("something dangerous")
    await until(lambda: harness.gateway.lanes.count(LaneState.WAITING) == 1)
    before = len(await harness.sent(1))
    await harness.accept("over the API")
    await harness.model.wait_for_request(2)
    await harness.goes(harness.order())
    assert told(harness)[before:] == []


def _command(arguments: Arguments) -> str | None:
    return "anything"


async def test_the_chat_of_a_background_subagent_gets_a_notice(
    harness: Telling, until: Until
) -> None:
    """D1: its work is cut too, and it has no chat but theirs."""
    await harness.stop()
    harness.extra_tools = [DelegateTool(DelegateSettings())]
    await harness.start()
    harness.say("/background look into it", chat="a")
    await harness.model.wait_for_request(1)
    await harness.sent(1)
    await harness.goes(harness.order())
    assert heard(told(harness)[1:]) == [("a", None, None)]


async def test_an_unsent_shutdown_notice_is_never_sent_late(harness: Telling, until: Until) -> None:
    """D1: the platform is down during the stop; the successor lets it go."""
    await harness.works("one", 1)
    harness.service.set_faults(Faults(disconnected=True))
    await harness.goes(harness.order())
    harness.service.set_faults(Faults())
    harness.model.say("the answer")
    await harness.start()
    texts = await harness.texts(1)
    assert "gateway" not in texts[0]
    await until(harness.all_delivered)
    assert len(told(harness)) == 1
    assert (await harness.store.outbox_counts())[DeliveryState.FAILED] == 1


async def test_a_stop_does_not_wait_for_a_platform_that_is_down(
    harness: Telling, caplog: pytest.LogCaptureFixture
) -> None:
    """C1: what is owed there is in the store, and is no reason to stay until the deadline."""
    await harness.works("one", 1)
    harness.service.set_faults(Faults(disconnected=True))
    await harness.goes(harness.order())
    assert [row.kind for row in await _left_in(harness)] == [DeliveryKind.SHUTDOWN_NOTICE]
    assert not [record for record in caplog.records if "took longer" in record.message]
    harness.service.set_faults(Faults())
    await harness.start()


async def _left_in(harness: Telling) -> list[DeliveryRow]:
    async with SqliteStore(harness.path) as store:
        return await store.undelivered_rows()


class Moody(SimulatedPlatform):
    """One that cannot be reached at first, and then takes its time."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, account="second")
        self.reached = False
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def send(self, outbound: Outbound) -> Receipt:
        if not self.reached:
            self.reached = True
            raise NotConnected("nobody is there")
        self.asked.set()
        await self.answers.wait()
        return await super().send(outbound)


async def test_a_flush_waits_for_a_platform_that_has_reconnected(harness: Telling) -> None:
    """C1: that it could not be reached a while ago says nothing about now."""
    await harness.stop()
    door = Moody(ChatService(restart_notices=True))
    harness.extra_platforms = [door]
    harness.configure(home="hall")
    await harness.start()
    await harness.gateway.lifecycle_notices.send_shutdown_notices(harness.order())
    await harness.gateway.outbox.flush()  # it is away
    assert not door.asked.is_set()
    harness.gateway.intake.report_alive("simulated", "second")
    flushing = asyncio.create_task(harness.gateway.outbox.flush())
    await door.asked.wait()
    assert not flushing.done()
    door.answers.set()
    await flushing


async def test_restart_in_a_chat_is_answered_by_the_notice(harness: Telling) -> None:
    """D2: it replies to that very message, in its thread, and is the only one there; home hears
    of neither end."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.works("one", 1, chat="ops", chat_type=GROUP, thread="t", user="bob")
    await harness.works("two", 2, chat="elsewhere")
    asked = harness.say("/restart", chat="ops", chat_type=GROUP, thread="t")
    order = await harness.goes(parked=2)
    assert order.by is StopRequester.CHAT
    notices = told(harness)[1:]
    assert sorted(heard(notices), key=str) == [("elsewhere", None, None), ("ops", "t", asked)]
    (answer,) = [each for each in notices if each.outgoing.chat_id == "ops"]
    assert answer.outgoing.text.startswith("Restarting … 2 turns are interrupted")
    assert "try to resume" in answer.outgoing.text
    await harness.start()
    (back,) = (await harness.sent(4))[3:]
    assert heard([back]) == [("ops", "t", asked)]
    assert back.outgoing.text == "The gateway is back; 2 conversations go on."
    assert (await harness.ledger())["answered"] == 2


async def test_shutdown_notices_wait_for_the_reply_to_the_restart_command(harness: Telling) -> None:
    """D2: a store that is slow delays the stop, and not the answer beyond it."""
    address = Address(platform="simulated", account="default", chat_id="ops", reply_to="m1")
    order = msgspec.structs.replace(harness.order(by=StopRequester.CHAT), address=address)
    telling = harness.gateway.lifecycle_notices
    with telling.answering(order):
        going = asyncio.create_task(telling.send_shutdown_notices(order))
        await asyncio.wait({going}, timeout=0.05)
        assert not going.done()
        await telling.send_shutdown_notices(harness.order())  # another order waits for nobody
    await going


async def test_restart_in_a_chat_of_two_replies_too(harness: Telling) -> None:
    """D2, D3: nothing runs, so nothing is said of an interruption."""
    asked = harness.say("/restart")
    await harness.goes()
    (notice,) = told(harness)
    assert heard([notice]) == [("home", None, asked)]
    assert notice.outgoing.text == "Restarting …"
    await harness.start()
    (back,) = (await harness.sent(2))[1:]
    assert heard([back]) == [("home", None, asked)]
    assert back.outgoing.text == "The gateway is back."


async def test_a_restart_notice_that_was_not_sent_in_time_stays_unsent(harness: Telling) -> None:
    """D1, D2: also where it is the answer to a command; that it is back is told."""
    harness.while_checked = lambda: harness.service.set_faults(Faults(disconnected=True))
    asked = harness.say("/restart")
    await harness.goes()
    harness.service.set_faults(Faults())
    await harness.start()
    (only,) = await harness.sent(1)
    assert (only.outgoing.text, only.outgoing.reply_to) == ("The gateway is back.", asked)


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
    harness: Telling, kind: StopKind, by: StopRequester
) -> None:
    """D4: after a restart that nobody in a chat asked for; once, whoever starts when."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.goes(harness.order(kind, by))
    await harness.start()
    (back,) = (await harness.sent(3))[2:]
    assert heard([back]) == [("hall", None, None)]
    assert back.outgoing.text == "The gateway is back."
    assert await harness.store.open_stops() == []
    await harness.goes(harness.order(StopKind.STOP))
    await harness.start()
    assert len(told(harness)) == 4  # and the farewell of this stop


async def test_a_start_after_a_requested_stop_sends_no_notice(harness: Telling) -> None:
    """D4: nobody waits for it."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.goes(harness.order(StopKind.STOP))
    before = len(told(harness))
    await harness.start()
    assert await harness.outbox() == []
    assert len(told(harness)) == before


async def test_a_back_notice_is_sent_once_although_the_successor_crashes(
    harness: Telling, until: Until
) -> None:
    """D4: the news and the end of the stop are one commit, and what is owed is sent once."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.goes(harness.order())
    harness.service.set_faults(Faults(disconnected=True))
    await harness.start()
    assert [row.kind for row in await harness.outbox()] == [DeliveryKind.NOTICE]
    await harness.die()
    harness.service.set_faults(Faults())
    await harness.start()
    (back,) = (await harness.sent(3))[2:]
    assert back.outgoing.text == "The gateway is back."
    await until(harness.all_delivered)
    assert len(told(harness)) == 3


async def test_a_late_platform_gets_the_back_notice_when_it_connects(harness: Telling) -> None:
    """D4: what is owed to it waits in the outbox."""
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    await harness.goes(harness.order())
    harness.service.set_faults(Faults(disconnected=True))
    await harness.start()
    assert len(told(harness)) == 2
    harness.service.set_faults(Faults())
    (back,) = (await harness.sent(3))[2:]
    assert back.outgoing.text == "The gateway is back."


async def test_the_home_channel_gets_one_notice_for_a_crash_loop(
    harness: Telling, until: Until
) -> None:
    """The spec is silent: once, with what goes on; again when ten minutes have passed."""
    await harness.stop()
    harness.clock = clock = ManualClock()
    harness.configure(home="hall")
    await harness.start()
    crash = "The gateway was interrupted and is back; 1 conversation goes on."

    def heard_of_crashes() -> int:
        return sum(sent.outgoing.text == crash for sent in told(harness))

    for minutes, times in ((0, 1), (4, 1), (8, 1), (12, 2), (16, 2)):
        clock.at = 1_800_000_000.0 + minutes * 60
        await harness.crashes()
        await until(harness.all_delivered)
        assert heard_of_crashes() == times
    await harness.goes(harness.order())
    await harness.start()
    await until(harness.all_delivered)
    assert told(harness)[-1].outgoing.text == "The gateway is back."


@pytest.mark.parametrize("how", ["by its settings", "by itself"])
async def test_a_platform_can_opt_out(tmp_path: Path, how: str) -> None:
    """D5: neither running chats nor home hear anything there; a command is answered all the
    same."""
    harness = Telling(tmp_path / "state.db")
    if how == "by its settings":
        harness.configure(restart_notices=False, home="hall")
    else:
        harness.configure(home="hall")
        harness.service = ChatService(restart_notices=False)
    await harness.start()
    await harness.works("one", 1)
    asked = harness.say("/restart", chat="ops")
    await harness.goes()
    assert heard(told(harness)) == [("ops", None, asked)]
    await harness.start()
    await harness.goes(harness.order())
    await harness.start()
    assert await harness.outbox() == []
    assert len(told(harness)) == 1
    await harness.stop()


async def test_each_account_has_its_own_home_channel(harness: Telling) -> None:
    """D1, D4: what /sethome said goes before the configuration, and holds in the next life."""
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
    assert "home channel of simulated now" in (await harness.texts(1))[0]
    await harness.goes(harness.order())
    await harness.start()
    assert heard((await harness.sent(3))[1:]) == [("hall", "t2", None), ("hall", "t2", None)]
    elsewhere = (await other.wait_for_ledger(sent=2, wait=10)).sent
    assert heard(list(elsewhere)) == [("lobby", "t1", None), ("lobby", "t1", None)]
    harness.say("/sethome off", chat="anywhere")
    assert "is lobby/t1 now, as platforms.simulated.home says" in (await harness.texts(4))[3]
    assert {home.address.chat_id for home in harness.gateway.home_channels.all()} == {"lobby"}


async def test_sethome_off_without_a_configured_one_leaves_none(harness: Telling) -> None:
    harness.say("/sethome", chat="hall")
    await harness.sent(1)
    harness.say("/sethome off", chat="hall")
    assert "has no home channel now" in (await harness.texts(2))[1]
    assert harness.gateway.home_channels.all() == []
    assert await harness.store.home_channels() == []


async def test_an_api_chat_cannot_be_a_home_channel(harness: Telling) -> None:
    ended = await harness.end_of(await harness.accept("/sethome"))
    assert "cannot be a home channel" in ended.text
    ended = await harness.end_of(await harness.accept("/sethome away"))
    assert "/sethome knows no 'away'" in ended.text
    assert harness.gateway.home_channels.all() == []


async def test_a_refused_restart_gives_the_reason_and_the_gateway_keeps_running(
    harness: Telling,
) -> None:
    """A successor that could not start is not begun: the running gateway goes on."""
    harness.refused = "holdfast.toml, line 3: gateway.prot is not a key Holdfast knows."
    asked = harness.say("/restart", chat="ops")
    (answer,) = await harness.sent(1)
    assert answer.outgoing.text == f"Not restarted: {harness.refused}"
    assert asked
    assert harness.departure.order is None
    harness.model.say("still here")
    harness.say("are you?")
    assert (await harness.texts(2))[1] == "still here"


async def test_a_restart_when_idle_waits_for_the_turns(harness: Telling, until: Until) -> None:
    await harness.works("one", 1)
    asked = harness.say("/restart when-idle", chat="ops")
    (promise,) = await harness.sent(1)
    assert promise.outgoing.text.startswith("The gateway restarts as soon as nothing runs; 1 turn")
    assert harness.departure.order is None
    harness.model.say("done")
    await harness.sent(2)
    harness.rests.set()
    await harness.goes()
    assert len(told(harness)) == 2
    await harness.start()
    (back,) = (await harness.sent(3))[2:]
    assert heard([back]) == [("ops", None, asked)]


async def test_a_turn_that_began_before_a_restart_when_idle_gets_a_notice(harness: Telling) -> None:
    """D1: what was promised is not the notice that it happens now, to what runs there by then."""
    await harness.works("one", 1, chat="ops")
    harness.say("/restart when idle", chat="ops")
    await harness.sent(1)
    harness.rests.set()
    await harness.goes()
    (notice,) = told(harness)[1:]
    assert heard([notice]) == [("ops", None, None)]
    assert "try to resume" in notice.outgoing.text
    await harness.start()


async def test_a_restart_now_waits_for_nothing(harness: Telling, until: Until) -> None:
    harness.say("/restart now")
    await until(lambda: harness.departure.order is not None)
    assert harness.departure.urgent.is_set()
    assert (await harness.goes()).now


async def test_only_operators_restart_and_set_a_home(harness: Telling) -> None:
    """Law 12, G3: default deny; the row ends as refused, and the refusal names the key."""
    harness.say("/restart", user="bob")
    harness.say("/sethome", user="bob")
    for text in await harness.texts(2):
        assert "platforms.simulated.operators" in text
    assert await harness.ledger() == {"refused": 2}
    harness.say("/restart maybe")
    assert "/restart knows no 'maybe'" in (await harness.texts(3))[2]
    assert harness.departure.order is None


async def test_restart_without_a_supervisor_is_refused_with_a_hint(tmp_path: Path) -> None:
    harness = GatewayHarness(tmp_path / "state.db")
    await harness.start()
    ended = await harness.end_of(await harness.accept("/restart"))
    assert "restart it where it was started" in ended.text
    await harness.stop()


async def test_a_restart_typed_over_the_api_is_answered_there(harness: Telling) -> None:
    """D2: who fetches the answer finds it, and nothing is owed to them when it is back."""
    ended = await harness.end_of(await harness.accept("/restart"))
    assert ended.text == "Restarting …"
    await harness.goes()
    await harness.start()
    assert await harness.outbox() == []


async def test_a_restart_interrupted_by_a_crash_is_dropped(harness: Telling, until: Until) -> None:
    """Law 8: it was typed to the process that died. The next one drops it, as does the one after;
    so does one that the platform gives again."""
    harness.service.set_faults(Faults(duplicates=1))
    checked, never = asyncio.Event(), asyncio.Event()

    async def hangs() -> None:
        checked.set()
        await never.wait()

    harness.while_checked = hangs
    asked = harness.say("/restart")
    await checked.wait()
    await harness.die()
    checked.clear()
    for _ in range(3):
        await harness.start()
        (said,) = harness.service.ledger().said
        await until(lambda: harness.service.ledger().said[0].times_given >= 2)
        row = await harness.store.inbox_row(InboxId(1))
        assert row is not None
        assert (row.inbound.message_id, row.state) == (asked, InboxState.SUPERSEDED)
        assert harness.departure.order is None
        await harness.stop()
    assert said.acked
    assert not checked.is_set()
    assert told(harness) == []
    await harness.start()


async def test_agent_output_never_triggers_a_restart(harness: Telling, call: Call) -> None:
    """Law 8: neither its reply, nor the task or the reply of a child, nor what a person asks it to
    say again."""
    await harness.stop()
    harness.extra_tools = [DelegateTool(DelegateSettings())]
    await harness.start()
    task = json.dumps({"tasks": [{"task": "/restart"}], "background": True})
    harness.model.say([call("delegate", task)], "/restart", "/restart now", "/restart")
    harness.say("go on")
    await harness.sent(2)
    assert harness.departure.order is None
    assert harness.restarting.pending_restart is None
