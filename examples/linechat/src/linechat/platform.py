"""The linechat platform: an event is acknowledged once it is stored, and the server takes each
delivery id once."""

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
    """One bot. Owns its connection while it is connected, and no other state."""

    name = "linechat"
    capabilities = Capabilities(
        backlog=Backlog.UNTIL_ACKED, idempotent_send=True, max_length=1000, heartbeat_interval=30.0
    )

    def __init__(self, token: Secret, account: str, port: int, *, timeout: float = 5.0) -> None:
        self.account = account
        self._token, self._port, self._timeout = token, port, timeout
        self._writer: asyncio.StreamWriter | None = None
        self._pending: dict[str, asyncio.Future[Frame]] = {}  # requests without a response yet

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await self._log_in(reader)
            events = Events()
            async with asyncio.TaskGroup() as tasks:  # the first that fails ends the context
                work = (self._read(reader, intake, events), self._process(intake, events))
                running = [tasks.create_task(each) for each in (*work, self._ping(intake))]
                try:
                    yield
                finally:
                    for task in running:
                        task.cancel()
        finally:
            self._writer.close()
            self._writer = None
            for response in self._pending.values():
                response.cancel()

    async def _log_in(self, reader: asyncio.StreamReader) -> None:
        self._write({"bot": self._token.reveal()})
        welcome = json.loads(await reader.readline() or "{}")
        if "no" in welcome:
            raise errors.ConnectRefused(welcome["no"], remedy="The server prints the right token.")
        if not welcome:
            raise errors.AccountDisconnected("the server closed the connection during login")

    async def _ping(self, intake: Intake) -> None:
        intake.report_alive(self.name, self.account)  # the welcome was a response
        while True:
            await asyncio.sleep(self.capabilities.heartbeat_interval / 3)
            self._write({"ping": "heartbeat"})

    async def _read(self, reader: asyncio.StreamReader, intake: Intake, events: Events) -> None:
        """Never waits for the store: responses to our requests come over the same connection."""
        while line := await reader.readline():
            intake.report_alive(self.name, self.account)
            frame = json.loads(line)
            if "event" in frame:
                events.put_nowait(frame)
            elif (response := self._pending.pop(frame["re"], None)) is not None:
                response.set_result(frame)
        raise errors.AccountDisconnected("the server closed the connection")

    async def _process(self, intake: Intake, events: Events) -> None:
        """In order; each event is retried until it is stored, and only then acknowledged."""
        while True:
            event = await events.get()
            # No event tells when a full disk has space again, hence the delay.
            while not await _stored(intake, self._inbound(event)):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            self._write({"ack": event["event"]})

    def _inbound(self, event: Frame) -> Inbound:
        replied = event["reply_to"]
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
            mentioned=event["mention"],
            quoted=replied and Quote(text=replied["text"], ours=event["ours"]),
        )

    async def probe(self) -> None:
        await self._request("probe", {"ping": "probe"})

    async def send(self, outbound: Outbound) -> Receipt:
        """The server takes a delivery id once, so `may_be_duplicate` need not be shown."""
        name, to = outbound.delivery_id, outbound.address
        message = {"chat": to.chat_id, "text": outbound.text, "reply_to": to.reply_to}
        match await self._request(name, {"send": name, **message}):
            case {"wait": seconds}:
                raise errors.Throttled("linechat limits the rate of messages", retry_after=seconds)
            case {"no": why}:
                raise errors.SendRejected(f"linechat refused the message: {why}")
            case response:
                return Receipt(platform_message_id=response["id"])

    async def _request(self, name: str, frame: Frame) -> Frame:
        response: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._write(frame)
        self._pending[name] = response
        await asyncio.wait({response}, timeout=self._timeout)
        self._pending.pop(name, None)
        if not response.done() or response.cancelled():
            raise errors.OutcomeUnknown("linechat sent no receipt; the message may have arrived")
        return response.result()

    def _write(self, frame: Frame) -> None:
        if self._writer is None:
            raise errors.NotConnected("not connected to linechat; nothing was sent")
        self._writer.write(json.dumps(frame).encode() + b"\n")


async def _stored(intake: Intake, inbound: Inbound) -> bool:
    try:
        await intake.accept(inbound)
    except errors.NotAllowed:
        return True  # acknowledged too (also `NotAddressed`): else the server sends it for ever
    except (errors.StoreError, errors.IntakeClosed):
        return False
    return True
