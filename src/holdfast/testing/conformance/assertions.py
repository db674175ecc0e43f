"""Waits for what a platform or a vendor does, and asserts it: for a fact, never for a time."""

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

TIMEOUT = 30  # seconds, for a busy machine; a check that passes needs a fraction of it
_POLL_INTERVAL = 0.005

T = TypeVar("T")


async def wait_until(
    condition: Callable[[], object],
    *,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - it fails with what it last saw
) -> None:
    """Polls, for a fact that no event announces."""

    async def ask() -> object:
        return condition()

    await wait_for(ask, bool, timeout=timeout)


async def wait_for(
    ask: Callable[[], Awaitable[T]],
    predicate: Callable[[T], object],
    *,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - it fails with the last answer
) -> T:
    """Returns the first wanted answer. Fails with the last unwanted one."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not predicate(answer := await ask()):
        assert loop.time() < deadline, f"after {timeout} s it is still {answer!r}"
        await asyncio.sleep(_POLL_INTERVAL)  # a vendor sends no event for this
    return answer


@asynccontextmanager
async def connected(harness: PlatformHarness, intake: RecordingIntake) -> AsyncIterator[None]:
    """Connects the platform in a task of its own, as a gateway does: a connection that breaks may
    make the context fail, and a send in progress still has an outcome. A context that fails in any
    other way fails the check."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def stay_connected() -> None:
        async with harness.platform.connect(intake):
            entered.set()
            await leave.wait()

    connection = asyncio.ensure_future(stay_connected())
    entering = asyncio.ensure_future(entered.wait())
    try:
        both = {connection, entering}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED, timeout=TIMEOUT)
        if connection.done():
            _raise(_failure(connection))
        assert entered.is_set(), f"connecting takes longer than {TIMEOUT} s"
        yield
    finally:
        leave.set()
        entering.cancel()
        await _wait_closed(connection, at_once=not entered.is_set())
    failure = _failure(connection)
    if not isinstance(failure, ConnectError | SendError | OSError):
        _raise(failure)


async def _wait_closed(task: asyncio.Future[None], *, at_once: bool) -> None:
    """A context that does not close is cancelled, and fails the check: it would delay a stop."""
    if at_once:
        task.cancel()
    await asyncio.wait({task}, timeout=TIMEOUT)
    assert task.done() or not task.cancel(), f"leaving takes longer than {TIMEOUT} s"


def _failure(task: asyncio.Future[None]) -> BaseException | None:
    """The error of the context: a task group raises one error as a group of one."""
    error = None if task.cancelled() else task.exception()
    return None if error is None else unwrap_group(error)


def unwrap_group(error: BaseException) -> BaseException:
    """The only error of a group, as a task group raises it; any other error itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error


def messages_from_others(intake: RecordingIntake) -> list[Inbound]:
    """The accepted messages without our own, which some vendors send to the bot too."""
    return [each for each in intake.accepted if each.source.author is not Author.SELF]


async def assert_received(intake: RecordingIntake, *texts: str) -> list[Inbound]:
    """Exactly these were accepted, in this order."""

    async def accepted() -> list[str]:
        return [each.text for each in messages_from_others(intake)]

    found = await wait_for(accepted, lambda found: len(found) >= len(texts))
    assert found == list(texts)
    return messages_from_others(intake)


async def assert_acknowledged(harness: PlatformHarness, number: int) -> None:
    """That number of messages is acknowledged, where the vendor has acknowledgements."""
    if harness.platform.capabilities.backlog is Backlog.UNTIL_ACKED:
        assert await wait_for(harness.acknowledged, lambda found: found >= number) == number


async def assert_shown(harness: PlatformHarness, *texts: str) -> None:
    """Exactly these are the messages of the bot, in this order."""

    async def shown() -> list[str]:
        return [each.text for each in await harness.bot_messages()]

    expected = list(texts)
    found = await wait_for(shown, lambda found: found == expected or len(found) > len(expected))
    assert found == expected


def make_outbound(harness: PlatformHarness, text: str, *, delivery: str = "d1") -> Outbound:
    return Outbound(delivery_id=DeliveryId(delivery), address=harness.address(), text=text)


def reply_address(inbound: Inbound) -> Address:
    """Where a reply to it goes."""
    source = inbound.source
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
        reply_to=inbound.message_id,
    )
