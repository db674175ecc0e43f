"""Sends chats and home channels notices that the gateway stops, restarts and is back; each once."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address, DeliveryKind, NewDelivery
from holdfast.core.messages.source import Source
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import AddDeliveries, RecordReady
from holdfast.core.ports.store_queries import ListLastStops, ListOpenStops
from holdfast.core.text.translation import _, _n, use_catalogue
from holdfast.core.turns.stop import StopKind, StopOrder, StopRow
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.outbound.quiet_chats import QuietChats
from holdfast.gateway.turns.lanes import Lanes

NOTICE_EXPIRES_AFTER = (
    60.0  # seconds that a shutdown notice is worth sending; the next process never sends it
)
MIN_CRASH_INTERVAL = 600.0  # seconds between two crash notices to home channels
_STOPS_READ = 1000  # stops among which the last notified crash is searched

ChatThread = tuple[str, str, str, str | None]  # platform, account, chat and thread


class LifecycleNotices:
    """Owns which commands reply to the request for a stop; nothing else.

    A chat and thread gets one notice of a stop, however many turns run there, and one when the
    gateway is back, in the commit that records that.
    """

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        live_settings: LiveSettings,
        lanes: Lanes,
        *,
        home_channels: HomeChannels,
        platforms: PlatformRegistry,
        quiet_chats: QuietChats,
        languages: ChatLanguages,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._live_settings = live_settings
        self._platforms = platforms
        self._quiet_chats = quiet_chats
        self._languages = languages
        self._lanes = lanes
        self._home_channels = home_channels
        self._answering: dict[StopOrder, asyncio.Event] = {}
        # The order whose sender was notified by the reply to the command.
        self._answered_order: StopOrder | None = None

    @contextmanager
    def answering(self, order: StopOrder) -> Iterator[None]:
        """While this is open, the command of the order is being answered in its chat. The shutdown
        notices wait for that, so that the reply is sent first, and before the gateway stops."""
        answered = self._answering[order] = asyncio.Event()
        try:
            yield
        finally:
            del self._answering[order]
            answered.set()

    def mark_answered(self, order: StopOrder) -> None:
        """The reply to the command replaces the shutdown notice of its chat."""
        self._answered_order = order

    @property
    def running_turns(self) -> int:
        """Turns that a stop would interrupt or park, without those that wait for a person."""
        return sum(lane.running_turn is not None for lane in self._lanes)

    async def send_shutdown_notices(self, order: StopOrder) -> None:
        """Notify each chat with a running turn, and each home channel unless the stop was requested
        in a chat. Returns when the notices are durable and queued."""
        if (answered := self._answering.get(order)) is not None:
            await answered.wait()
        at = self._runtime.clock.now()
        texts = self._shutdown_texts(order)
        notices = tuple(
            self._notice(
                address,
                text,
                kind=DeliveryKind.SHUTDOWN_NOTICE,
                expires_at=at + NOTICE_EXPIRES_AFTER,
            )
            for address, text in texts
        )
        await self._write(notices, at=at)

    def _shutdown_texts(self, order: StopOrder) -> list[tuple[Address, str]]:
        notices: dict[ChatThread, tuple[Address, str]] = {}
        for row in self._messages_at_work():
            address = _address_of(row)
            with use_catalogue(self._languages.of_message(row)):
                text = _stopping_text(order, works=True)
            notices.setdefault(_chat_thread(address), (address, text))
        if order.address is None:
            for home in self._home_channels.all():
                with use_catalogue(self._languages.of_chat(home.address)):
                    text = _stopping_text(order, works=False)
                notices.setdefault(_chat_thread(home.address), (home.address, text))
        elif order == self._answered_order:
            notices.pop(_chat_thread(order.address), None)
        return [(address, text) for address, text in notices.values() if self._is_notified(address)]

    async def send_back_notices(self, *, resumed: int = 0) -> None:
        """Record that the gateway accepts messages again, which completes every open stop. The
        notices are in the same commit, so that each is sent once. `resumed`: the resumed turns."""
        at = self._runtime.clock.now()
        deliveries = await self.back_notices(await self._store.read(ListOpenStops()))
        await self._store.write(RecordReady(deliveries=deliveries, at=at, resumed=resumed))

    async def back_notices(self, rows: Sequence[StopRow]) -> tuple[NewDelivery, ...]:
        """The notices after these stops. After a planned stop there are none: no one was waiting
        for the gateway."""
        notices: dict[ChatThread, tuple[Address, str]] = {}
        for row in rows:
            if row.order.address is not None and row.order.kind.restarts:
                with use_catalogue(
                    self._languages.of_chat(row.order.address, known=row.order.language)
                ):
                    text = _back_text(row)
                notices[_chat_thread(row.order.address)] = row.order.address, text
        for row in await self._stops_for_home_channels(rows):
            for home in self._home_channels.all():
                with use_catalogue(self._languages.of_chat(home.address)):
                    text = _back_text(row)
                notices.setdefault(_chat_thread(home.address), (home.address, text))
        return tuple(
            self._notice(address, text, kind=DeliveryKind.NOTICE)
            for address, text in notices.values()
            if self._is_notified(address)
        )

    async def _stops_for_home_channels(self, rows: Sequence[StopRow]) -> list[StopRow]:
        """The stops that home channels are notified of, the last first. Crash notices are limited,
        so that a crash loop does not flood the chats."""
        outside = [r for r in rows if r.order.address is None and r.order.kind is not StopKind.STOP]
        if not any(row.order.kind is StopKind.CRASH for row in outside):
            return outside
        since = self._runtime.clock.now() - MIN_CRASH_INTERVAL
        last = await self._store.read(ListLastStops(limit=_STOPS_READ))
        if any(_crash_was_notified(row) and (row.ready_at or 0.0) > since for row in last):
            return [row for row in outside if row.order.kind is not StopKind.CRASH]
        return outside

    def _messages_at_work(self) -> Iterator[InboxRow]:
        """The message that each running turn answers."""
        for lane in self._lanes:
            if lane.running_turn is not None:
                yield lane.running_turn.rows[-1]

    def _is_notified(self, address: Address) -> bool:
        """Whether the chat gets notices: not if its client fetches replies, if the chat is quiet,
        or if the platform or the configuration has turned notices off."""
        platform = self._platforms.find(address)
        if platform is None or platform.capabilities.fetchable:
            return False
        if self._quiet_chats.is_quiet_chat(address.platform, address.account, address.chat_id):
            return False
        account = self._live_settings.current.account(address.platform, address.account)
        return platform.capabilities.restart_notices and (
            account is None or account.restart_notices
        )

    def _notice(
        self, address: Address, text: str, *, kind: DeliveryKind, expires_at: float | None = None
    ) -> NewDelivery:
        return NewDelivery(
            id=DeliveryId(self._runtime.new_id("dlv")),
            address=address,
            kind=kind,
            text=text,
            expires_at=expires_at,
        )

    async def _write(self, notices: Sequence[NewDelivery], *, at: float) -> None:
        if notices:
            await self._store.write(AddDeliveries(deliveries=notices, at=at))


def _stopping_text(order: StopOrder, *, works: bool) -> str:
    """`works`: a turn of the chat runs. It may still finish, be parked or be interrupted, so the
    text promises only to try."""
    match order.kind.restarts, works:
        case True, True:
            return _(
                "The gateway is restarting. I will try to resume my current work here in a moment."
            )
        case True, False:
            return _("The gateway is restarting.")
        case False, True:
            return _(
                "The gateway is shutting down. I will try to resume my current work here when the "
                "gateway is back."
            )
    return _("The gateway is shutting down.")


def _back_text(row: StopRow) -> str:
    left = row.parked + row.interrupted
    if row.order.kind is StopKind.CRASH:
        text = _("The gateway was interrupted and is back.")
    else:
        text = _("The gateway is back.")
    if not left:
        return text
    continues = _n("{n} conversation continues.", "{n} conversations continue.", left).format(
        n=left
    )
    return f"{text} {continues}"


def _crash_was_notified(row: StopRow) -> bool:
    return row.notified and row.order.kind is StopKind.CRASH


def _address_of(row: InboxRow) -> Address:
    """The chat and thread of a message; of a subagent's task, those of its conversation."""
    subagent = row.inbound.subagent
    source: Source = subagent.chat if subagent is not None else row.inbound.source
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
    )


def _chat_thread(address: Address) -> ChatThread:
    return address.platform, address.account, address.chat_id, address.thread_id
