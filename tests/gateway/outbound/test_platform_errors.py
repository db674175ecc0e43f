"""I2: a door that fails in a way of its own has an unknown outcome, and its chat goes on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.deliveries import ended
from tests.support.two_accounts import Two

from holdfast.core.errors import AccountDisconnected, SendRejected
from holdfast.core.ids import InboxId
from holdfast.core.messages.outbox import Address, DeliveryState, Outbound, Receipt
from holdfast.core.secrets import Secret
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

KEY = "12345:a-key-of-a-pretend-bot"


class Odd(SimulatedPlatform):
    """A door that raises what its port does not name, as often as it is told to."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, account="work", longest_delay=0.02)
        self.faults: list[Exception] = []
        self.typed = asyncio.Event()

    async def send(self, outbound: Outbound) -> Receipt:
        if self.faults:
            raise self.faults.pop(0)
        return await super().send(outbound)

    async def show_typing(self, address: Address) -> None:
        self.typed.set()
        raise ValueError("no such chat")


@pytest.fixture
async def odd(tmp_path: Path) -> AsyncIterator[Two]:
    two = Two(tmp_path / "state.db")
    yield two
    await two.stop()


@pytest.mark.parametrize("length", [None, 10])
async def test_a_platform_error_leaves_no_chat_without_a_reply(
    odd: Two, length: int | None
) -> None:
    """I2: nobody knows whether it arrived, so it is sent once more and says so; where that fails
    too it ends as unknown, and what comes after it is sent as ever."""
    odd.work = ChatService(max_length=length)
    door = Odd(odd.work)
    odd.extra_platforms = [door]
    await odd.start()
    odd.model.say("of one part or of two", "lost", "next")
    door.faults = [ValueError("a bug")]
    odd.say_at_work("one")
    await ended(odd, DeliveryState.SENT)
    assert odd.work.ledger().sent[0].outgoing.maybe_repeated
    door.faults = [OSError("wrapped by nobody"), AccountDisconnected("told in the wrong place")]
    odd.say_at_work("two")
    await ended(odd, DeliveryState.UNKNOWN)
    odd.say_at_work("three")
    await ended(odd, DeliveryState.SENT, 2)
    assert odd.work.ledger().sent[-1].outgoing.text == "next"


@pytest.mark.parametrize("length", [None, 10])
async def test_platform_errors_are_redacted(odd: Two, length: int | None) -> None:
    """Law 13: the address of a vendor may hold the key, and libraries like to quote it."""
    odd.secrets = [Secret(KEY)]
    odd.work = ChatService(max_length=length)
    door = Odd(odd.work)
    door.faults = [SendRejected(f"POST /bot{KEY}/send")]
    odd.extra_platforms = [door]
    await odd.start()
    odd.model.say("too long for one message")
    odd.say_at_work("hello?")
    await ended(odd, DeliveryState.FAILED)
    (answer,) = await odd.store.deliveries_for_message(InboxId(1))
    assert answer.error.endswith("POST /bot[redacted]/send")
    odd.gateway.accounts.connection_lost(
        "simulated", "work", AccountDisconnected(f"GET /bot{KEY}/updates")
    )
    async with asyncio.timeout(30):
        while not (told := odd.facts().error):
            await asyncio.sleep(0)
    assert told == "GET /bot[redacted]/updates"
    await odd.stop()
    kept = b"".join(each.read_bytes() for each in odd.path.parent.glob("state.db*"))
    assert KEY.encode() not in kept


async def test_a_failing_typing_indicator_does_not_block_the_reply(odd: Two) -> None:
    odd.work = ChatService(typing=True)
    door = Odd(odd.work)
    odd.extra_platforms = [door]
    await odd.start()
    odd.model.say("here")
    odd.say_at_work("hello?")
    assert await odd.sent_at_work(1) == ["here"]
    assert door.typed.is_set()
