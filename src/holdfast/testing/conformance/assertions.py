"""Waits for what a platform, a vendor or a server does, and asserts it: never for a time, always for a fact."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from holdfast.core.errors import ConnectError, SendError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.outbox import Address, Outbound
from holdfast.core.messages.source import Author
from holdfast.core.ports.capabilities import Backlog
from holdfast.testing.conformance.harness import PlatformHarness
from holdfast.testing.intake import RecordingIntake

TIMEOUT = 30  # seconds, for a busy machine; nothing that goes well takes a part of it
_POLL_INTERVAL = 0.005

T = TypeVar("T")


async def wait_until(condition: Callable[[], object], *, timeout: float = TIMEOUT) -> None:
    """Something that no event tells has come about."""

    async def ask() -> object:
        return condition()

    await wait_for(ask, bool, timeout=timeout)


async def wait_for(
    ask: Callable[[], Awaitable[T]], is_wanted: Callable[[T], object], *, timeout: float = TIMEOUT
) -> T:
    """The first answer that is wanted. Fails with the last one that was not."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not is_wanted(answer := await ask()):
        assert loop.time() < deadline, f"after {timeout} s it is still {answer!r}"
        await asyncio.sleep(_POLL_INTERVAL)  # a vendor tells nobody when something arrives there
    return answer


@asynccontextmanager
async def connected(harness: PlatformHarness, intake: RecordingIntake) -> AsyncIterator[None]:
    """The door is connected, in a task of its own as in a gateway: a line that breaks may make its
    context fail, and what is being sent just then still has an outcome. A context that fails in
    any other way fails the check."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with harness.platform.connect(intake):
            entered.set()
            await leave.wait()

    holding = asyncio.ensure_future(hold())
    entering = asyncio.ensure_future(entered.wait())
    try:
        both = {holding, entering}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED, timeout=TIMEOUT)
        if holding.done():
            _raise(_failure(holding))
        assert entered.is_set(), f"connecting takes longer than {TIMEOUT} s"
        yield
    finally:
        leave.set()
        entering.cancel()
        await _wait_closed(holding, at_once=not entered.is_set())
    failure = _failure(holding)
    if not isinstance(failure, ConnectError | SendError | OSError):
        _raise(failure)


async def _wait_closed(task: asyncio.Future[None], *, at_once: bool) -> None:
    """A context that does not close is ended, and fails the check: it would hold up a stop."""
    if at_once:
        task.cancel()
    await asyncio.wait({task}, timeout=TIMEOUT)
    assert task.done() or not task.cancel(), f"leaving takes longer than {TIMEOUT} s"


def _failure(task: asyncio.Future[None]) -> BaseException | None:
    """What a context failed with: a task group shows one error as a group of one."""
    error = None if task.cancelled() else task.exception()
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error


def messages_from_others(intake: RecordingIntake) -> list[Inbound]:
    """What was accepted of others: a vendor may also give a bot what the bot has said."""
    return [each for each in intake.accepted if each.source.author is not Author.SELF]


async def assert_received(intake: RecordingIntake, *texts: str) -> list[Inbound]:
    """Exactly these were accepted, in this order."""

    async def words() -> list[str]:
        return [each.text for each in messages_from_others(intake)]

    found = await wait_for(words, lambda found: len(found) >= len(texts))
    assert found == list(texts)
    return messages_from_others(intake)


async def assert_acknowledged(harness: PlatformHarness, number: int) -> None:
    """So many messages of people are acknowledged, where the vendor waits for that."""
    if harness.platform.capabilities.backlog is Backlog.UNTIL_ACKED:
        assert await wait_for(harness.acknowledged, lambda found: found >= number) == number


async def assert_shown(harness: PlatformHarness, *texts: str) -> None:
    """Exactly these are the messages of the bot, in this order."""

    async def read() -> list[str]:
        return [each.text for each in await harness.bot_messages()]

    wanted = list(texts)
    found = await wait_for(read, lambda found: found == wanted or len(found) > len(wanted))
    assert found == wanted


def make_outbound(harness: PlatformHarness, text: str, *, delivery: str = "d1") -> Outbound:
    return Outbound(delivery_id=DeliveryId(delivery), address=harness.address(), text=text)


def reply_address(inbound: Inbound) -> Address:
    """Where an answer to it goes."""
    source = inbound.source
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
        reply_to=inbound.message_id,
    )
