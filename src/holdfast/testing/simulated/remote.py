"""The simulated platform over HTTP: a vendor in another process, reconnected to by itself."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from holdfast.core.errors import AccountHeld, ConnectRefused, NotConnected, OutcomeUnknown
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Change, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.held import Held
from holdfast.testing.simulated.events import (
    About,
    Answer,
    Edit,
    Find,
    Outgoing,
    React,
    ShutOut,
    Typing,
    Update,
)
from holdfast.testing.simulated.in_process import (
    capabilities_of,
    found,
    to_edit,
    to_find,
    to_outgoing,
    to_react,
    to_receipt,
    to_typing,
)
from holdfast.testing.simulated.receiver import PLATFORM, Feed

T = TypeVar("T")

_ANSWERED = frozenset({200, 400, 429, 503})


class RemoteSimulatedPlatform:
    """A door to the vendor at `base_url`. It owns its connections while it is connected.

    `capabilities` become the vendor's own as soon as it has been asked, which connecting does.
    """

    def __init__(
        self,
        base_url: str,
        *,
        account: str = "default",
        poll_wait: float = 25.0,
        send_timeout: float = 10.0,
        hello_timeout: float = 5.0,
        longest_pause: float = 2.0,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        # Nobody is told anything in a vendor's way that is not known yet.
        self.capabilities = Capabilities(backlog=Backlog.UNTIL_ACKED, busy_notices=False)
        self._base_url = base_url.rstrip("/")
        self._poll_wait = poll_wait
        self._send_timeout = send_timeout
        self._hello_timeout = hello_timeout
        self._longest_pause = longest_pause
        self._held = Held[Update]()
        self._http: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        """A cut line is mended here, for as long as the vendor is not away for good; whether it
        is, whoever connects finds out by the silence."""
        feed = Feed(self, intake=intake, held=self._held, longest_pause=self._longest_pause)
        async with aiohttp.ClientSession() as self._http:
            await self.probe()
            intake.proven(self.name, self.account)
            async with asyncio.TaskGroup() as tasks:
                name = f"feed of {self.name}:{self.account}"
                running = tasks.create_task(feed.run(), name=name)
                try:
                    yield
                finally:
                    running.cancel()

    async def probe(self) -> None:
        """Ask the vendor what it can do, which delivery goes by as soon as it is connected."""
        status, answer = await self._asked("GET", "/about", limit=self._hello_timeout)
        if status in (401, 409):
            told = msgspec.json.decode(answer, type=ShutOut)
            if status == 409:
                raise AccountHeld(told.error, holder=told.holder)
            raise ConnectRefused(told.error, remedy=told.remedy)
        self.capabilities = capabilities_of(self._read("/about", status, answer, kind=About))

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._answered("/send", to_outgoing(outbound))

    async def edit(self, change: Change) -> None:
        await self._answered("/edit", to_edit(change))

    async def find(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return found(await self._answer_of("/find", to_find(delivery_id, address)))

    async def typing(self, address: Address) -> None:
        await self._answered("/typing", to_typing(address))

    async def react(self, address: Address, message_id: str, sign: str | None) -> None:
        await self._answered("/react", to_react(address, message_id, sign))

    async def _answered(self, path: str, content: Outgoing | Edit | Typing | React) -> Receipt:
        return to_receipt(await self._answer_of(path, content))

    async def _answer_of(
        self, path: str, content: Outgoing | Edit | Find | Typing | React
    ) -> Answer:
        url, body = self._base_url + path, msgspec.json.encode(content)
        try:
            status, answer = await self._call("POST", path, body=body, limit=self._send_timeout)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise OutcomeUnknown(f"{url} gave no receipt: {error!r}") from error
        if status not in _ANSWERED:
            raise OutcomeUnknown(f"{url} answered {status}: it may have arrived")
        try:
            return msgspec.json.decode(answer, type=Answer)
        except msgspec.MsgspecError as error:
            raise OutcomeUnknown(f"{url} answered nonsense: {error}") from error

    async def missed(self, since: int) -> Sequence[Update]:
        query = urlencode({"account": self.account, "since": since})
        return await self._ask(
            "GET", f"/history?{query}", kind=list[Update], limit=self._send_timeout
        )

    async def updates(self) -> Sequence[Update]:
        query = urlencode({"account": self.account, "wait": self._poll_wait})
        limit = self._poll_wait + self._send_timeout
        return await self._ask("GET", f"/updates?{query}", kind=list[Update], limit=limit)

    async def ack(self, up_to: int) -> None:
        body = msgspec.json.encode({"account": self.account, "up_to": up_to})
        await self._ask("POST", "/ack", kind=dict[str, str], body=body, limit=self._send_timeout)

    async def _ask(
        self, method: str, path: str, *, kind: type[T], limit: float, body: bytes = b""
    ) -> T:
        """A call that may be made again, so that every failure of it is a cut line."""
        status, answer = await self._asked(method, path, limit=limit, body=body)
        return self._read(path, status, answer, kind=kind)

    async def _asked(
        self, method: str, path: str, *, limit: float, body: bytes = b""
    ) -> tuple[int, bytes]:
        try:
            return await self._call(method, path, body=body, limit=limit)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise NotConnected(f"{self._base_url} gave no good answer: {error!r}") from error

    def _read(self, path: str, status: int, answer: bytes, *, kind: type[T]) -> T:
        if status != 200:
            raise NotConnected(f"{self._base_url}{path} answered {status}: {answer[:200]!r}")
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError as error:
            raise NotConnected(f"{self._base_url}{path} answered nonsense: {error}") from error

    async def _call(
        self, method: str, path: str, *, limit: float, body: bytes = b""
    ) -> tuple[int, bytes]:
        if self._http is None or self._http.closed:
            raise NotConnected("the simulated platform is not connected; nothing was sent")
        timeout = aiohttp.ClientTimeout(total=limit)
        url = self._base_url + path
        try:
            async with self._http.request(method, url, data=body, timeout=timeout) as response:
                return response.status, await response.read()
        except aiohttp.ClientConnectorError as error:
            raise NotConnected(f"{self._base_url} cannot be reached: {error}") from error
