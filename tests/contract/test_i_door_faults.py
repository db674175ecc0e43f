"""I2: a door that fails in a way of its own has an unknown outcome, and its chat goes on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.test_accounts import Two

from holdfast.core.errors import LineLost
from holdfast.core.outbox import Address, Outbound, Receipt
from holdfast.platforms.simulated.in_process import SimulatedPlatform
from holdfast.platforms.simulated.service import ChatService


class Odd(SimulatedPlatform):
    """A door that raises what its port does not name, as often as it is told to."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, account="work", longest_pause=0.02)
        self.faults: list[Exception] = []
        self.typed = asyncio.Event()

    async def send(self, outbound: Outbound) -> Receipt:
        if self.faults:
            raise self.faults.pop(0)
        return await super().send(outbound)

    async def typing(self, address: Address) -> None:
        self.typed.set()
        raise ValueError("no such chat")


@pytest.fixture
async def odd(tmp_path: Path) -> AsyncIterator[Two]:
    two = Two(tmp_path / "state.db")
    yield two
    await two.stop()


@pytest.mark.parametrize("length", [None, 10])
async def test_a_fault_of_a_door_leaves_no_chat_without_an_answer(
    odd: Two, length: int | None
) -> None:
    """I2: nobody knows whether it arrived, so it is sent once more and says so; what comes after
    it is sent as ever. A line that a door calls lost only as it sends is no other thing."""
    odd.work = ChatService(max_length=length)
    door = Odd(odd.work)
    odd.more_doors = [door]
    door.faults = [ValueError("a bug"), OSError("wrapped by nobody")]
    await odd.start()
    odd.model.say("lost", "the first part of it", "next")
    odd.say_at_work("one")
    odd.say_at_work("two", chat="elsewhere")
    async with asyncio.timeout(10):
        while door.faults:
            await asyncio.sleep(0.005)
    await odd.sent_at_work(2 if length is None else 3)
    door.faults = [LineLost("not now")]
    odd.say_at_work("three")
    sent = await odd.work.ledger_with(sent=3 if length is None else 4, wait=10)
    assert [each.outgoing.text for each in sent.sent][-1] == "next"


async def test_a_door_that_cannot_show_that_somebody_writes_sends_what_is_written(odd: Two) -> None:
    odd.work = ChatService(typing=True)
    door = Odd(odd.work)
    odd.more_doors = [door]
    await odd.start()
    odd.model.say("here")
    odd.say_at_work("hello?")
    assert await odd.sent_at_work(1) == ["here"]
    assert door.typed.is_set()
