"""Waiting for what a door, a vendor or a server does: never for a time, always for a fact."""

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
from holdfast.testing.conformance.ground import Ground
from holdfast.testing.intake import RecordingIntake

PATIENCE = 30  # seconds, for a busy machine; nothing that goes well takes a part of it
_BETWEEN = 0.005

T = TypeVar("T")


async def until(fact: Callable[[], object], *, within: float = PATIENCE) -> None:
    """Something that no event tells has come about."""

    async def ask() -> object:
        return fact()

    await until_told(ask, bool, within=within)


async def until_told(
    ask: Callable[[], Awaitable[T]], wanted: Callable[[T], object], *, within: float = PATIENCE
) -> T:
    """The first answer that is wanted. Fails with the last one that was not."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not wanted(answer := await ask()):
        assert loop.time() < deadline, f"after {within} s it is still {answer!r}"
        await asyncio.sleep(_BETWEEN)  # a vendor tells nobody when something arrives there
    return answer


@asynccontextmanager
async def connected(ground: Ground, intake: RecordingIntake) -> AsyncIterator[None]:
    """The door is connected, in a task of its own as in a gateway: a line that breaks may make its
    context fail, and what is being sent just then still has an outcome. A context that fails in
    any other way fails the check."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with ground.door.connect(intake):
            entered.set()
            await leave.wait()

    holding = asyncio.ensure_future(hold())
    entering = asyncio.ensure_future(entered.wait())
    try:
        both = {holding, entering}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        if holding.done():
            _raise(_failure(holding))
        assert entered.is_set(), f"connecting takes longer than {PATIENCE} s"
        yield
    finally:
        leave.set()
        entering.cancel()
        await _left(holding, at_once=not entered.is_set())
    failure = _failure(holding)
    if not isinstance(failure, ConnectError | SendError | OSError):
        _raise(failure)


async def _left(holding: asyncio.Future[None], *, at_once: bool) -> None:
    """A context that does not close is ended, and fails the check: it would hold up a stop."""
    if at_once:
        holding.cancel()
    await asyncio.wait({holding}, timeout=PATIENCE)
    assert holding.done() or not holding.cancel(), f"leaving takes longer than {PATIENCE} s"


def _failure(holding: asyncio.Future[None]) -> BaseException | None:
    """What a context failed with: a task group shows one error as a group of one."""
    error = None if holding.cancelled() else holding.exception()
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error


def said(intake: RecordingIntake) -> list[Inbound]:
    """What was accepted of others: a vendor may also give a bot what the bot has said."""
    return [each for each in intake.accepted if each.source.author is not Author.OURSELVES]


async def heard(intake: RecordingIntake, *texts: str) -> list[Inbound]:
    """Exactly these were accepted, in this order."""

    async def words() -> list[str]:
        return [each.text for each in said(intake)]

    found = await until_told(words, lambda found: len(found) >= len(texts))
    assert found == list(texts)
    return said(intake)


async def settled(ground: Ground, number: int) -> None:
    """So many messages of people are acknowledged, where the vendor waits for that."""
    if ground.door.capabilities.backlog is Backlog.UNTIL_ACKED:
        assert await until_told(ground.acknowledged, lambda found: found >= number) == number


async def shown(ground: Ground, *texts: str) -> None:
    """Exactly these are the messages of the bot, in this order."""

    async def read() -> list[str]:
        return [each.text for each in await ground.read()]

    wanted = list(texts)
    found = await until_told(read, lambda found: found == wanted or len(found) > len(wanted))
    assert found == wanted


def outbound(ground: Ground, text: str, *, delivery: str = "d1") -> Outbound:
    return Outbound(delivery_id=DeliveryId(delivery), address=ground.address(), text=text)


def where(inbound: Inbound) -> Address:
    """Where an answer to it goes."""
    source = inbound.source
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
        reply_to=inbound.message_id,
    )
