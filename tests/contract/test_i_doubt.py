"""I2, I3: what may have arrived is settled by what the platform can do, and nobody is hurried."""

import asyncio
from typing import Any

import pytest
from tests.contract.conftest import Until, World
from tests.contract.test_i_streams import ended, shown
from tests.faults.homes import backed_up, put_back

from holdfast.core.errors import StoreError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.scripted_model import ManualReply
from holdfast.testing.simulated.events import Faults, VendorVerdict
from holdfast.testing.simulated.service import ChatService


async def among(world: World, **about: Any) -> None:
    """The gateway again, with a vendor that can do this."""
    await world.stop()
    world.service = ChatService(**about)
    await world.start()


@pytest.mark.parametrize("fault", ["lost_receipts", "lost_messages"])
async def test_what_can_be_looked_up_arrives_once_and_unmarked(world: World, fault: str) -> None:
    """I2: it is there, and is not sent again; or it is not, and is sent for the first time."""
    await among(world, lookup=True)
    world.service.set_faults(Faults(**{fault: 2}))
    world.model.say("hello", "next")
    world.say("hi")
    await shown(world, "hello")
    world.say("and?")
    await shown(world, "next", message=1)
    await ended(world, DeliveryState.SENT, 2)
    (answer,) = await world.store.deliveries_for_message(1)
    sent = world.service.ledger().sent
    assert answer.platform_message_id == sent[0].message_id
    assert [(each.text, each.outgoing.maybe_repeated) for each in sent] == [
        ("hello", False),
        ("next", False),
    ]


async def test_what_a_crash_left_in_doubt_is_looked_up_by_the_successor(world: World) -> None:
    """I2: a crash between the send and its receipt, and the vendor is asked before anything is
    sent; while nobody answers, the question is asked again."""
    await among(world, lookup=True)
    held = Faults(lost_receipts=1, disconnected=False)
    world.service.set_faults(held)
    world.model.say("hello")
    world.say("hi")
    await shown(world, "hello")
    world.service.set_faults(Faults(disconnected=True))
    await world.die()
    await world.start()
    world.service.set_faults(Faults())
    await ended(world, DeliveryState.SENT)
    assert len(world.service.ledger().sent) == 1


@pytest.mark.parametrize("text", ["short", "aaaaaaaaa bbbbbbbbb"])
async def test_what_a_restored_backup_owes_is_marked_in_every_part(
    world: World, until: Until, text: str
) -> None:
    """I2: it may have been delivered since the backup was made."""
    await among(world, max_length=10)
    world.service.set_faults(Faults(floods=1, retry_after=30.0))
    world.model.say(text)
    world.say("hi")
    await until(lambda: bool(world.service.ledger().attempts))
    await world.stop()
    home = world.path.parent
    backup = await asyncio.to_thread(backed_up, home)
    await world.start()
    await ended(world, DeliveryState.SENT)
    await world.stop()
    await asyncio.to_thread(put_back, home, backup)
    await world.start()
    await ended(world, DeliveryState.SENT)
    marks = [each.outgoing.maybe_repeated for each in world.service.ledger().sent]
    parts = len(text.split())
    assert marks == [False] * parts + [True] * parts


class Stumbling(SqliteStore):
    """A store that does not take the second attempt of a delivery, once."""

    tried = 0

    def begin_attempt(self, delivery_id: DeliveryId, *, at: float) -> asyncio.Future[None]:
        self.tried += 1
        if self.tried != 2:
            return super().begin_attempt(delivery_id, at=at)
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        refused.set_exception(StoreError("the disk is full"))
        return refused


async def test_a_store_that_fails_between_two_attempts_forgets_no_doubt(world: World) -> None:
    """I2: the second is marked, whatever came between it and the first."""
    await world.stop()
    world.open_store = Stumbling
    await world.start()
    world.service.set_faults(Faults(lost_receipts=1))
    world.model.say("hello")
    world.say("hi")
    await ended(world, DeliveryState.SENT)
    sent = world.service.ledger().sent
    assert [each.outgoing.maybe_repeated for each in sent] == [False, True]
    assert world.store.tried == 3


@pytest.mark.parametrize("edit", [True, False])
async def test_the_parts_of_a_reply_are_looked_up_one_by_one(world: World, edit: bool) -> None:
    """I2, I4: also the first piece of one that grows, which is then changed where it stands."""
    await among(world, lookup=True, max_length=10, edit=edit, edit_interval=0.01)
    world.service.set_faults(Faults(lost_receipts=2))
    reply = ManualReply()
    world.model.say(reply)
    world.say("hi")
    reply.say("aaaaa")
    if edit:
        await shown(world, "aaaaa")
    reply.say("aaaa bbbbbbbbb")
    reply.end()
    await ended(world, DeliveryState.SENT)
    sent = world.service.ledger().sent
    assert [each.text.strip() for each in sent] == ["aaaaaaaaa", "bbbbbbbbb"]
    assert not any(each.outgoing.maybe_repeated for each in sent)


async def test_parts_that_a_vendor_takes_once_come_to_an_end_without_edits(world: World) -> None:
    """I2: what it kept of the attempt before is all there will be; nobody sends it for ever."""
    await among(world, idempotent_send=True, max_length=10)
    world.service.set_faults(Faults(lost_receipts=1))
    world.model.say("aaaaaaaaa bbbbbbbbb")
    world.say("hi")
    await ended(world, DeliveryState.SENT)
    ledger = world.service.ledger()
    assert [each.text.strip() for each in ledger.sent] == ["aaaaaaaaa", "bbbbbbbbb"]
    assert len(ledger.attempts) == 3


@pytest.mark.parametrize("text", ["short", "aaaaaaaaa bbbbbbbbb"])
async def test_a_vendor_that_takes_it_once_and_never_answers_is_asked_less_and_less(
    world: World, until: Until, text: str
) -> None:
    """I3: a failure is no reason to ask as fast as one can."""
    await among(world, idempotent_send=True, max_length=10)
    world.service.set_faults(Faults(lost_messages=1000))
    world.model.say(text)
    world.say("hi")
    await until(lambda: len(world.service.ledger().attempts) > 1)
    await asyncio.sleep(1.0)  # how often one asks in a second, and nothing else, is in question
    assert len(world.service.ledger().attempts) <= 10
    world.service.set_faults(Faults())
    await ended(world, DeliveryState.SENT)


@pytest.mark.parametrize("text", ["hello", "aaaaaaaaa bbbbbbbbb"])
async def test_an_account_that_has_to_wait_waits_in_every_chat(
    world: World, until: Until, text: str
) -> None:
    """I3: one gate per account, in front of everything; what its vendor told one chat counts."""
    await among(world, max_length=10)
    world.service.set_faults(Faults(account_floods=1, retry_after=1.5))
    world.model.say(text, "next")
    world.say("hi")
    await until(lambda: bool(world.service.ledger().attempts))
    world.say("and?", chat="other")
    await until(_is_owed(world, 2))
    assert [attempt.verdict for attempt in world.service.ledger().attempts] == [VendorVerdict.FLOOD]
    await ended(world, DeliveryState.SENT, 2)
    sent = {each.text.strip() for each in world.service.ledger().sent}
    assert sent == {*text.split(), "next"}


async def test_an_account_that_has_to_wait_shows_no_progress_either(
    world: World, until: Until
) -> None:
    """I3: typing and the words of a growing reply are dropped under pressure, in every chat."""
    await among(world, edit=True, edit_interval=0.01, typing=True)
    world.service.set_faults(Faults(account_floods=1, retry_after=30.0))
    world.say("hi")
    await until(lambda: not world.service.faults.account_floods)
    reply = ManualReply()
    world.model.say(ManualReply(), reply)
    world.say("and?", chat="other")
    await world.model.wait_for_request(2)
    reply.say("Once")
    await asyncio.sleep(0.3)  # nothing is to happen; it would within a hundredth of this
    ledger = world.service.ledger()
    assert (ledger.typing, ledger.attempts, ledger.edits) == ((), (), ())


async def test_a_chat_that_has_to_wait_holds_up_no_other(world: World, until: Until) -> None:
    """I3: one gate per chat, too."""
    world.service.set_faults(Faults(floods=1, retry_after=30.0))
    world.model.say("hello", "next")
    world.say("hi")
    await until(lambda: bool(world.service.ledger().attempts))
    world.say("and?", chat="other")
    assert await world.texts(1) == ["next"]


def _is_owed(world: World, number: int) -> Any:
    async def owed() -> bool:
        return len(await world.store.undelivered_rows()) == number

    return owed
