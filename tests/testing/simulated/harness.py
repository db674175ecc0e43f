"""The conformance harness for the simulated platform, in this process and over HTTP."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.ports.capabilities import Backlog
from holdfast.core.ports.platform import Platform
from holdfast.testing.conformance import (
    ChatKind,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
    wait_until,
)
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.events import BotMessage, Faults, ReviseRequest, SayRequest
from holdfast.testing.simulated.platform import RemoteSimulatedPlatform, SimulatedPlatform
from holdfast.testing.simulated.server import serve
from holdfast.testing.simulated.service import ChatService

_NAMES = {Participant.ANN: "ann", Participant.BOB: "bob", Participant.PROGRAM: "beeper"}
_FAULTS = {
    VendorFault.RATE_LIMIT: Faults(floods=1, retry_after=7.0),
    VendorFault.REFUSED: Faults(refusals=1),
    VendorFault.RECEIPT_LOST: Faults(lost_receipts=1),
    VendorFault.BAD_CREDENTIALS: Faults(connect_refused="the token was revoked"),
    VendorFault.UNREACHABLE: Faults(disconnected=True),
    VendorFault.HALF_OPEN: Faults(half_open=True),
    VendorFault.NONE: Faults(),
}


class SimulatedHarness(PlatformHarness):
    shows_replies = True

    def __init__(self, service: ChatService, platform: Platform, *, over_network: bool) -> None:
        self.platform = platform
        self.has_connection = over_network
        self._service = service

    def address(self) -> Address:
        return Address(platform="simulated", account="default", chat_id="ann")

    async def say(
        self,
        text: str,
        *,
        by: Participant = Participant.ANN,
        chat: ChatKind = ChatKind.DM,
        mention: bool = False,
        reply_to: str | None = None,
        files: Sequence[OutboundFile] = (),
    ) -> str:
        alone = chat is ChatKind.DM
        said = SayRequest(
            chat=_NAMES[by] if alone else "family",
            user=_NAMES[by],
            text=text,
            chat_type=ChatType.DM if alone else ChatType.GROUP,
            mentions=mention,
            reply_to=reply_to,
            author=Author.BOT if by is Participant.PROGRAM else Author.PERSON,
        )
        await self._listened_to()
        return self._service.say(said)

    async def _listened_to(self) -> None:
        """A vendor that keeps nothing for a bot that is away does not deliver what was said just
        before the bot connected."""
        backlog = self.platform.capabilities.backlog
        if backlog is Backlog.NONE and not self._service.faults.disconnected:
            await wait_until(lambda: self._service.is_polled(self.platform.account))

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        return [_shown(each) for each in self._service.sent]

    async def acknowledged(self) -> int:
        return sum(each.acked for each in self._service.ledger().said)

    async def edit(self, name: str, text: str) -> None:
        self._service.revise(ReviseRequest(message_id=name, text=text))

    async def delete_answer(self) -> None:
        self._service.delete_sent(self._service.sent[-1].message_id)

    async def press(self, label: str) -> None:
        """Here a press is said as any other word: the bot is named by it."""
        (choice,) = [
            each for each in self._service.sent[-1].outgoing.choices if each.label == label
        ]
        await self.say(choice.value, mention=True)

    async def reactions(self, name: str) -> Sequence[str]:
        (said,) = [each for each in self._service.ledger().said if each.message_id == name]
        return list(said.reactions.values())

    async def set_fault(self, fault: VendorFault) -> None:
        self._service.set_faults(_FAULTS[fault])


def _shown(sent: BotMessage) -> VisibleMessage:
    """The vendor itself marks what may be there twice."""
    outgoing = sent.outgoing
    return VisibleMessage(
        text=f"(again?) {sent.text}" if outgoing.maybe_repeated else sent.text,
        chat=ChatKind.GROUP if outgoing.chat_id == "family" else ChatKind.DM,
        buttons=tuple(each.label for each in outgoing.choices),
        reply_to=outgoing.reply_to,
    )


def _service(**about: Any) -> ChatService:
    can = {"edit": True, "typing": True, "buttons": True, "relay": True, "alive_within": 90.0}
    can["reactions"] = True
    return ChatService(max_length=4096, **{**can, **about})


@asynccontextmanager
async def in_process() -> AsyncIterator[PlatformHarness]:
    service = _service()
    platform = SimulatedPlatform(service, longest_delay=0.1, send_timeout=0.6)
    yield SimulatedHarness(service, platform, over_network=False)


@asynccontextmanager
async def minimal() -> AsyncIterator[PlatformHarness]:
    """One that knows a delivery again, and can do little else."""
    service = ChatService(max_length=512, idempotent_send=True)
    yield SimulatedHarness(
        service, SimulatedPlatform(service, longest_delay=0.1), over_network=False
    )


@asynccontextmanager
async def without_backlog() -> AsyncIterator[PlatformHarness]:
    """One that gives each message once, and only to who is there."""
    service = _service(backlog=Backlog.NONE)
    platform = SimulatedPlatform(service, longest_delay=0.1, send_timeout=0.6)
    yield SimulatedHarness(service, platform, over_network=False)


@asynccontextmanager
async def over_http() -> AsyncIterator[PlatformHarness]:
    service = _service(lookup=True)
    async with serve(service) as base_url:
        platform = RemoteSimulatedPlatform(
            base_url, longest_delay=0.1, send_timeout=2.0, connect_timeout=2.0
        )
        async with platform.connect(RecordingIntake()):
            pass  # it has asked by then what its vendor can do
        yield SimulatedHarness(service, platform, over_network=True)
