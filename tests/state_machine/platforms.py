"""The platforms of the state machine: one that can be detached from its gateway, one whose replies
are fetched, and a sandbox provider without sandboxes."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager

from holdfast.core.ids import SessionId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.sessions.session import ProcessRow, RunnerRow
from holdfast.testing.simulated.events import SimulatedUpdate
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.receiver import SimulatedReceiver
from holdfast.testing.simulated.service import ChatService


class DetachablePlatform(SimulatedPlatform):
    """The platform of the chat service. Once detached, nothing passes in either direction."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service)
        self.detached = False
        self._never = asyncio.Event()

    def connect(self, intake: Intake) -> AbstractAsyncContextManager[None]:
        return _ReceiverTask(SimulatedReceiver(self, intake=intake))

    async def send(self, outbound: Outbound) -> Receipt:
        await self._check_attached()
        return await super().send(outbound)

    async def edit(self, change: MessageEdit) -> None:
        await self._check_attached()
        await super().edit(change)

    async def show_typing(self, address: Address) -> None:
        await self._check_attached()
        await super().show_typing(address)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        await self._check_attached()
        await super().react(address, message_id, emoji)

    async def updates(self) -> Sequence[SimulatedUpdate]:
        await self._check_attached()
        return await super().updates()

    async def ack(self, up_to: int) -> None:
        await self._check_attached()
        await super().ack(up_to)

    async def _check_attached(self) -> None:
        if self.detached:
            await self._never.wait()


class _ReceiverTask(AbstractAsyncContextManager[None]):
    def __init__(self, feed: SimulatedReceiver) -> None:
        self._feed = feed

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._feed.run(), name="feed")

    async def __aexit__(self, *exc: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


class FetchedApiPlatform:
    """A platform whose replies are fetched, as the API's are; the machine is its client."""

    name = "api"
    account = "default"
    capabilities = Capabilities(fetchable=True)

    def connect(self, intake: Intake) -> AbstractAsyncContextManager[None]:
        return _NoConnection()

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("a fetched reply is never sent")


class _NoConnection(AbstractAsyncContextManager[None]):
    async def __aexit__(self, *exc: object) -> None:
        return None


class NoSandboxes:
    """The sandbox provider of a gateway whose tools need none."""

    name = "runner"

    def sandbox(self, session_id: SessionId, *, shell: str = "") -> Sandbox:
        return None  # type: ignore[return-value]  # no tool here touches it

    async def adopt(
        self, known: Sequence[RunnerRow], *, needed: Collection[SessionId]
    ) -> list[SessionId]:
        return []

    async def end_session(self, session_id: SessionId) -> None: ...
    async def detach(self) -> None: ...
    async def end_all(self) -> None: ...
    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        return []
