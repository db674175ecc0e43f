"""I2, I4: what is stored of the parts of a delivery, and when it is deleted."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.deliveries import (
    restart_with_edits,
    wait_for_deliveries,
    wait_for_streamed_message_id,
    wait_until_shown,
)
from tests.support.gateway_harness import GatewayHarness
from tests.support.store_chat import ADDRESS, SESSION, StoreChat
from tests.support.stores import open_store

from holdfast.core.config.settings import PlatformSettings, Settings
from holdfast.core.ids import DeliveryId, SessionId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.outbox import DeliveryKind, DeliveryPart, DeliveryState
from holdfast.core.ports.capabilities import Backlog
from holdfast.core.ports.command import account_scope, session_scope
from holdfast.core.ports.store import HomeStore
from holdfast.core.ports.store_commands import (
    AddDeliveries,
    BeginAttempt,
    BeginPart,
    DeleteSession,
    PruneOutbox,
    RecordBusyDecision,
    SettleDelivery,
    SettlePart,
)
from holdfast.core.ports.store_queries import CountOutbox, GetDelivery, ListUndelivered
from holdfast.testing.scripted_model import ManualReply
from holdfast.testing.simulated.events import Faults
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

DAY = 86400.0


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[HomeStore]:
    async with open_store(tmp_path / "parts.db") as opened:
        yield opened


@pytest.fixture
def chat(store: HomeStore) -> StoreChat:
    return StoreChat(store)


async def parts_of(store: HomeStore) -> list[tuple[Any, ...]]:
    return await store._reader.read(
        lambda cursor: cursor.execute(
            "SELECT delivery_id, number, session_id FROM parts ORDER BY delivery_id, number"
        ).fetchall()
    )


async def send_two_parts(store: HomeStore, name: str, *, at: float, settled: bool = True) -> None:
    """Send a delivery of two parts; the second one is in flight unless `settled`."""
    row = await store.read(GetDelivery(delivery_id=DeliveryId(name)))
    assert row is not None
    for number in (1, 2):
        await store.write(BeginPart(delivery_id=row.id, scope=row.scope, number=number, at=at))
        if number == 1 or settled:
            part = DeliveryPart(
                number=number, state=DeliveryState.SENT, platform_message_id=f"{number}"
            )
            await store.write(SettlePart(delivery_id=row.id, scope=row.scope, part=part, at=at))
    if settled:
        await store.write(BeginAttempt(delivery_id=row.id, scope=row.scope, at=at))
        await store.write(
            SettleDelivery(
                delivery_id=row.id,
                scope=row.scope,
                state=DeliveryState.SENT,
                at=at,
                platform_message_id="1",
            )
        )


async def test_parts_go_with_their_session(store: HomeStore, chat: StoreChat) -> None:
    """I4: also the parts of a command reply, which names its message and no session."""
    row, command = await chat.say(), await chat.say("/help")
    await chat.begin_turn(row)
    await store.write(
        RecordBusyDecision(
            session_id=SessionId("s"), inbox_id=command.row.id, decision=BusyMode.QUEUE
        )
    )
    reply = chat.reply(row, text="long")
    help_ = chat.reply(command, id="h", kind=DeliveryKind.COMMAND, text="long")
    help_ = msgspec.structs.replace(help_, session_id=None, turn_id=None)
    other = msgspec.structs.replace(help_, id="o", inbox_id=None)
    await store.write(chat.turn_end(row, deliveries=(reply, help_, other)))
    for name in ("d", "h", "o"):
        await send_two_parts(store, name, at=5.0)
    assert len(await parts_of(store)) == 6
    await store.write(DeleteSession(session_id=SessionId("s")))
    assert await parts_of(store) == [("o", 1, None), ("o", 2, None)]


async def test_parts_in_flight_outlive_their_session_without_its_id(
    store: HomeStore, chat: StoreChat
) -> None:
    """I2: the sender settles them, and then they are pruned by age."""
    row = await chat.say()
    await chat.begin_turn(row)
    await store.write(chat.turn_end(row, deliveries=(chat.reply(row, text="long"),)))
    await send_two_parts(store, "d", at=5.0, settled=False)
    await store.write(DeleteSession(session_id=SessionId("s")))
    assert await parts_of(store) == [("d", 1, None), ("d", 2, None)]
    second = DeliveryPart(number=2, state=DeliveryState.SENT, platform_message_id="2")
    await store.write(
        SettlePart(
            delivery_id=DeliveryId("d"),
            scope=account_scope(ADDRESS.platform, ADDRESS.account),
            part=second,
            at=6.0,
        )
    )
    await store.write(
        SettleDelivery(
            delivery_id=DeliveryId("d"),
            scope=account_scope(ADDRESS.platform, ADDRESS.account),
            state=DeliveryState.SENT,
            at=6.0,
            platform_message_id="1",
        )
    )
    assert await store.write(PruneOutbox(before=7.0)) == 1
    assert await parts_of(store) == []


async def test_a_part_whose_message_is_to_be_replaced_is_stored_as_never_sent(
    store: HomeStore, chat: StoreChat
) -> None:
    """I4: otherwise a crash before the new message is sent would edit the old one for ever, or mark
    the new one as a repetition."""
    await store.write(AddDeliveries(deliveries=[chat.reply(None, id="d", text="x")], at=1.0))
    delivery_id, scope = DeliveryId("d"), session_scope(SESSION)
    sent = DeliveryPart(number=1, state=DeliveryState.SENT, platform_message_id="m1")
    unknown = DeliveryPart(number=1, state=DeliveryState.UNKNOWN)
    replaced = DeliveryPart(number=1, replaced="it was deleted")
    for part in (unknown, sent, replaced):
        await store.write(BeginPart(delivery_id=delivery_id, scope=scope, number=1, at=2.0))
        await store.write(SettlePart(delivery_id=delivery_id, scope=scope, part=part, at=3.0))
    (row,) = await store.read(ListUndelivered())
    assert row.parts == (replaced,)
    new = msgspec.structs.replace(replaced, state=DeliveryState.SENT, platform_message_id="m2")
    await store.write(BeginPart(delivery_id=delivery_id, scope=scope, number=1, at=4.0))
    await store.write(SettlePart(delivery_id=delivery_id, scope=scope, part=new, at=5.0))
    (row,) = await store.read(ListUndelivered())
    assert row.parts == (new,)


async def test_parts_are_pruned_with_their_delivery_and_not_before(
    store: HomeStore, chat: StoreChat
) -> None:
    """I2, I4: pending and recent deliveries keep their parts."""
    old, pending, young = (
        chat.reply(None, id=name, text="long") for name in ("old", "owed", "young")
    )
    await store.write(AddDeliveries(deliveries=[old, pending], at=1 * DAY))
    await store.write(AddDeliveries(deliveries=[young], at=40 * DAY))
    await send_two_parts(store, "old", at=1 * DAY)
    await send_two_parts(store, "owed", at=1 * DAY, settled=False)
    await send_two_parts(store, "young", at=40 * DAY)
    assert await store.write(PruneOutbox(before=30 * DAY)) == 1
    assert [name for name, *_ in await parts_of(store)] == ["owed", "owed", "young", "young"]


async def test_deliveries_with_an_unknown_outcome_are_pruned_like_the_rest(
    store: HomeStore, chat: StoreChat
) -> None:
    """I2: five hundred of them in front would keep all others from being pruned. That a start
    finds one unknown still makes it no younger."""
    rows = [chat.reply(None, id=f"u{number}", text="x") for number in range(510)]
    await store.write(
        AddDeliveries(deliveries=[*rows, chat.reply(None, id="last", text="x")], at=1 * DAY)
    )
    names, scope = [row.id for row in rows], session_scope(SESSION)
    for name in names:
        store.write(BeginAttempt(delivery_id=name, scope=scope, at=1 * DAY))
        store.write(
            SettleDelivery(delivery_id=name, scope=scope, state=DeliveryState.UNKNOWN, at=1 * DAY)
        )
    await store.write(BeginAttempt(delivery_id=DeliveryId("last"), scope=scope, at=1 * DAY))
    await store.write(
        SettleDelivery(
            delivery_id=DeliveryId("last"), scope=scope, state=DeliveryState.SENT, at=1 * DAY
        )
    )
    await store.write(
        SettleDelivery(
            delivery_id=DeliveryId("u0"),
            scope=scope,
            state=DeliveryState.UNKNOWN,
            at=40 * DAY,
            error="still",
        )
    )
    await store.write(BeginAttempt(delivery_id=DeliveryId("u1"), scope=scope, at=40 * DAY))
    await store.write(
        SettleDelivery(
            delivery_id=DeliveryId("u1"), scope=scope, state=DeliveryState.UNKNOWN, at=40 * DAY
        )
    )
    total = 0
    while gone := await store.write(PruneOutbox(before=30 * DAY)):
        total += gone
    assert total == 510
    assert [row.id for row in await store.read(ListUndelivered())] == ["u1"]


async def test_a_reply_whose_platform_can_no_longer_edit_is_resent_once_and_marked(
    harness: GatewayHarness,
) -> None:
    """I4: the partial message cannot be edited; the successor sends the whole text, marked."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    await wait_for_streamed_message_id(harness)
    await harness.die()
    harness.service.info = msgspec.structs.replace(harness.service.info, edit=False)
    harness.model.say("Once upon a time")
    await harness.start()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    half, whole = harness.service.ledger().sent
    assert (half.text, whole.text) == ("Once", "Once upon a time")
    assert (half.outgoing.maybe_repeated, whole.outgoing.maybe_repeated) == (False, True)
    assert harness.service.ledger().edits == ()


async def test_a_resent_reply_without_a_receipt_is_not_sent_a_third_time(
    harness: GatewayHarness,
) -> None:
    """I2, I4: unknown is a final outcome, also for a partial message that cannot be edited."""
    await restart_with_edits(harness)
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("tell me")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    await wait_for_streamed_message_id(harness)
    await harness.die()
    harness.service.info = msgspec.structs.replace(harness.service.info, edit=False)
    harness.service.set_faults(Faults(lost_receipts=9))
    harness.model.say("Once upon a time", "next")
    await harness.start()
    await wait_for_deliveries(harness, DeliveryState.UNKNOWN)
    assert len(harness.service.ledger().sent) == 2
    harness.service.set_faults(Faults())
    await harness.die()
    await harness.start()
    harness.say("and now?")
    await wait_until_shown(harness, "next", message=2)
    assert [sent.text for sent in harness.service.ledger().sent] == [
        "Once",
        "Once upon a time",
        "next",
    ]


async def test_a_half_open_connection_costs_a_streamed_reply_nothing(
    harness: GatewayHarness,
) -> None:
    """I2, I3, I4: unanswered edits are repeated; there is one message with the whole text, and
    later deliveries wait for it."""
    await harness.stop()
    harness.service = ChatService(edit=True, edit_interval=0.02, backlog=Backlog.UNTIL_ACKED)
    allowed = PlatformSettings(allow=("ann",))
    accounts = msgspec.structs.replace(allowed, accounts={"frail": allowed})
    harness.settings = Settings(platforms={"simulated": accounts})
    harness.extra_platforms = [
        SimulatedPlatform(harness.service, account="frail", poll_wait=0.2, send_timeout=0.25)
    ]
    await harness.start()
    reply = ManualReply()
    harness.model.say(reply, "next")
    harness.say("tell me", account="frail")
    reply.say("Once")
    await wait_until_shown(harness, "Once")
    harness.service.set_faults(Faults(half_open=True))
    reply.say(" upon")
    reply.say(" a time")
    reply.end()
    # Longer than four tries take: it is neither given up, nor sent a second time.
    await harness.service.wait_for_ledger(edits=len(harness.service.ledger().edits) + 5, wait=10)
    harness.say("and now?", account="frail")
    assert (await harness.store.read(CountOutbox()))[DeliveryState.FAILED] == 0
    harness.service.set_faults(Faults())
    await wait_until_shown(harness, "Once upon a time")
    await wait_until_shown(harness, "next", message=1)
    await wait_for_deliveries(harness, DeliveryState.SENT, 2)
    assert [sent.outgoing.maybe_repeated for sent in harness.service.ledger().sent] == [
        False,
        False,
    ]
