"""Tests the simulated platform, in one process and over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import aiohttp
import pytest

from holdfast.core.errors import (
    AccountInUse,
    ConnectRefused,
    NotAllowed,
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    StoreError,
    Throttled,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.ports.capabilities import Backlog
from holdfast.core.ports.platform import Platform
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.events import (
    ALWAYS,
    CutStyle,
    Faults,
    ReviseRequest,
    SayRequest,
    VendorVerdict,
)
from holdfast.testing.simulated.people import PeopleClient
from holdfast.testing.simulated.platform import RemoteSimulatedPlatform, SimulatedPlatform
from holdfast.testing.simulated.receiver import SimulatedReceiver
from holdfast.testing.simulated.server import serve
from holdfast.testing.simulated.service import ChatService


@asynccontextmanager
async def remote_platform(service: ChatService, **options: Any) -> AsyncIterator[Platform]:
    async with serve(service) as base_url:
        yield RemoteSimulatedPlatform(base_url, **options)


def local_platform(service: ChatService, **options: Any) -> AbstractAsyncContextManager[Platform]:
    return nullcontext(SimulatedPlatform(service, **options))


@pytest.fixture(params=["in_process", "remote"])
def open_platform(request: pytest.FixtureRequest) -> Any:
    return local_platform if request.param == "in_process" else remote_platform


def say(service: ChatService, text: str, **more: Any) -> str:
    return service.say(SayRequest(chat="home", user="ann", text=text, **more))


def outbound(text: str, *, delivery: str = "d1", maybe_repeated: bool = False) -> Outbound:
    address = Address(platform="simulated", account="default", chat_id="home", reply_to="m1")
    return Outbound(
        delivery_id=DeliveryId(delivery),
        address=address,
        text=text,
        may_be_duplicate=maybe_repeated,
    )


async def until_acked(service: ChatService, number: int) -> None:
    while sum(said.acked for said in service.ledger().said) < number:
        await asyncio.sleep(0.005)


async def test_messages_sent_while_disconnected_reach_intake_at_connect(
    open_platform: Any,
) -> None:
    """G1: what arrives while the gateway is down is still at the platform."""
    service, intake = ChatService(), RecordingIntake()
    say(service, "one")
    say(service, "two")
    async with open_platform(service) as platform, platform.connect(intake):
        handed = await intake.wait_for_attempts(2)
        await until_acked(service, 2)
    assert [inbound.text for inbound in handed] == ["one", "two"]


async def test_an_update_has_its_source_and_its_cursor(
    open_platform: Any,
) -> None:
    service, intake = ChatService(first_update_id=71), RecordingIntake()
    message_id = say(
        service, "hi", chat_type=ChatType.GROUP, thread="t", user_name="Ann", account="bot2"
    )
    async with open_platform(service, account="bot2") as platform, platform.connect(intake):
        [inbound] = await intake.wait_for_attempts(1)
    assert inbound.source == Source(
        platform="simulated",
        account="bot2",
        chat_id="home",
        chat_type=ChatType.GROUP,
        thread_id="t",
        user_id="ann",
        user_name="Ann",
    )
    assert (inbound.event_id, inbound.message_id) == ("71", message_id)
    assert inbound.cursor is not None
    assert inbound.cursor.value == "71"


async def test_one_account_does_not_get_the_updates_of_another(open_platform: Any) -> None:
    service, intake = ChatService(), RecordingIntake()
    say(service, "not yours", account="other")
    say(service, "yours")
    async with open_platform(service) as platform, platform.connect(intake):
        await until_acked(service, 1)
    assert [inbound.text for inbound in intake.attempted] == ["yours"]


async def test_nothing_is_acknowledged_before_intake_has_stored_it(open_platform: Any) -> None:
    """G1: commit, then acknowledge."""
    service, intake = ChatService(), RecordingIntake(delay=ALWAYS)
    say(service, "slow")
    async with open_platform(service) as platform:
        async with platform.connect(intake):
            while not service.ledger().said[0].times_given:
                await asyncio.sleep(0.005)
        assert not service.ledger().said[0].acked
        quick = RecordingIntake()
        async with platform.connect(quick):
            await until_acked(service, 1)
    assert [inbound.text for inbound in quick.accepted] == ["slow"]


async def test_an_update_that_cannot_be_stored_is_delivered_again_in_order(
    open_platform: Any,
) -> None:
    service, intake = ChatService(), RecordingIntake()
    intake.fail_next(StoreError("disk full"), StoreError("disk full"))
    say(service, "one")
    say(service, "two")
    async with open_platform(service) as platform, platform.connect(intake):
        await until_acked(service, 2)
    assert [inbound.text for inbound in intake.attempted] == ["one", "one", "one", "two"]
    assert [inbound.text for inbound in intake.accepted] == ["one", "two"]


async def test_the_backoff_grows_while_nothing_can_be_stored_and_is_reset_after() -> None:
    service, intake, pauses = ChatService(), RecordingIntake(), []

    async def note(pause: float) -> None:
        pauses.append(pause)

    full = StoreError("disk full")
    intake.fail_next(full, full, full, full)
    say(service, "one")
    feed = SimulatedReceiver(
        SimulatedPlatform(service), intake=intake, first_delay=1, longest_delay=4, sleep=note
    )
    running = asyncio.create_task(feed.run())
    await until_acked(service, 1)
    intake.fail_next(full)
    say(service, "two")
    await until_acked(service, 2)
    running.cancel()
    assert pauses == [1, 2, 4, 4, 1]


async def test_a_message_of_an_unknown_sender_is_dropped_and_blocks_no_other(
    open_platform: Any,
) -> None:
    service, intake = ChatService(), RecordingIntake()
    intake.fail_next(NotAllowed("ann is not on the list"))
    say(service, "let me in")
    say(service, "hello")
    async with open_platform(service) as platform, platform.connect(intake):
        await until_acked(service, 2)
    assert [inbound.text for inbound in intake.accepted] == ["hello"]


async def test_a_duplicate_comes_with_the_same_event_id_after_it_was_acknowledged(
    open_platform: Any,
) -> None:
    """G2: the same event again is the same event."""
    service, intake = ChatService(), RecordingIntake()
    service.set_faults(Faults(duplicates=1))
    say(service, "one")
    say(service, "two")
    async with open_platform(service) as platform, platform.connect(intake):
        handed = await intake.wait_for_attempts(3)
    assert sorted(inbound.event_id for inbound in handed) == ["1", "1", "2"]
    assert len(intake.accepted) == 2
    assert [said.times_given >= 2 for said in service.ledger().said] == [True, False]


async def test_a_delayed_update_comes_late_and_is_not_lost(open_platform: Any) -> None:
    service, intake = ChatService(), RecordingIntake()
    service.set_faults(Faults(delay=0.05))
    say(service, "late")
    service.set_faults(Faults())
    say(service, "early")
    async with open_platform(service) as platform, platform.connect(intake):
        await until_acked(service, 2)
    assert [inbound.text for inbound in intake.accepted] == ["early", "late"]


async def test_a_lost_connection_is_reopened(open_platform: Any) -> None:
    service, intake = ChatService(), RecordingIntake()
    async with open_platform(service, longest_delay=0.05) as platform, platform.connect(intake):
        service.set_faults(Faults(disconnected=True))
        say(service, "anyone there?")
        with pytest.raises(NotConnected):
            await platform.send(outbound("lost?"))
        await asyncio.sleep(0.1)
        assert intake.attempted == []
        service.set_faults(Faults())
        await until_acked(service, 1)
    assert [attempt.verdict for attempt in service.ledger().attempts] == [VendorVerdict.UNREACHABLE]


async def test_a_sent_message_is_in_its_chat_and_the_receipt_has_its_id(
    open_platform: Any,
) -> None:
    service = ChatService()
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        receipt = await platform.send(outbound("hello", maybe_repeated=True))
    [sent] = service.ledger().sent
    assert receipt.platform_message_id == sent.message_id
    assert (sent.outgoing.chat_id, sent.outgoing.text) == ("home", "hello")
    assert (sent.outgoing.reply_to, sent.outgoing.maybe_repeated) == ("m1", True)
    assert not sent.duplicate


async def test_a_rate_limit_says_how_long_to_wait_and_nothing_is_sent(open_platform: Any) -> None:
    """I2: 429 → wait as told."""
    service = ChatService()
    service.set_faults(Faults(floods=1, retry_after=7.0))
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        with pytest.raises(Throttled) as caught:
            await platform.send(outbound("too fast"))
        assert caught.value.retry_after == 7.0
        assert service.ledger().sent == ()
        await platform.send(outbound("slower"))
    assert len(service.ledger().sent) == 1


async def test_a_refused_message_is_refused_permanently(open_platform: Any) -> None:
    """I2: another 4xx → failed."""
    service = ChatService(max_length=5)
    service.set_faults(Faults(refusals=1))
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        with pytest.raises(SendRejected, match="does not want"):
            await platform.send(outbound("no"))
        with pytest.raises(SendRejected, match="longer than 5"):
            await platform.send(outbound("much too long"))
    assert service.ledger().sent == ()


@pytest.mark.parametrize("cut", list(CutStyle))
async def test_a_lost_receipt_leaves_the_outcome_of_a_sent_message_unknown(
    open_platform: Any, cut: CutStyle
) -> None:
    """I2: a timeout or reset after the body was written → unknown."""
    service = ChatService()
    service.set_faults(Faults(lost_receipts=1, cut=cut))
    async with (
        open_platform(service, send_timeout=2.0) as platform,
        platform.connect(RecordingIntake()),
    ):
        with pytest.raises(OutcomeUnknown):
            await platform.send(outbound("hello"))
        assert len(service.ledger().sent) == 1
        await platform.send(outbound("hello", maybe_repeated=True))
    assert [sent.duplicate for sent in service.ledger().sent] == [False, True]


async def test_a_lost_message_looks_to_its_sender_just_like_a_lost_receipt(
    open_platform: Any,
) -> None:
    service = ChatService()
    service.set_faults(Faults(lost_messages=1))
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        with pytest.raises(OutcomeUnknown):
            await platform.send(outbound("hello"))
    assert service.ledger().sent == ()


async def test_with_idempotency_keys_a_repeated_delivery_is_sent_once(open_platform: Any) -> None:
    """I2: idempotency key → exactly once."""
    service = ChatService(idempotent_send=True)
    service.set_faults(Faults(lost_receipts=1))
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        assert platform.capabilities.idempotent_send
        with pytest.raises(OutcomeUnknown):
            await platform.send(outbound("hello"))
        receipt = await platform.send(outbound("hello", maybe_repeated=True))
    [sent] = service.ledger().sent
    assert receipt.platform_message_id == sent.message_id
    assert [a.verdict for a in service.ledger().attempts] == [
        VendorVerdict.RECEIPT_LOST,
        VendorVerdict.REPEATED,
    ]


async def test_the_outcome_of_a_delivery_can_be_looked_up(open_platform: Any) -> None:
    """I2: look-up → exactly once."""
    service = ChatService(lookup=True)
    service.set_faults(Faults(lost_receipts=1))
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        assert platform.capabilities.lookup and platform.capabilities.can_resolve_unknown
        sent = outbound("hello")
        assert await platform.find_delivery(sent.delivery_id, sent.address) is None
        with pytest.raises(OutcomeUnknown):
            await platform.send(sent)
        receipt = await platform.find_delivery(sent.delivery_id, sent.address)
        service.set_faults(Faults(account_floods=1, retry_after=0.5))
        with pytest.raises(Throttled) as asked:
            await platform.find_delivery(sent.delivery_id, sent.address)
    assert asked.value.whole_account and asked.value.retry_after == 0.5
    assert receipt.platform_message_id == service.ledger().sent[0].message_id


async def test_the_platform_declares_what_its_vendor_can_do(open_platform: Any) -> None:
    service = ChatService(max_length=4096)
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        assert platform.capabilities.backlog is Backlog.UNTIL_ACKED
        assert platform.capabilities.max_length == 4096
        assert not platform.capabilities.idempotent_send


async def test_a_vendor_that_starts_late_is_connected_to_and_its_capabilities_are_read() -> None:
    async with serve(ChatService()) as base_url:
        port = int(base_url.rpartition(":")[2])
    service, intake = ChatService(idempotent_send=True), RecordingIntake()
    say(service, "hello")
    platform = RemoteSimulatedPlatform(base_url, longest_delay=0.05)
    with pytest.raises(NotConnected):
        await platform.connect(intake).__aenter__()
    with pytest.raises(NotConnected):
        await platform.send(outbound("too early"))
    async with serve(service, port=port), platform.connect(intake):
        await until_acked(service, 1)
        assert platform.capabilities.idempotent_send


@pytest.mark.parametrize("over", ["http", "in process"])
async def test_a_refused_bot_gets_the_reason(over: str) -> None:
    service, intake = ChatService(), RecordingIntake()
    async with serve(service) as base_url:
        remote = over == "http"
        platform = RemoteSimulatedPlatform(base_url) if remote else SimulatedPlatform(service)
        service.set_faults(Faults(connect_refused="this token is no good"))
        with pytest.raises(ConnectRefused, match="no good") as refused:
            await platform.connect(intake).__aenter__()
        assert refused.value.remedy
        service.set_faults(Faults(in_use_by="the bot next door"))
        with pytest.raises(AccountInUse) as held:
            await platform.connect(intake).__aenter__()
        assert held.value.holder == "the bot next door"
        service.set_faults(Faults(disconnected=True))
        with pytest.raises(NotConnected):
            await platform.connect(intake).__aenter__()
        assert intake.confirmations == []
        service.set_faults(Faults())
        async with platform.connect(intake):
            assert intake.confirmations
            await platform.probe()


async def test_a_disconnected_platform_sends_nothing() -> None:
    with pytest.raises(NotConnected):
        await RemoteSimulatedPlatform("http://127.0.0.1:9").send(outbound("hello"))


async def test_an_unknown_fault_option_is_named() -> None:
    async with serve(ChatService()) as base_url, aiohttp.ClientSession() as http:
        async with http.post(f"{base_url}/faults", data=b'{"faults": {"flods": 1}}') as response:
            assert response.status == 400
            assert "flods" in await response.text()
        async with http.get(f"{base_url}/updates?wait=soon") as response:
            assert response.status == 400


async def test_the_http_api_sends_messages_sets_faults_and_returns_the_ledger() -> None:
    service, intake = ChatService(), RecordingIntake()
    async with serve(service) as base_url, aiohttp.ClientSession() as http:
        people = PeopleClient(base_url, http=http)
        await people.set_faults(Faults(floods=1), idempotent_send=True)
        message_id = await people.say("hello")
        platform = RemoteSimulatedPlatform(base_url)
        async with platform.connect(intake):
            with pytest.raises(Throttled):
                await platform.send(outbound("hi"))
            await platform.send(outbound("hi"))
            await until_acked(service, 1)
        ledger = await people.ledger(sent=1, wait=5)
    assert [said.message_id for said in ledger.said if said.acked] == [message_id]
    assert [sent.outgoing.delivery_id for sent in ledger.sent] == ["d1"]


def change(message_id: str, text: str) -> MessageEdit:
    address = Address(platform="simulated", account="default", chat_id="home")
    return MessageEdit(
        delivery_id=DeliveryId("d1"), address=address, platform_message_id=message_id, text=text
    )


async def test_an_edit_changes_the_message_in_the_chat_and_repeating_it_changes_nothing(
    open_platform: Any,
) -> None:
    """I2: edits are idempotent; the ledger keeps each of them."""
    service = ChatService(edit=True)
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        assert platform.capabilities.edit
        receipt = await platform.send(outbound("Hel"))
        for text in ("Hello", "Hello", "Hello!"):
            await platform.edit(change(receipt.platform_message_id, text))
    (sent,) = service.ledger().sent
    assert (sent.text, sent.edits) == ("Hello!", ("Hello", "Hello!"))
    assert [edit.text for edit in service.ledger().edits] == ["Hello", "Hello", "Hello!"]


async def test_edits_can_be_refused_rate_limited_and_lost(open_platform: Any) -> None:
    service = ChatService(edit=True, max_length=10)
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        name = (await platform.send(outbound("one"))).platform_message_id
        service.set_faults(Faults(rejected_edits=1))
        with pytest.raises(SendRejected, match="cannot be edited"):
            await platform.edit(change(name, "two"))
        service.set_faults(Faults(floods=1, retry_after=7.0))
        with pytest.raises(Throttled) as flood:
            await platform.edit(change(name, "two"))
        assert flood.value.retry_after == 7.0
        with pytest.raises(SendRejected, match="longer than 10"):
            await platform.edit(change(name, "x" * 11))
        with pytest.raises(SendRejected, match="no bot sent"):
            await platform.edit(change("m99", "two"))
        service.set_faults(Faults(lost_edits=1))
        with pytest.raises(OutcomeUnknown):
            await platform.edit(change(name, "two"))
    assert service.ledger().sent[0].text == "two"


async def test_a_vendor_without_edits_declares_it(open_platform: Any) -> None:
    service = ChatService()
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        name = (await platform.send(outbound("one"))).platform_message_id
        assert not platform.capabilities.edit
        with pytest.raises(SendRejected, match="cannot be edited"):
            await platform.edit(change(name, "two"))


async def test_a_reaction_is_on_its_message_and_each_attempt_is_in_the_ledger(
    open_platform: Any,
) -> None:
    service = ChatService(reactions=True)
    where = Address(platform="simulated", account="default", chat_id="home")
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        assert platform.capabilities.reactions
        name = say(service, "hello")
        await platform.react(where, name, "👀")
        assert service.ledger().said[0].reactions == {"default": "👀"}
        await platform.react(where, name, None)
        assert service.ledger().said[0].reactions == {}
        service.set_faults(Faults(rejected_reactions=1))
        with pytest.raises(SendRejected, match="reactions to this message are refused"):
            await platform.react(where, name, "👀")
        with pytest.raises(SendRejected, match="there is no message"):
            await platform.react(where, "m9", "👀")
    tried = [(each.emoji, each.verdict) for each in service.ledger().reactions]
    taken, refused = VendorVerdict.TAKEN, VendorVerdict.REFUSED
    assert tried == [("👀", taken), (None, taken), ("👀", refused), ("👀", refused)]


async def test_typing_is_in_the_ledger(open_platform: Any) -> None:
    service = ChatService(typing=True)
    where = Address(platform="simulated", account="default", chat_id="home", thread_id="t")
    async with open_platform(service) as platform, platform.connect(RecordingIntake()):
        await platform.show_typing(where)
    assert [(each.chat_id, each.thread_id) for each in service.ledger().typing] == [("home", "t")]


async def test_an_edit_by_a_user_is_another_event_about_the_same_message(
    open_platform: Any,
) -> None:
    """G2: an edit is another event; what was deleted is acknowledged and not handed over."""
    service, intake = ChatService(), RecordingIntake()
    async with open_platform(service) as platform, platform.connect(intake):
        first = say(service, "helo")
        await intake.wait_for_attempts(1)
        service.revise(ReviseRequest(message_id=first, text="hello"))
        await intake.wait_for_attempts(2)
        service.revise(ReviseRequest(message_id=first))
        say(service, "next")
        handed = await intake.wait_for_attempts(3)
        await until_acked(service, 2)
    assert [(each.message_id, each.text) for each in handed[:2]] == [
        (first, "helo"),
        (first, "hello"),
    ]
    assert len({each.event_id for each in handed}) == 3
    assert handed[2].text == "next"
    said = service.ledger().said[0]
    assert (said.edits, said.deleted) == (("hello",), True)


async def test_a_message_is_overtaken_by_one_of_another_chat_and_never_by_its_own(
    open_platform: Any,
) -> None:
    """Reordering between chats; within one the order is kept."""
    service, intake = ChatService(), RecordingIntake()
    service.set_faults(Faults(reorders=1))
    async with open_platform(service) as platform, platform.connect(intake):
        say(service, "one")
        service.say(SayRequest(chat="other", user="bob", text="two"))
        say(service, "three")
        handed = await intake.wait_for_attempts(3)
        assert [each.text for each in handed] == ["two", "one", "three"]
        service.set_faults(Faults(reorders=1))
        say(service, "four")
        say(service, "five")
        handed = await intake.wait_for_attempts(5)
    assert [each.text for each in handed[3:]] == ["four", "five"]


async def test_a_message_that_no_other_overtakes_is_still_delivered(open_platform: Any) -> None:
    service, intake = ChatService(), RecordingIntake()
    service.set_faults(Faults(reorders=1))
    async with open_platform(service) as platform, platform.connect(intake):
        say(service, "alone")
        await intake.wait_for_attempts(1)


async def test_a_half_open_connection_is_silent_until_a_timeout(
    open_platform: Any,
) -> None:
    """Nothing comes through in either direction; whole again, nothing is missing."""
    service, intake = ChatService(), RecordingIntake()
    options = {"poll_wait": 0.05, "send_timeout": 0.5, "longest_delay": 0.05}
    async with open_platform(service, **options) as platform, platform.connect(intake):
        service.set_faults(Faults(half_open=True))
        say(service, "anybody?")
        with pytest.raises(OutcomeUnknown):
            await platform.send(outbound("lost"))
        assert intake.attempted == []
        service.set_faults(Faults())
        await intake.wait_for_attempts(1)
    assert [attempt.verdict for attempt in service.ledger().attempts] == [
        VendorVerdict.MESSAGE_LOST
    ]
    assert service.ledger().sent == ()


async def test_missed_messages_are_fetched_where_there_is_a_history(open_platform: Any) -> None:
    """G1: `history_since` the last message that is durable; a new bot begins with what is new."""
    service, intake = ChatService(backlog=Backlog.HISTORY), RecordingIntake()
    say(service, "before its time")
    async with open_platform(service, poll_wait=0.05) as platform:
        async with platform.connect(intake):
            await listened_to(service)
            say(service, "one")
            await intake.wait_for_attempts(1)
        say(service, "two")
        say(service, "three")
        async with platform.connect(intake):
            handed = await intake.wait_for_attempts(3)
    assert [each.text for each in handed] == ["one", "two", "three"]


async def test_missed_messages_are_lost_without_a_backlog(open_platform: Any) -> None:
    """G1: `none`: what is said to a bot that is away is never given, and the ledger shows it."""
    service, intake = ChatService(backlog=Backlog.NONE), RecordingIntake()
    async with open_platform(service, poll_wait=0.05) as platform:
        say(service, "missed")
        async with platform.connect(intake):
            assert platform.capabilities.backlog is Backlog.NONE
            await listened_to(service)
            say(service, "heard")
            handed = await intake.wait_for_attempts(1)
    assert [each.text for each in handed] == ["heard"]
    assert [said.times_given for said in service.ledger().said] == [0, 1]


async def listened_to(service: ChatService) -> None:
    """Until a bot of the usual account asks for updates."""
    async with asyncio.timeout(30):
        while not service.is_polled("default"):
            await asyncio.sleep(0.005)
