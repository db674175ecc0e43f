"""The conformance suite itself: doors that break a promise fail it, and each check says of what."""

import ast
import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from tests.platforms.simulated.ground import SimulatedGround

import holdfast
from holdfast.core.errors import ConnectError, ConnectRefused, OutcomeUnknown, SendError, StoreError
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.outbox import MessageEdit, Outbound, Receipt
from holdfast.core.messages.source import Attachment, Author
from holdfast.core.ports.platform import Intake
from holdfast.testing.conformance import CHECKS, FaultProxy
from holdfast.testing.simulated.events import SimulatedUpdate
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

SOURCE = Path(holdfast.__file__).parent


class Door(SimulatedPlatform):
    """A door that keeps its promises, for others to break."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, longest_delay=0.1, send_timeout=0.2)


class Hasty(Door):
    """Acknowledges what it is given before anybody has kept it."""

    async def updates(self) -> Sequence[SimulatedUpdate]:
        updates = await super().updates()
        for update in updates:
            await self.ack(update.id)
        return updates


class Heard:
    """An intake as a faulty door hands it on to itself."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.cursor, self.proven, self.lost = intake.cursor, intake.report_alive, intake.report_lost
        self.end_of, self.watch = intake.wait_for_end, intake.watch

    async def accept(self, inbound: Inbound, attached: Sequence[Attachment] = ()) -> Accepted:
        return await self._intake.accept(self.told(inbound), attached)

    def told(self, inbound: Inbound) -> Inbound:
        return inbound


class Credulous(Door):
    """Takes programs for people."""

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        class Mistaken(Heard):
            def told(self, inbound: Inbound) -> Inbound:
                person = msgspec.structs.replace(inbound.source, author=Author.PERSON)
                return msgspec.structs.replace(inbound, source=person)

        async with super().connect(Mistaken(intake)):
            yield


class Forgetful(Door):
    """Has a new name for an event each time that it comes."""

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        numbers = itertools.count()

        class Renaming(Heard):
            def told(self, inbound: Inbound) -> Inbound:
                return msgspec.structs.replace(inbound, event_id=f"e{next(numbers)}")

        async with super().connect(Renaming(intake)):
            yield

    async def ack(self, up_to: int) -> None:
        """The first is lost on its way, and so the event comes again."""
        if up_to > 1:
            await super().ack(up_to)


class Careless(Door):
    """Loses what could not be kept."""

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        class Losing(Heard):
            async def accept(
                self, inbound: Inbound, attached: Sequence[Attachment] = ()
            ) -> Accepted:
                try:
                    return await super().accept(inbound, attached)
                except StoreError:
                    return Accepted(row=None, duplicate=False, route_session=None)  # type: ignore[arg-type]  # nobody reads it

        async with super().connect(Losing(intake)):
            yield


class Vague(Door):
    """Never knows what became of a message."""

    async def send(self, outbound: Outbound) -> Receipt:
        try:
            return await super().send(outbound)
        except SendError as error:
            raise OutcomeUnknown("who knows") from error


class Stubborn(Door):
    """Takes a refusal for something that passes."""

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        try:
            async with super().connect(intake):
                yield
        except ConnectRefused as error:
            raise ConnectError("try again") from error


class Doubling(Door):
    """Shows a change as another message."""

    async def edit(self, change: MessageEdit) -> None:
        await self.send(
            Outbound(delivery_id=change.delivery_id, address=change.address, text=change.text)
        )


class Boastful(Door):
    """Says of itself more than its vendor can do."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service)
        more = self.capabilities.max_length or 0
        self.capabilities = msgspec.structs.replace(self.capabilities, max_length=more + 1)


class Sworn(Door):
    """Proves itself, whatever its vendor says."""

    async def probe(self) -> None:
        if not self._service.faults.half_open:
            await super().probe()


@pytest.mark.parametrize(
    ("door", "promise"),
    [
        (Hasty, "nothing_is_acknowledged_before_intake_has_it"),
        (Credulous, "a_program_is_told_from_a_person"),
        (Forgetful, "what_was_said_while_nobody_listened_is_handed_over_once"),
        (Careless, "what_cannot_be_kept_now_comes_again_and_in_order"),
        (Vague, "what_is_refused_for_good_says_so"),
        (Vague, "a_flood_says_how_long_to_wait_and_nothing_was_taken"),
        (Stubborn, "credentials_that_do_not_hold_are_refused_for_good"),
        (Doubling, "what_was_sent_can_be_changed"),
        (Boastful, "a_message_of_the_greatest_length_is_taken_also_when_it_is_marked"),
        (Sworn, "a_line_that_only_looks_whole_proves_nothing"),
    ],
)
async def test_a_door_that_breaks_a_promise_fails_its_check(door: type[Door], promise: str) -> None:
    (check,) = [each for each in CHECKS if str(each) == promise]
    kept, broken = _service(), _service()
    await check(SimulatedGround(kept, Door(kept), has_line=False))
    failures = (AssertionError, pytest.fail.Exception, SendError, ConnectError, TimeoutError)
    with pytest.raises(failures):
        async with asyncio.timeout(1):  # what is lost is waited for in vain
            await check(SimulatedGround(broken, door(broken), has_line=False))


def _service() -> ChatService:
    return ChatService(max_length=400, edit=True, alive_within=90.0)


def test_every_check_has_a_name_of_its_own_and_the_topics_are_all_there() -> None:
    assert len({str(each) for each in CHECKS}) == len(CHECKS) >= 28
    folder = SOURCE / "platforms" / "conformance"
    written = [node.name for path in folder.glob("*.py") for node in _checks_in(path)]
    assert sorted(written) == sorted(map(str, CHECKS))


def _checks_in(path: Path) -> list[ast.AsyncFunctionDef]:
    nodes = ast.parse(path.read_text()).body
    functions = [node for node in nodes if isinstance(node, ast.AsyncFunctionDef)]
    return [node for node in functions if "Check" in map(ast.unparse, node.decorator_list)]


def test_nothing_that_a_gateway_runs_imports_the_suite() -> None:
    """It needs pytest, which nobody installs to run a gateway."""
    own = SOURCE / "platforms" / "conformance"
    others = [path for path in SOURCE.rglob("*.py") if own not in path.parents]
    assert [path for path in others if "conformance" in path.read_text()] == []


@dataclass
class Echo:
    """A server that says back what it hears, and counts it."""

    heard: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            self.heard += 1
            writer.write(line)
        writer.close()


async def test_a_proxy_makes_the_faults_of_a_line() -> None:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    async with server, FaultProxy(server.sockets[0].getsockname()[1]) as proxy:
        assert await _asked(proxy.port) == b"hello\n"
        proxy.drop_next_response()
        assert await _asked(proxy.port) == b""
        assert echo.heard == 2
        assert await _asked(proxy.port) == b"hello\n"
        proxy.refuse_connections()
        assert await _asked(proxy.port) == b""
        assert echo.heard == 3
        proxy.restore()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await _said(reader, writer) == b"hello\n"
        proxy.go_silent()
        asking = asyncio.create_task(_said(reader, writer))
        await asyncio.sleep(0.05)
        assert not asking.done()
        assert echo.heard == 4
        proxy.restore()
        assert await asking == b""
        writer.close()
        assert await _asked(proxy.port) == b"hello\n"


async def _asked(port: int) -> bytes:
    """What comes back; nothing: the line was cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await _said(reader, writer)
    finally:
        writer.close()


async def _said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    try:
        writer.write(b"hello\n")
        return await reader.readline()
    except ConnectionError:
        return b""
