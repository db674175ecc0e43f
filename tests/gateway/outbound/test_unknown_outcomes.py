"""I2, I3: unknown outcomes are settled by the capabilities of the platform, within rate limits."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.faults.backup_homes import make_backup, restore
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.deliveries import (
    restart_with_chat_service,
    wait_for_deliveries,
    wait_until_shown,
)
from tests.support.gateway_harness import GatewayHarness, Until

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import BeginAttempt
from holdfast.core.ports.store_queries import ListDeliveriesForMessage, ListUndelivered
from holdfast.testing.scripted_model import ManualReply
from holdfast.testing.simulated.events import Faults, VendorVerdict


@pytest.mark.parametrize("faults", [Faults(lost_receipts=2), Faults(lost_messages=2)])
async def test_a_delivery_that_can_be_looked_up_arrives_once_and_unmarked(
    harness: GatewayHarness, faults: Faults
) -> None:
    """I2: if it arrived it is not resent; otherwise it is sent for the first time."""
    await restart_with_chat_service(harness, lookup=True)
    harness.service.set_faults(faults)
    harness.model.say("hello", "next")
    harness.say("hi")
    await wait_until_shown(harness, "hello")
    harness.say("and?")
    await wait_until_shown(harness, "next", message=1)
    await wait_for_deliveries(harness, DeliveryState.SENT, 2)
    (answer,) = await harness.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    sent = harness.service.ledger().sent
    assert answer.platform_message_id == sent[0].message_id
    assert [(each.text, each.outgoing.maybe_repeated) for each in sent] == [
        ("hello", False),
        ("next", False),
    ]


async def test_a_delivery_without_a_receipt_at_a_crash_is_looked_up_by_the_successor(
    harness: GatewayHarness,
) -> None:
    """I2: after a crash between the send and its receipt, the vendor is asked before anything is
    sent; the lookup is repeated until it is answered."""
    await restart_with_chat_service(harness, lookup=True)
    held = Faults(lost_receipts=1, disconnected=False)
    harness.service.set_faults(held)
    harness.model.say("hello")
    harness.say("hi")
    await wait_until_shown(harness, "hello")
    harness.service.set_faults(Faults(disconnected=True))
    await harness.die()
    await harness.start()
    harness.service.set_faults(Faults())
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert len(harness.service.ledger().sent) == 1


async def test_parts_that_arrived_since_a_backup_are_looked_up(
    harness: GatewayHarness, until: Until
) -> None:
    """I2: the restored file has no attempt at them, and they are not sent again."""
    await restart_with_chat_service(harness, lookup=True, max_length=10)
    harness.service.set_faults(Faults(floods=1, retry_after=30.0))
    harness.model.say("aaaaaaaaa bbbbbbbbb")
    harness.say("hi")
    await until(lambda: bool(harness.service.ledger().attempts))
    await harness.stop()
    home = harness.path.parent
    backup = await asyncio.to_thread(make_backup, home)
    await harness.start()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    await harness.stop()
    await asyncio.to_thread(restore, home, backup)
    await harness.start()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    assert len(harness.service.ledger().sent) == 2


@pytest.mark.parametrize("text", ["short", "aaaaaaaaa bbbbbbbbb"])
async def test_pending_deliveries_of_a_restored_backup_are_marked_in_every_part(
    harness: GatewayHarness, until: Until, text: str
) -> None:
    """I2: it may have been delivered since the backup was made."""
    await restart_with_chat_service(harness, max_length=10)
    harness.service.set_faults(Faults(floods=1, retry_after=30.0))
    harness.model.say(text)
    harness.say("hi")
    await until(lambda: bool(harness.service.ledger().attempts))
    await harness.stop()
    home = harness.path.parent
    backup = await asyncio.to_thread(make_backup, home)
    await harness.start()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    await harness.stop()
    await asyncio.to_thread(restore, home, backup)
    await harness.start()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    marks = [each.outgoing.maybe_repeated for each in harness.service.ledger().sent]
    parts = len(text.split())
    assert marks == [False] * parts + [True] * parts


class FailingAttemptStore(ControlledStore):
    """A store that refuses to record the second attempt of a delivery."""

    attempts_begun = 0

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if not isinstance(command, BeginAttempt):
            return None
        self.attempts_begun += 1
        return StoreError("the disk is full") if self.attempts_begun == 2 else None


async def test_a_store_failure_between_two_attempts_keeps_the_unknown_outcome(
    harness: GatewayHarness,
) -> None:
    """I2: the second attempt is marked, whatever failed between it and the first."""
    await harness.stop()
    harness.open_store = FailingAttemptStore
    await harness.start()
    harness.service.set_faults(Faults(lost_receipts=1))
    harness.model.say("hello")
    harness.say("hi")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    sent = harness.service.ledger().sent
    assert [each.outgoing.maybe_repeated for each in sent] == [False, True]
    assert isinstance(harness.store, FailingAttemptStore)
    assert harness.store.attempts_begun == 3


@pytest.mark.parametrize("edit", [True, False])
async def test_the_parts_of_a_reply_are_looked_up_one_by_one(
    harness: GatewayHarness, edit: bool
) -> None:
    """I2, I4: also the first piece of a streamed reply, which is then edited."""
    await restart_with_chat_service(
        harness, lookup=True, max_length=10, edit=edit, edit_interval=0.01
    )
    harness.service.set_faults(Faults(lost_receipts=2))
    reply = ManualReply()
    harness.model.say(reply)
    harness.say("hi")
    reply.say("aaaaa")
    if edit:
        await wait_until_shown(harness, "aaaaa")
    reply.say("aaaa bbbbbbbbb")
    reply.end()
    await wait_for_deliveries(harness, DeliveryState.SENT)
    sent = harness.service.ledger().sent
    assert [each.text.strip() for each in sent] == ["aaaaaaaaa", "bbbbbbbbb"]
    assert not any(each.outgoing.maybe_repeated for each in sent)


async def test_parts_for_an_idempotent_vendor_are_settled_without_edits(
    harness: GatewayHarness,
) -> None:
    """I2: the vendor returns its first result, and the parts are not resent forever."""
    await restart_with_chat_service(harness, idempotent_send=True, max_length=10)
    harness.service.set_faults(Faults(lost_receipts=1))
    harness.model.say("aaaaaaaaa bbbbbbbbb")
    harness.say("hi")
    await wait_for_deliveries(harness, DeliveryState.SENT)
    ledger = harness.service.ledger()
    assert [each.text.strip() for each in ledger.sent] == ["aaaaaaaaa", "bbbbbbbbb"]
    assert len(ledger.attempts) == 3


@pytest.mark.parametrize("text", ["short", "aaaaaaaaa bbbbbbbbb"])
async def test_an_idempotent_vendor_that_never_answers_is_retried_with_backoff(
    harness: GatewayHarness, until: Until, text: str
) -> None:
    """I3: failures are retried with growing waits."""
    await restart_with_chat_service(harness, idempotent_send=True, max_length=10)
    harness.service.set_faults(Faults(lost_messages=1000))
    harness.model.say(text)
    harness.say("hi")
    await until(lambda: len(harness.service.ledger().attempts) > 1)
    await asyncio.sleep(1.0)  # how often one asks in a second, and nothing else, is in question
    assert len(harness.service.ledger().attempts) <= 10
    harness.service.set_faults(Faults())
    await wait_for_deliveries(harness, DeliveryState.SENT)


@pytest.mark.parametrize("text", ["hello", "aaaaaaaaa bbbbbbbbb"])
async def test_a_rate_limited_account_waits_in_every_chat(
    harness: GatewayHarness, until: Until, text: str
) -> None:
    """I3: one gate per account, in front of every output; a 429 in one chat counts for all."""
    await restart_with_chat_service(harness, max_length=10)
    harness.service.set_faults(Faults(account_floods=1, retry_after=1.5))
    harness.model.say(text, "next")
    harness.say("hi")
    await until(lambda: bool(harness.service.ledger().attempts))
    harness.say("and?", chat="other")
    await until(_pending_count_is(harness, 2))
    assert [attempt.verdict for attempt in harness.service.ledger().attempts] == [
        VendorVerdict.FLOOD
    ]
    await wait_for_deliveries(harness, DeliveryState.SENT, 2)
    sent = {each.text.strip() for each in harness.service.ledger().sent}
    assert sent == {*text.split(), "next"}


async def test_a_rate_limited_account_shows_no_progress(
    harness: GatewayHarness, until: Until
) -> None:
    """I3: typing and streamed text are dropped under pressure, in every chat."""
    await restart_with_chat_service(harness, edit=True, edit_interval=0.01, typing=True)
    harness.service.set_faults(Faults(account_floods=1, retry_after=30.0))
    harness.say("hi")
    await until(lambda: not harness.service.faults.account_floods)
    reply = ManualReply()
    harness.model.say(ManualReply(), reply)
    harness.say("and?", chat="other")
    await harness.model.wait_for_request(2)
    reply.say("Once")
    await asyncio.sleep(0.3)  # nothing is to happen; it would within a hundredth of this
    ledger = harness.service.ledger()
    assert (ledger.typing, ledger.attempts, ledger.edits) == ((), (), ())


async def test_a_rate_limited_chat_delays_no_other(harness: GatewayHarness, until: Until) -> None:
    """I3: one gate per chat, too."""
    harness.service.set_faults(Faults(floods=1, retry_after=30.0))
    harness.model.say("hello", "next")
    harness.say("hi")
    await until(lambda: bool(harness.service.ledger().attempts))
    harness.say("and?", chat="other")
    assert await harness.texts(1) == ["next"]


def _pending_count_is(harness: GatewayHarness, number: int) -> Callable[[], Awaitable[bool]]:
    async def matches() -> bool:
        return len(await harness.store.read(ListUndelivered())) == number

    return matches
