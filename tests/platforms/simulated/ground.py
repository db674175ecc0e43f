"""The simulated vendor as the conformance suite meets it, in this process and over HTTP."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core.messages.outbox import Address, SentFile
from holdfast.core.messages.source import Author, ChatType
from holdfast.core.ports.capabilities import Backlog
from holdfast.core.ports.protocols import Platform
from holdfast.testing.conformance import Ground, Person, Place, Shown, Trouble, until
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.events import Faults, Revise, Say, Sent
from holdfast.testing.simulated.in_process import SimulatedPlatform
from holdfast.testing.simulated.remote import RemoteSimulatedPlatform
from holdfast.testing.simulated.server import serving
from holdfast.testing.simulated.service import ChatService

_NAMES = {Person.ANN: "ann", Person.BOB: "bob", Person.PROGRAM: "beeper"}
_FAULTS = {
    Trouble.FLOOD: Faults(floods=1, retry_after=7.0),
    Trouble.REFUSED: Faults(refusals=1),
    Trouble.RECEIPT_LOST: Faults(lost_receipts=1),
    Trouble.SHUT_OUT: Faults(shut_out="the token was revoked"),
    Trouble.AWAY: Faults(disconnected=True),
    Trouble.SILENT: Faults(half_open=True),
    Trouble.WELL: Faults(),
}


class SimulatedGround(Ground):
    shows_answers = True

    def __init__(self, service: ChatService, door: Platform, *, has_line: bool) -> None:
        self.door = door
        self.has_line = has_line
        self._service = service

    def address(self) -> Address:
        return Address(platform="simulated", account="default", chat_id="ann")

    async def say(
        self,
        text: str,
        *,
        by: Person = Person.ANN,
        place: Place = Place.DM,
        named: bool = False,
        answers: str | None = None,
        files: Sequence[SentFile] = (),
    ) -> str:
        alone = place is Place.DM
        said = Say(
            chat=_NAMES[by] if alone else "family",
            user=_NAMES[by],
            text=text,
            chat_type=ChatType.DM if alone else ChatType.GROUP,
            mentions=named,
            reply_to=answers,
            author=Author.BOT if by is Person.PROGRAM else Author.PERSON,
        )
        await self._listened_to()
        return self._service.say(said)

    async def _listened_to(self) -> None:
        """A vendor that keeps nothing for a bot that is away tells nobody what it was told just
        before the bot had come."""
        backlog = self.door.capabilities.backlog
        if backlog is Backlog.NONE and not self._service.faults.disconnected:
            await until(lambda: self._service.listens(self.door.account))

    async def read(self) -> Sequence[Shown]:
        return [_shown(each) for each in self._service.sent]

    async def acknowledged(self) -> int:
        return sum(each.acked for each in self._service.ledger().said)

    async def revise(self, name: str, text: str) -> None:
        self._service.revise(Revise(message_id=name, text=text))

    async def press(self, label: str) -> None:
        """Here a press is said as any other word: the bot is named by it."""
        (choice,) = [
            each for each in self._service.sent[-1].outgoing.choices if each.label == label
        ]
        await self.say(choice.says, named=True)

    async def signs(self, name: str) -> Sequence[str]:
        (said,) = [each for each in self._service.ledger().said if each.message_id == name]
        return list(said.signs.values())

    async def trouble(self, trouble: Trouble) -> None:
        self._service.set_faults(_FAULTS[trouble])


def _shown(sent: Sent) -> Shown:
    """The vendor itself marks what may be there twice."""
    outgoing = sent.outgoing
    return Shown(
        text=f"(again?) {sent.text}" if outgoing.maybe_repeated else sent.text,
        place=Place.GROUP if outgoing.chat_id == "family" else Place.DM,
        choices=tuple(each.label for each in outgoing.choices),
        answers=outgoing.reply_to,
    )


def _service(**about: Any) -> ChatService:
    can = {"edit": True, "typing": True, "buttons": True, "relay": True, "alive_within": 90.0}
    can["reactions"] = True
    return ChatService(max_length=4096, **{**can, **about})


@asynccontextmanager
async def in_process() -> AsyncIterator[Ground]:
    service = _service()
    door = SimulatedPlatform(service, longest_pause=0.1, send_timeout=0.6)
    yield SimulatedGround(service, door, has_line=False)


@asynccontextmanager
async def poor() -> AsyncIterator[Ground]:
    """One that knows a delivery again, and can do little else."""
    service = ChatService(max_length=512, idempotent_send=True)
    yield SimulatedGround(service, SimulatedPlatform(service, longest_pause=0.1), has_line=False)


@asynccontextmanager
async def forgetful() -> AsyncIterator[Ground]:
    """One that gives each message once, and only to who is there."""
    service = _service(backlog=Backlog.NONE)
    door = SimulatedPlatform(service, longest_pause=0.1, send_timeout=0.6)
    yield SimulatedGround(service, door, has_line=False)


@asynccontextmanager
async def over_http() -> AsyncIterator[Ground]:
    service = _service(lookup=True)
    async with serving(service) as base_url:
        door = RemoteSimulatedPlatform(
            base_url, longest_pause=0.1, send_timeout=2.0, hello_timeout=2.0
        )
        async with door.connect(RecordingIntake()):
            pass  # it has asked by then what its vendor can do
        yield SimulatedGround(service, door, has_line=True)
