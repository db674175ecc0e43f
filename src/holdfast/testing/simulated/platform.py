"""The simulated platform, in the vendor's own process or over HTTP, with the same promises."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from holdfast.core.errors import (
    AccountInUse,
    ConnectRefused,
    EditRefused,
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    Throttled,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.platform import Intake
from holdfast.platforms.inbound import EventBuffer
from holdfast.testing.simulated.events import (
    ConnectRefusal,
    CutStyle,
    EditRequest,
    FindRequest,
    ReactRequest,
    SendRequest,
    SimulatedUpdate,
    TypingRequest,
    VendorInfo,
    VendorReply,
    VendorVerdict,
)
from holdfast.testing.simulated.receiver import PLATFORM, SimulatedReceiver
from holdfast.testing.simulated.service import ChatService

T = TypeVar("T")

_REPLY_STATUSES = frozenset({200, 400, 429, 503})


def capabilities_of(info: VendorInfo) -> Capabilities:
    return Capabilities(
        backlog=info.backlog,
        idempotent_send=info.idempotent_send,
        lookup=info.lookup,
        max_length=info.max_length,
        merge_window=info.settle,
        edit=info.edit,
        edit_interval=info.edit_interval,
        typing=info.typing,
        reactions=info.reactions,
        buttons=info.buttons,
        busy_notices=info.busy_notices,
        restart_notices=info.restart_notices,
        heartbeat_interval=info.alive_within,
    )


def to_send_request(outbound: Outbound) -> SendRequest:
    return SendRequest(
        delivery_id=outbound.delivery_id,
        account=outbound.address.account,
        chat_id=outbound.address.chat_id,
        thread_id=outbound.address.thread_id,
        reply_to=outbound.address.reply_to,
        text=outbound.text,
        maybe_repeated=outbound.may_be_duplicate,
        choices=outbound.buttons,
    )


def to_edit_request(change: MessageEdit) -> EditRequest:
    return EditRequest(
        delivery_id=change.delivery_id,
        account=change.address.account,
        message_id=change.platform_message_id,
        text=change.text,
    )


def to_typing_request(address: Address) -> TypingRequest:
    return TypingRequest(
        account=address.account, chat_id=address.chat_id, thread_id=address.thread_id
    )


def to_react_request(address: Address, message_id: str, emoji: str | None) -> ReactRequest:
    return ReactRequest(account=address.account, message_id=message_id, emoji=emoji)


def to_find_request(delivery_id: DeliveryId, address: Address) -> FindRequest:
    return FindRequest(delivery_id=delivery_id, account=address.account)


def to_lookup_result(reply: VendorReply) -> Receipt | None:
    """The receipt of a delivery that was looked up; None: it was never accepted."""
    return None if reply.verdict is VendorVerdict.NOT_FOUND else to_receipt(reply)


def to_receipt(reply: VendorReply) -> Receipt:
    """The receipt; raises the matching `SendError` for a failure."""
    match reply:
        case VendorReply(
            verdict=VendorVerdict.TAKEN | VendorVerdict.REPEATED, message_id=str(message_id)
        ):
            return Receipt(platform_message_id=message_id)
        case VendorReply(verdict=VendorVerdict.FLOOD, retry_after=float(seconds)):
            raise Throttled(
                "the service asks to wait {seconds} s",
                seconds=seconds,
                retry_after=seconds,
                whole_account=reply.whole_account,
            )
        case VendorReply(verdict=VendorVerdict.REFUSED):
            raise SendRejected("the service refused the message: {error}", error=reply.error)
        case VendorReply(verdict=VendorVerdict.GONE):
            raise EditRefused("the service refused the edit: {error}", error=reply.error)
        case VendorReply(verdict=VendorVerdict.UNREACHABLE):
            raise NotConnected("the message was not sent: {error}", error=reply.error)
    raise OutcomeUnknown("the service gave no receipt; the message may have arrived")


class SimulatedPlatform:
    """A platform for a `ChatService` in this process, without a socket. Capabilities are read when
    it is built."""

    def __init__(
        self,
        service: ChatService,
        *,
        account: str = "default",
        poll_wait: float = 25.0,
        send_timeout: float = 10.0,
        longest_delay: float = 2.0,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(service.info)
        self._service = service
        self._poll_wait = poll_wait
        self._send_timeout = send_timeout
        self._longest_delay = longest_delay
        self._buffer = EventBuffer[SimulatedUpdate]()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        await self.probe()
        intake.report_alive(self.name, self.account)
        receiver = SimulatedReceiver(
            self, intake=intake, buffer=self._buffer, longest_delay=self._longest_delay
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(
                receiver.run(), name=f"updates of {self.name}:{self.account}"
            )
            try:
                yield
            finally:
                running.cancel()

    async def probe(self) -> None:
        await self._wait_reachable()
        self._service.check_in()

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._request(lambda: self._service.send(to_send_request(outbound)))

    async def edit(self, change: MessageEdit) -> None:
        await self._request(lambda: self._service.edit(to_edit_request(change)))

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await self._exchange(
            lambda: self._service.find(to_find_request(delivery_id, address)), to_lookup_result
        )

    async def show_typing(self, address: Address) -> None:
        await self._request(lambda: self._service.typing(to_typing_request(address)))

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        await self._request(
            lambda: self._service.react(to_react_request(address, message_id, emoji))
        )

    async def _request(self, ask: Callable[[], VendorReply]) -> Receipt:
        return await self._exchange(ask, to_receipt)

    async def _exchange(
        self, ask: Callable[[], VendorReply], read: Callable[[VendorReply], T]
    ) -> T:
        # A real send yields before it is written and before its receipt is read; a fake that
        # did neither would hide every race in those two gaps.
        await asyncio.sleep(0)
        reply = ask()
        await asyncio.sleep(0)
        faults = self._service.faults
        is_lost = reply.verdict in (VendorVerdict.RECEIPT_LOST, VendorVerdict.MESSAGE_LOST)
        if is_lost and (faults.cut is CutStyle.SILENCE or faults.half_open):
            await asyncio.sleep(self._send_timeout)
        return read(reply)

    async def missed_updates(self, since: int) -> Sequence[SimulatedUpdate]:
        await self._wait_reachable()
        return self._service.history(self.account, since=since)

    async def updates(self) -> Sequence[SimulatedUpdate]:
        await asyncio.sleep(0)
        timeout = self._poll_wait + self._send_timeout
        try:
            async with asyncio.timeout(timeout):
                return await self._service.updates(self.account, wait=self._poll_wait)
        except TimeoutError as error:
            raise NotConnected("no answer within {timeout} s", timeout=timeout) from error

    async def ack(self, up_to: int) -> None:
        await self._wait_reachable()
        self._service.ack(self.account, up_to=up_to)

    async def _wait_reachable(self) -> None:
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(self._send_timeout):
                await self._service.wait_reachable()
        except TimeoutError as error:
            raise NotConnected(
                "no answer within {send_timeout} s", send_timeout=self._send_timeout
            ) from error


class RemoteSimulatedPlatform:
    """A platform for the vendor at `base_url`, over HTTP. Owns its connections while connected.

    `capabilities` are those of the vendor once it has connected for the first time.
    """

    def __init__(
        self,
        base_url: str,
        *,
        account: str = "default",
        poll_wait: float = 25.0,
        send_timeout: float = 10.0,
        connect_timeout: float = 5.0,
        longest_delay: float = 2.0,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        # Until the vendor's own are known.
        self.capabilities = Capabilities(backlog=Backlog.UNTIL_ACKED, busy_notices=False)
        self._base_url = base_url.rstrip("/")
        self._poll_wait = poll_wait
        self._send_timeout = send_timeout
        self._connect_timeout = connect_timeout
        self._longest_delay = longest_delay
        self._buffer = EventBuffer[SimulatedUpdate]()
        self._http: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        """A cut connection is restored here; the gateway recognises a vendor that stays away by its
        silence."""
        receiver = SimulatedReceiver(
            self, intake=intake, buffer=self._buffer, longest_delay=self._longest_delay
        )
        async with aiohttp.ClientSession() as self._http:
            await self.probe()
            intake.report_alive(self.name, self.account)
            async with asyncio.TaskGroup() as tasks:
                name = f"feed of {self.name}:{self.account}"
                running = tasks.create_task(receiver.run(), name=name)
                try:
                    yield
                finally:
                    running.cancel()

    async def probe(self) -> None:
        """Ask the vendor for its capabilities, which deliveries use from then on."""
        status, answer = await self._call_or_disconnect(
            "GET", "/about", limit=self._connect_timeout
        )
        if status in (401, 409):
            refusal = msgspec.json.decode(answer, type=ConnectRefusal)
            if status == 409:
                raise AccountInUse(refusal.error, holder=refusal.holder)
            raise ConnectRefused(refusal.error, remedy=refusal.remedy)
        self.capabilities = capabilities_of(self._decode("/about", status, answer, kind=VendorInfo))

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._request("/send", to_send_request(outbound))

    async def edit(self, change: MessageEdit) -> None:
        await self._request("/edit", to_edit_request(change))

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return to_lookup_result(
            await self._exchange("/find", to_find_request(delivery_id, address))
        )

    async def show_typing(self, address: Address) -> None:
        await self._request("/typing", to_typing_request(address))

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        await self._request("/react", to_react_request(address, message_id, emoji))

    async def _request(
        self, path: str, content: SendRequest | EditRequest | TypingRequest | ReactRequest
    ) -> Receipt:
        return to_receipt(await self._exchange(path, content))

    async def _exchange(
        self,
        path: str,
        content: SendRequest | EditRequest | FindRequest | TypingRequest | ReactRequest,
    ) -> VendorReply:
        url, body = self._base_url + path, msgspec.json.encode(content)
        try:
            status, answer = await self._call("POST", path, body=body, limit=self._send_timeout)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise OutcomeUnknown(
                "{url} gave no receipt: {error!r}", url=url, error=error
            ) from error
        if status not in _REPLY_STATUSES:
            raise OutcomeUnknown(
                "{url} answered {status}: it may have arrived", url=url, status=status
            )
        try:
            return msgspec.json.decode(answer, type=VendorReply)
        except msgspec.MsgspecError as error:
            raise OutcomeUnknown(
                "{url} sent an invalid response: {error}", url=url, error=error
            ) from error

    async def missed_updates(self, since: int) -> Sequence[SimulatedUpdate]:
        query = urlencode({"account": self.account, "since": since})
        return await self._get(
            "GET", f"/history?{query}", kind=list[SimulatedUpdate], limit=self._send_timeout
        )

    async def updates(self) -> Sequence[SimulatedUpdate]:
        query = urlencode({"account": self.account, "wait": self._poll_wait})
        limit = self._poll_wait + self._send_timeout
        return await self._get("GET", f"/updates?{query}", kind=list[SimulatedUpdate], limit=limit)

    async def ack(self, up_to: int) -> None:
        body = msgspec.json.encode({"account": self.account, "up_to": up_to})
        await self._get("POST", "/ack", kind=dict[str, str], body=body, limit=self._send_timeout)

    async def _get(
        self, method: str, path: str, *, kind: type[T], limit: float, body: bytes = b""
    ) -> T:
        """A call that may be made again, so that every failure of it is a cut line."""
        status, answer = await self._call_or_disconnect(method, path, limit=limit, body=body)
        return self._decode(path, status, answer, kind=kind)

    async def _call_or_disconnect(
        self, method: str, path: str, *, limit: float, body: bytes = b""
    ) -> tuple[int, bytes]:
        try:
            return await self._call(method, path, body=body, limit=limit)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise NotConnected(
                "{base_url} did not respond correctly: {error!r}",
                base_url=self._base_url,
                error=error,
            ) from error

    def _decode(self, path: str, status: int, answer: bytes, *, kind: type[T]) -> T:
        if status != 200:
            raise NotConnected(
                "{base_url}{path} answered {status}: {answer!r}",
                base_url=self._base_url,
                path=path,
                status=status,
                answer=answer[:200],
            )
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError as error:
            raise NotConnected(
                "{base_url}{path} sent an invalid response: {error}",
                base_url=self._base_url,
                path=path,
                error=error,
            ) from error

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
            raise NotConnected(
                "{base_url} cannot be reached: {error}", base_url=self._base_url, error=error
            ) from error
