"""The simulated platform in the vendor's own process: no socket, the same promises."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused, Throttled
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Change, Outbound, Receipt
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.held import Held
from holdfast.testing.simulated.events import (
    About,
    Answer,
    Cut,
    Edit,
    Find,
    Outgoing,
    React,
    Typing,
    Update,
    Verdict,
)
from holdfast.testing.simulated.receiver import PLATFORM, Feed
from holdfast.testing.simulated.service import ChatService

T = TypeVar("T")


def capabilities_of(about: About) -> Capabilities:
    return Capabilities(
        backlog=about.backlog,
        idempotent_send=about.idempotent_send,
        lookup=about.lookup,
        max_length=about.max_length,
        settle=about.settle,
        edit=about.edit,
        edit_interval=about.edit_interval,
        typing=about.typing,
        reactions=about.reactions,
        buttons=about.buttons,
        busy_notices=about.busy_notices,
        restart_notices=about.restart_notices,
        alive_within=about.alive_within,
    )


def to_outgoing(outbound: Outbound) -> Outgoing:
    return Outgoing(
        delivery_id=outbound.delivery_id,
        account=outbound.address.account,
        chat_id=outbound.address.chat_id,
        thread_id=outbound.address.thread_id,
        reply_to=outbound.address.reply_to,
        text=outbound.text,
        maybe_repeated=outbound.maybe_repeated,
        choices=outbound.choices,
    )


def to_edit(change: Change) -> Edit:
    return Edit(
        delivery_id=change.delivery_id,
        account=change.address.account,
        message_id=change.platform_message_id,
        text=change.text,
    )


def to_typing(address: Address) -> Typing:
    return Typing(account=address.account, chat_id=address.chat_id, thread_id=address.thread_id)


def to_react(address: Address, message_id: str, sign: str | None) -> React:
    return React(account=address.account, message_id=message_id, sign=sign)


def to_find(delivery_id: DeliveryId, address: Address) -> Find:
    return Find(delivery_id=delivery_id, account=address.account)


def found(answer: Answer) -> Receipt | None:
    """What an answer means to whoever has looked a delivery up."""
    return None if answer.verdict is Verdict.NOT_FOUND else to_receipt(answer)


def to_receipt(answer: Answer) -> Receipt:
    """What an answer means to the sender; raises the `SendError` that it amounts to."""
    match answer:
        case Answer(verdict=Verdict.TAKEN | Verdict.REPEATED, message_id=str(message_id)):
            return Receipt(platform_message_id=message_id)
        case Answer(verdict=Verdict.FLOOD, retry_after=float(seconds)):
            raise Throttled(
                f"the service asks to wait {seconds} s",
                retry_after=seconds,
                whole_account=answer.whole_account,
            )
        case Answer(verdict=Verdict.REFUSED):
            raise Refused(f"the service refused the message: {answer.error}")
        case Answer(verdict=Verdict.UNREACHABLE):
            raise NotConnected(f"the message was not sent: {answer.error}")
    raise OutcomeUnknown("the service gave no receipt; the message may have arrived")


class SimulatedPlatform:
    """A door to a `ChatService` in this process. Capabilities are read when it is built."""

    def __init__(
        self,
        service: ChatService,
        *,
        account: str = "default",
        poll_wait: float = 25.0,
        send_timeout: float = 10.0,
        longest_pause: float = 2.0,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(service.about)
        self._service = service
        self._poll_wait = poll_wait
        self._send_timeout = send_timeout
        self._longest_pause = longest_pause
        self._held = Held[Update]()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        await self.probe()
        intake.proven(self.name, self.account)
        feed = Feed(self, intake=intake, held=self._held, longest_pause=self._longest_pause)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(feed.run(), name=f"feed of {self.name}:{self.account}")
            try:
                yield
            finally:
                running.cancel()

    async def probe(self) -> None:
        await self._comes_through(self._send_timeout)
        self._service.come_in()

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._answered(lambda: self._service.take(to_outgoing(outbound)))

    async def edit(self, change: Change) -> None:
        await self._answered(lambda: self._service.edit(to_edit(change)))

    async def find(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await self._asked(lambda: self._service.find(to_find(delivery_id, address)), found)

    async def typing(self, address: Address) -> None:
        await self._answered(lambda: self._service.typing(to_typing(address)))

    async def react(self, address: Address, message_id: str, sign: str | None) -> None:
        await self._answered(lambda: self._service.react(to_react(address, message_id, sign)))

    async def _answered(self, ask: Callable[[], Answer]) -> Receipt:
        return await self._asked(ask, to_receipt)

    async def _asked(self, ask: Callable[[], Answer], read: Callable[[Answer], T]) -> T:
        # A real send yields before it is written and before its receipt is read; a fake that
        # did neither would hide every race that lives in those two gaps.
        await asyncio.sleep(0)
        answer = ask()
        await asyncio.sleep(0)
        faults = self._service.faults
        unheard = answer.verdict in (Verdict.RECEIPT_LOST, Verdict.MESSAGE_LOST)
        if unheard and (faults.cut is Cut.SILENCE or faults.half_open):
            await asyncio.sleep(self._send_timeout)
        return read(answer)

    async def missed(self, since: int) -> Sequence[Update]:
        await self._comes_through(self._send_timeout)
        return self._service.history(self.account, since=since)

    async def updates(self) -> Sequence[Update]:
        await asyncio.sleep(0)
        limit = self._poll_wait + self._send_timeout
        try:
            async with asyncio.timeout(limit):
                return await self._service.updates(self.account, wait=self._poll_wait)
        except TimeoutError as error:
            raise NotConnected(f"no answer within {limit} s") from error

    async def ack(self, up_to: int) -> None:
        await self._comes_through(self._send_timeout)
        self._service.ack(self.account, up_to=up_to)

    async def _comes_through(self, limit: float) -> None:
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(limit):
                await self._service.comes_through()
        except TimeoutError as error:
            raise NotConnected(f"no answer within {limit} s") from error
