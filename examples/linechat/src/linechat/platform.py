"""The door at work: events are acknowledged once they are kept, messages are known by their id."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.core import errors
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.messages.source import Author, ChatType, Quote, Source
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.platform import Intake
from holdfast.core.secrets import Secret

Frame = dict[str, Any]
Events = asyncio.Queue[Frame]


class Linechat:
    """One bot. It owns its line while it is connected, and keeps nothing else."""

    name = "linechat"
    capabilities = Capabilities(
        backlog=Backlog.UNTIL_ACKED, idempotent_send=True, max_length=1000, alive_within=30.0
    )

    def __init__(self, token: Secret, account: str, port: int, *, limit: float = 5.0) -> None:
        self.account = account
        self._token, self._port, self._limit = token, port, limit
        self._writer: asyncio.StreamWriter | None = None
        self._asked: dict[str, asyncio.Future[Frame]] = {}  # what no answer has come to yet

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await self._greet(reader)
            events = Events()
            async with asyncio.TaskGroup() as tasks:  # the first that fails ends the context
                work = (self._hear(reader, intake, events), self._take(intake, events))
                running = [tasks.create_task(each) for each in (*work, self._live(intake))]
                try:
                    yield
                finally:
                    for task in running:
                        task.cancel()
        finally:
            self._writer.close()
            self._writer = None
            for answer in self._asked.values():
                answer.cancel()

    async def _greet(self, reader: asyncio.StreamReader) -> None:
        self._write({"bot": self._token.reveal()})
        welcome = json.loads(await reader.readline() or "{}")
        if "no" in welcome:
            raise errors.ConnectRefused(welcome["no"], remedy="The server prints the right token.")
        if not welcome:
            raise errors.AccountDisconnected("the server has closed the line at once")

    async def _live(self, intake: Intake) -> None:
        intake.proven(self.name, self.account)  # the welcome was an answer
        while True:
            await asyncio.sleep(self.capabilities.alive_within / 3)
            self._write({"ping": "life"})

    async def _hear(self, reader: asyncio.StreamReader, intake: Intake, events: Events) -> None:
        """Waits for nothing but the line: over it come the answers to what we send, too."""
        while line := await reader.readline():
            intake.proven(self.name, self.account)
            frame = json.loads(line)
            if "event" in frame:
                events.put_nowait(frame)
            elif (answer := self._asked.pop(frame["re"], None)) is not None:
                answer.set_result(frame)
        raise errors.AccountDisconnected("the server has closed the line")

    async def _take(self, intake: Intake, events: Events) -> None:
        """In order, each again until it is kept. Only then is it acknowledged."""
        while True:
            event = await events.get()
            # Nobody tells when a full disk has room again, hence the pause.
            while not await _kept(intake, self._inbound(event)):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            self._write({"ack": event["event"]})

    def _inbound(self, event: Frame) -> Inbound:
        answers = event["answers"]
        return Inbound(
            source=Source(
                platform=self.name,
                account=self.account,
                chat_id=event["chat"],
                chat_type=ChatType.GROUP if event["chat"].startswith("#") else ChatType.DM,
                user_id=event["by"],
                author=Author.BOT if event["program"] else Author.PERSON,
            ),
            event_id=str(event["event"]),
            message_id=event["id"],
            text=event["text"],
            mentioned=event["named"],
            quoted=answers and Quote(text=answers["text"], ours=event["ours"]),
        )

    async def probe(self) -> None:
        await self._ask("probe", {"ping": "probe"})

    async def send(self, outbound: Outbound) -> Receipt:
        """The server takes a delivery once: one that may be there already need not say so."""
        name, to = outbound.delivery_id, outbound.address
        said = {"chat": to.chat_id, "text": outbound.text, "answers": to.reply_to}
        match await self._ask(name, {"send": name, **said}):
            case {"wait": seconds}:
                raise errors.Throttled("linechat asks to wait", retry_after=seconds)
            case {"no": why}:
                raise errors.SendRejected(f"linechat does not take the message: {why}")
            case answer:
                return Receipt(platform_message_id=answer["id"])

    async def _ask(self, name: str, frame: Frame) -> Frame:
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._write(frame)
        self._asked[name] = answer
        await asyncio.wait({answer}, timeout=self._limit)
        self._asked.pop(name, None)
        if not answer.done() or answer.cancelled():
            raise errors.OutcomeUnknown("linechat gave no receipt; the message may have arrived")
        return answer.result()

    def _write(self, frame: Frame) -> None:
        if self._writer is None:
            raise errors.NotConnected("there is no line to linechat; nothing was sent")
        self._writer.write(json.dumps(frame).encode() + b"\n")


async def _kept(intake: Intake, inbound: Inbound) -> bool:
    try:
        await intake.accept(inbound)
    except errors.NotAllowed:
        return True  # also what is not meant: what is not acknowledged comes back for ever
    except (errors.StoreError, errors.IntakeClosed):
        return False
    return True
