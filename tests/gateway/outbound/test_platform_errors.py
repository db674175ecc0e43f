"""I2: an unexpected error of a platform is an unknown outcome, and its chat continues."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.deliveries import wait_for_deliveries
from tests.support.two_accounts import TwoAccountsHarness

from holdfast.core.errors import AccountDisconnected, SendRejected
from holdfast.core.ids import InboxId
from holdfast.core.messages.outbox import Address, DeliveryState, Outbound, Receipt
from holdfast.core.ports.store_queries import ListDeliveriesForMessage
from holdfast.core.secrets import Secret
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

KEY = "12345:a-key-of-a-pretend-bot"


class FailingPlatform(SimulatedPlatform):
    """A platform that raises exceptions which its port does not name."""

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
async def two_accounts(tmp_path: Path) -> AsyncIterator[TwoAccountsHarness]:
    harness = TwoAccountsHarness(tmp_path / "state.db")
    yield harness
    await harness.stop()


@pytest.mark.parametrize("length", [None, 10])
async def test_a_platform_error_leaves_no_chat_without_a_reply(
    two_accounts: TwoAccountsHarness, length: int | None
) -> None:
    """I2: the outcome is unknown, so it is resent once, marked; if that fails too it ends as
    unknown, and the next delivery is sent as usual."""
    two_accounts.work = ChatService(max_length=length)
    platform = FailingPlatform(two_accounts.work)
    two_accounts.extra_platforms = [platform]
    await two_accounts.start()
    two_accounts.model.say("of one part or of two", "lost", "next")
    platform.faults = [ValueError("a bug")]
    two_accounts.say_to_work("one")
    await wait_for_deliveries(two_accounts, DeliveryState.SENT)
    assert two_accounts.work.ledger().sent[0].outgoing.maybe_repeated
    platform.faults = [OSError("wrapped by nobody"), AccountDisconnected("told in the wrong place")]
    two_accounts.say_to_work("two")
    await wait_for_deliveries(two_accounts, DeliveryState.UNKNOWN)
    two_accounts.say_to_work("three")
    await wait_for_deliveries(two_accounts, DeliveryState.SENT, 2)
    assert two_accounts.work.ledger().sent[-1].outgoing.text == "next"


@pytest.mark.parametrize("length", [None, 10])
async def test_platform_errors_are_redacted(
    two_accounts: TwoAccountsHarness, length: int | None
) -> None:
    """Law 13: the address of a vendor may hold the key, and libraries like to quote it."""
    two_accounts.secrets = [Secret(KEY)]
    two_accounts.work = ChatService(max_length=length)
    platform = FailingPlatform(two_accounts.work)
    platform.faults = [SendRejected(f"POST /bot{KEY}/send")]
    two_accounts.extra_platforms = [platform]
    await two_accounts.start()
    two_accounts.model.say("too long for one message")
    two_accounts.say_to_work("hello?")
    await wait_for_deliveries(two_accounts, DeliveryState.FAILED)
    (answer,) = await two_accounts.store.read(ListDeliveriesForMessage(inbox_id=InboxId(1)))
    assert answer.error.endswith("POST /bot[redacted]/send")
    two_accounts.gateway.platforms.report_lost(
        "simulated", "work", AccountDisconnected(f"GET /bot{KEY}/updates")
    )
    async with asyncio.timeout(30):
        while not (error := two_accounts.status_of().error):
            await asyncio.sleep(0)
    assert error == "GET /bot[redacted]/updates"
    await two_accounts.stop()
    stored = b"".join(each.read_bytes() for each in two_accounts.path.parent.glob("state.db*"))
    assert KEY.encode() not in stored


async def test_a_failing_typing_indicator_does_not_block_the_reply(
    two_accounts: TwoAccountsHarness,
) -> None:
    two_accounts.work = ChatService(typing=True)
    platform = FailingPlatform(two_accounts.work)
    two_accounts.extra_platforms = [platform]
    await two_accounts.start()
    two_accounts.model.say("here")
    two_accounts.say_to_work("hello?")
    assert await two_accounts.work_texts(1) == ["here"]
    assert platform.typed.is_set()
