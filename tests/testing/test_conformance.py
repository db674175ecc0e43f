"""Tests the conformance suite itself: a platform that breaks a promise fails its check."""

import ast
import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from tests.testing.simulated.harness import SimulatedHarness

import holdfast
from holdfast.core.errors import (
    ConnectError,
    ConnectRefused,
    EditRefused,
    OutcomeUnknown,
    SendError,
    SendRejected,
    StoreError,
)
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.outbox import MessageEdit, Outbound, Receipt
from holdfast.core.messages.source import Attachment, Author
from holdfast.core.ports.platform import Intake
from holdfast.testing.conformance import CHECKS, FaultProxy
from holdfast.testing.simulated.events import SimulatedUpdate
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService

SOURCE = Path(holdfast.__file__).parent


class CorrectPlatform(SimulatedPlatform):
    """A platform that keeps its promises; each subclass breaks one."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service, longest_delay=0.1, send_timeout=0.2)


class AcksTooEarly(CorrectPlatform):
    """Acknowledges an update before it is stored."""

    async def updates(self) -> Sequence[SimulatedUpdate]:
        updates = await super().updates()
        for update in updates:
            await self.ack(update.id)
        return updates


class ChangingIntake:
    """An intake that changes each message before it passes it on."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.cursor, self.watch, self.wait_for_end = (
            intake.cursor,
            intake.watch,
            intake.wait_for_end,
        )
        self.report_alive, self.report_lost = intake.report_alive, intake.report_lost

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        return await self._intake.accept(self.changed(inbound), attachments)

    def changed(self, inbound: Inbound) -> Inbound:
        return inbound


class TakesBotsForPeople(CorrectPlatform):
    """Takes programs for people."""

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        class Mistaken(ChangingIntake):
            def changed(self, inbound: Inbound) -> Inbound:
                person = msgspec.structs.replace(inbound.source, author=Author.PERSON)
                return msgspec.structs.replace(inbound, source=person)

        async with super().connect(Mistaken(intake)):
            yield


class ChangesEventIds(CorrectPlatform):
    """Gives an event a new id each time it comes."""

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        numbers = itertools.count()

        class Renaming(ChangingIntake):
            def changed(self, inbound: Inbound) -> Inbound:
                return msgspec.structs.replace(inbound, event_id=f"e{next(numbers)}")

        async with super().connect(Renaming(intake)):
            yield

    async def ack(self, up_to: int) -> None:
        """The first is lost on its way, and so the event comes again."""
        if up_to > 1:
            await super().ack(up_to)


class DropsUnstored(CorrectPlatform):
    """Loses what could not be stored."""

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        class Losing(ChangingIntake):
            async def accept(
                self, inbound: Inbound, attachments: Sequence[Attachment] = ()
            ) -> Accepted:
                try:
                    return await super().accept(inbound, attachments)
                except StoreError:
                    return Accepted(row=None, duplicate=False, route_session=None)  # type: ignore[arg-type]  # not read

        async with super().connect(Losing(intake)):
            yield


class ReportsUnknownOutcome(CorrectPlatform):
    """Never knows what became of a message."""

    async def send(self, outbound: Outbound) -> Receipt:
        try:
            return await super().send(outbound)
        except SendError as error:
            raise OutcomeUnknown("who knows") from error


class RetriesRefusedLogin(CorrectPlatform):
    """Takes a refusal for something that passes."""

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        try:
            async with super().connect(intake):
                yield
        except ConnectRefused as error:
            raise ConnectError("try again") from error


class EditsByResending(CorrectPlatform):
    """Shows an edit as another message."""

    async def edit(self, change: MessageEdit) -> None:
        await self.send(
            Outbound(delivery_id=change.delivery_id, address=change.address, text=change.text)
        )


class RetriesEditsForever(CorrectPlatform):
    """Takes an edit that will never be accepted for one that may be."""

    async def edit(self, change: MessageEdit) -> None:
        try:
            await super().edit(change)
        except EditRefused as error:
            raise SendRejected("not now") from error


class DeclaresTooMuch(CorrectPlatform):
    """Declares more than its vendor can do."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service)
        more = self.capabilities.max_length or 0
        self.capabilities = msgspec.structs.replace(self.capabilities, max_length=more + 1)


class AlwaysReportsAlive(CorrectPlatform):
    """Reports that it is alive, whatever its vendor says."""

    async def probe(self) -> None:
        if not self._service.faults.half_open:
            await super().probe()


@pytest.mark.parametrize(
    ("broken_type", "promise"),
    [
        (AcksTooEarly, "nothing_is_acknowledged_before_intake_has_stored_it"),
        (TakesBotsForPeople, "a_bot_is_distinguished_from_a_person"),
        (ChangesEventIds, "a_message_sent_while_disconnected_reaches_intake_once"),
        (DropsUnstored, "a_message_that_cannot_be_stored_is_retried_in_order"),
        (ReportsUnknownOutcome, "a_permanent_refusal_is_reported_as_one"),
        (ReportsUnknownOutcome, "a_rate_limit_says_how_long_to_wait_and_nothing_was_sent"),
        (RetriesRefusedLogin, "bad_credentials_are_refused_permanently"),
        (RetriesRefusedLogin, "bad_credentials_block_the_account_with_a_remedy"),
        (EditsByResending, "a_sent_message_can_be_edited"),
        (
            RetriesEditsForever,
            "an_edit_of_a_deleted_message_says_that_no_edit_will_be_accepted",
        ),
        (DeclaresTooMuch, "a_message_of_maximum_length_is_accepted_even_when_marked_as_repeated"),
        (AlwaysReportsAlive, "a_half_open_connection_is_not_reported_as_alive"),
    ],
)
async def test_a_platform_that_breaks_a_promise_fails_its_check(
    broken_type: type[CorrectPlatform], promise: str
) -> None:
    (check,) = [each for each in CHECKS if str(each) == promise]
    correct, broken = _service(), _service()
    await check(SimulatedHarness(correct, CorrectPlatform(correct), over_network=False))
    failures = (AssertionError, pytest.fail.Exception, SendError, ConnectError, TimeoutError)
    with pytest.raises(failures):
        async with asyncio.timeout(1):  # a lost message would be waited for in vain
            await check(SimulatedHarness(broken, broken_type(broken), over_network=False))


def _service() -> ChatService:
    return ChatService(max_length=400, edit=True, alive_within=90.0)


def test_every_check_has_a_name_of_its_own_and_the_topics_are_all_there() -> None:
    assert len({str(each) for each in CHECKS}) == len(CHECKS) >= 28
    folder = SOURCE / "testing" / "conformance"
    written = [node.name for path in folder.glob("*.py") for node in _checks_in(path)]
    assert sorted(written) == sorted(map(str, CHECKS))


def _checks_in(path: Path) -> list[ast.AsyncFunctionDef]:
    nodes = ast.parse(path.read_text()).body
    functions = [node for node in nodes if isinstance(node, ast.AsyncFunctionDef)]
    return [
        node for node in functions if "ConformanceCheck" in map(ast.unparse, node.decorator_list)
    ]


def test_nothing_that_a_gateway_runs_imports_the_suite() -> None:
    """It needs pytest, which is not installed where a gateway runs."""
    own = SOURCE / "testing" / "conformance"
    others = [path for path in SOURCE.rglob("*.py") if own not in path.parents]
    assert [path for path in others if "conformance" in path.read_text()] == []


@dataclass
class Echo:
    """A server that says back what it hears, and counts it."""

    received: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            self.received += 1
            writer.write(line)
        writer.close()


async def test_a_proxy_simulates_connection_faults() -> None:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    async with server, FaultProxy(server.sockets[0].getsockname()[1]) as proxy:
        assert await _connect_and_exchange(proxy.port) == b"hello\n"
        proxy.drop_next_response()
        assert await _connect_and_exchange(proxy.port) == b""
        assert echo.received == 2
        assert await _connect_and_exchange(proxy.port) == b"hello\n"
        proxy.refuse_connections()
        assert await _connect_and_exchange(proxy.port) == b""
        assert echo.received == 3
        proxy.restore()
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await _exchange(reader, writer) == b"hello\n"
        proxy.go_silent()
        asking = asyncio.create_task(_exchange(reader, writer))
        await asyncio.sleep(0.05)
        assert not asking.done()
        assert echo.received == 4
        proxy.restore()
        assert await asking == b""
        writer.close()
        assert await _connect_and_exchange(proxy.port) == b"hello\n"


async def _connect_and_exchange(port: int) -> bytes:
    """What comes back; nothing: the line was cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await _exchange(reader, writer)
    finally:
        writer.close()


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    try:
        writer.write(b"hello\n")
        return await reader.readline()
    except ConnectionError:
        return b""
