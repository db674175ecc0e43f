"""Delivery: drains the outbox, in order per chat, and is the only one who talks to platforms."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from holdfast.core.crash_points import Crash
from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused, StoreError, Throttled
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import (
    Address,
    Begun,
    DeliveryRow,
    DeliveryState,
    NewDelivery,
    Prospect,
)
from holdfast.core.ports.journal import Journal
from holdfast.core.ports.protocols import Clock, Platform
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.outbound.attempts import FIRST_WAIT, Attempts
from holdfast.gateway.outbound.chat_queues import ChatQueue, ChatQueues, Key, key_of
from holdfast.gateway.outbound.completing import Completing
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.pacing import Gate
from holdfast.gateway.outbound.parcel import Parcel, parcel_left, parcel_of
from holdfast.gateway.outbound.passing import Passing
from holdfast.gateway.outbound.posting import Posting, restored
from holdfast.gateway.outbound.reach import Reach
from holdfast.gateway.outbound.receipts import Receipts
from holdfast.gateway.outbound.reply_stream import ReplyStream
from holdfast.gateway.outbound.sign import Sign
from holdfast.gateway.outbound.way import Way
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.traces import Traces

log = logging.getLogger(__name__)

_LONGEST_WAIT = 60.0
_AGAIN = 0.05  # seconds, doubled each time, before what a platform takes once is sent again


class Delivery:
    """Owns what is owed to platforms: a queue per chat, with its gate."""

    def __init__(
        self,
        doors: Doors,
        *,
        journal: Journal,
        clock: Clock,
        redact: Redaction,
        crash: Crash,
        outgoing: OutgoingFiles,
        receipts: Receipts | None = None,
        failed: Callable[[DeliveryId], None] = lambda _: None,
        traces: Traces | None = None,
    ) -> None:
        self._traces = traces
        self._doors = doors
        self._clock = clock
        self._receipts = receipts or Receipts()
        self._attempts = Attempts(
            doors,
            journal=journal,
            clock=clock,
            redact=redact,
            crash=crash,
            outgoing=outgoing,
            receipts=self._receipts,
            failed=failed,
            traces=traces,
        )
        self._posting = Posting(doors, journal=journal, clock=clock, crash=crash, redact=redact)
        self._completing = Completing(self._posting, redact=redact)
        self._streams: dict[DeliveryId, ReplyStream] = {}  # begun, and not yet owed
        self._chats = ChatQueues()
        self._reach = Reach(doors, clock=clock)
        self._closed = False

    def __len__(self) -> int:
        return self._chats.owed

    @property
    def stranded(self) -> dict[str, int]:
        """How much waits for accounts that nobody answers for any more, by account."""
        return self._chats.stranded(self._doors.has)

    @property
    def since(self) -> float | None:
        """When the delivery came to be in front that has been there longest; None: none is owed."""
        return self._chats.since

    def take(self, deliveries: Iterable[NewDelivery], final: str = "") -> None:
        """Deliver rows that have just been committed; `final` is the text of those without."""
        for new in deliveries:
            if new.begun is not None and new.state is not DeliveryState.PENDING:
                self._streams.pop(new.id, None)
            if new.state is DeliveryState.PENDING:
                self._enqueue(parcel_of(new, final=final))

    def recover(self, rows: Iterable[DeliveryRow]) -> None:
        """Go on with what an earlier process owed, in the order in which it came to owe it."""
        for row in rows:
            self._enqueue(parcel_left(row))

    def holds(self, delivery_id: DeliveryId) -> bool:
        """Whether it is on its way here, or waits to be."""
        return self._chats.holds(delivery_id)

    def prospect(self, row: DeliveryRow) -> Prospect | None:
        """What it waits for; None: it is not here, because it has ended or was never owed."""
        from holdfast.gateway.outbound.prospect import prospect_of

        address = row.address
        if (chat := self._chats.of(address)) is None:
            return None
        wait = max(chat.gate.held_for, self._reach.gate(address).held_for)
        connected = self._reach.line(address).is_set()
        until = self._clock.now() + wait if wait > 0 else None
        return prospect_of(row.id, chat.parcels, connected=connected, until=until)

    def connected(self, platform: Platform) -> None:
        """Begin to send to this account.

        What is owed waits for this: before it, a platform cannot say what it does with a
        delivery that it may have had already.
        """
        self._reach.connected(platform)

    def gone(self, platform: Platform) -> None:
        """Its line is gone: what is owed to this account waits until it is there again."""
        self._reach.gone(platform)

    async def flush(self) -> None:
        """Returns when nothing is under way; what is owed to a closed door stays in the store,
        and is not waited for."""
        while under_way := self._under_way():
            away = asyncio.ensure_future(self._reach.one_less())
            try:
                await asyncio.wait((*under_way, away), return_when=asyncio.FIRST_COMPLETED)
            finally:
                away.cancel()

    def _under_way(self) -> list[asyncio.Task[None]]:
        """What sends to accounts that can be reached, as far as is known."""
        reached = [chat for key, chat in self._chats.owing if self._reach.has(*key[:2])]
        return [chat.task for chat in reached if chat.task and not chat.task.done()]

    async def close(self) -> None:
        """Stop sending. What has no receipt yet is in the store, and a successor's to settle;
        so is what comes to be owed from now on."""
        self._closed = True
        self._receipts.close()
        tasks = [chat.task for chat in self._chats.values() if chat.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._chats.clear()

    def stream(self, delivery_id: DeliveryId) -> ReplyStream | None:
        """The reply of that id, where this process has begun to show it."""
        return self._streams.get(delivery_id)

    def show(self, passing: Passing) -> bool:
        """Show what is not owed; False: not now, since something is owed to its chat or that must
        be left in peace. Progress and typing are dropped under pressure, replies never."""
        chat = self._chats.of(passing.address)
        if (chat is not None and chat.parcels) or not self.at_leisure(passing.address):
            return False
        if isinstance(passing, ReplyStream):
            self._streams[passing.id] = passing
        self._enqueue(passing)
        return True

    def at_leisure(self, address: Address) -> bool:
        """Whether what nobody is owed may be shown there: the account is there, and it and the
        chat have not asked to be left in peace."""
        chat = self._chats.of(address)
        if self._reach.gate(address).held or (chat is not None and chat.gate.held):
            return False
        return self._closed or self._reach.has(address.platform, address.account)

    def sign(self, sign: Sign) -> None:
        """Make of it what is wanted, as soon as nothing is owed to its chat."""
        if self._closed:
            return
        chat = self._chat(sign.address)
        if sign not in chat.signs:
            chat.signs.append(sign)

    def _enqueue(self, parcel: Parcel | Passing) -> None:
        if self._closed:
            return
        chat = self._chat(parcel.address)
        if self._traces is not None and isinstance(parcel, Parcel):
            self._traces.owed(parcel)
        if not chat.parcels:
            chat.since = self._clock.now()
        chat.parcels.append(parcel)

    def _chat(self, address: Address) -> ChatQueue:
        """With a task that brings what is put into it next."""
        key = key_of(address)
        chat = self._chats.get(key)
        if chat is None:
            chat = self._chats[key] = ChatQueue(self._clock)
            chat.task = asyncio.create_task(self._drain(key, chat), name=f"deliver {key[2]}")
        return chat

    async def _drain(self, key: Key, chat: ChatQueue) -> None:
        while chat.parcels or chat.signs:
            try:
                if not chat.parcels:
                    await self._put_sign(chat)
                    continue
                await self._deliver(chat)
            except StoreError as error:
                # Sending what cannot be recorded would send it again after a restart.
                log.error("A delivery waits for the store: %s", error, extra={"action": "outbox"})
                await asyncio.sleep(FIRST_WAIT)
                continue
            brought = chat.parcels.popleft()
            if self._traces is not None and isinstance(brought, Parcel):
                self._traces.over(brought.id)
            chat.since = self._clock.now()
        del self._chats[key]  # no await since the queue was seen empty: nobody added to it

    async def _deliver(self, chat: ChatQueue) -> None:
        """Bring the first parcel to its end: sent, failed, or for good unknown. What is known of
        it by then stays in the queue: a store that fails between two attempts forgets no doubt."""
        parcel, gate = chat.parcels[0], chat.gate
        if not isinstance(parcel, Parcel):
            await self._let_pass(parcel, gate)
            return
        if parcel.stale:  # known without its platform, which may never be connected again
            why = "expired with the process that owed it"
            await self._attempts.settle(parcel, DeliveryState.FAILED, error=why)
            return
        line = self._reach.line(parcel.address)
        await line.wait()  # what an account can do is known once it is connected
        if self._has_parts(parcel):
            await self._deliver_parts(parcel, gate)
            return
        if parcel.begun is not None:  # and nothing of it was shown: it is one like any other
            self._streams.pop(parcel.id, None)
        account = self._reach.gate(parcel.address)
        while True:
            await gate.passed()
            await account.passed()
            await line.wait()
            following = await self._try(parcel, gate)
            if following is None:
                return
            parcel = chat.parcels[0] = following

    def _has_parts(self, parcel: Parcel) -> bool:
        """Some of it is there already, or it is too long for one message."""
        platform = self._doors.find(parcel.address)
        if parcel.file is not None:
            return False
        if platform is None or (parcel.begun is None and platform.capabilities.max_length is None):
            return False
        if self._attempts.end_without_sending(parcel, platform):
            return False
        if (begun := self._begun(parcel)) is not None and begun.parts:
            return True
        limited = platform.capabilities.max_length is not None
        return limited and not self._completing.is_one_message(parcel, platform)

    def _begun(self, parcel: Parcel) -> Begun | None:
        """As it stands now: something may have been shown since its turn ended."""
        stream = self._streams.get(parcel.id)
        return parcel.begun if stream is None else stream.as_begun

    async def _deliver_parts(self, parcel: Parcel, gate: Gate) -> None:
        platform = self._doors.find(parcel.address)
        assert platform is not None, "a parcel without a platform has no parts"
        begun = self._begun(parcel) or Begun(id=parcel.id)
        if (stream := self._streams.get(parcel.id)) is not None:
            gate.hold(stream.rest)
        end = await self._completing.complete(
            parcel,
            platform,
            parts=[restored(part) for part in begun.parts],
            shown=begun.shown,
            way=self._way(parcel, gate),
        )
        await self._attempts.settle(parcel, end.state, message_id=end.message_id, error=end.error)
        self._streams.pop(parcel.id, None)

    def _way(self, parcel: Parcel | Passing | Sign, gate: Gate) -> Way:
        return Way(
            gate,
            self._reach.gate(parcel.address),
            connected=self._reach.line(parcel.address),
            away=partial(self._reach.lost, parcel.address),
        )

    async def _put_sign(self, chat: ChatQueue) -> None:
        """What it waits for, anything that comes to be owed would wait for as well; and that goes
        first then."""
        sign = chat.signs[0]
        way = self._way(sign, chat.gate)
        await way.passed()
        if chat.parcels:
            return
        chat.signs.popleft()
        if (platform := self._doors.find(sign.address)) is not None:
            await sign.put(platform, way)

    async def _let_pass(self, passing: Passing, gate: Gate) -> None:
        platform = self._doors.find(passing.address)
        if platform is not None:
            await passing.put(self._posting, platform, self._way(passing, gate))
        await gate.passed()  # who comes next waits too, where the platform has asked for that

    async def _try(self, parcel: Parcel, gate: Gate) -> Parcel | None:
        """One attempt; the parcel as it now stands if there is to be another."""
        platform = self._doors.find(parcel.address)
        if end := self._attempts.end_without_sending(parcel, platform):
            await self._attempts.settle(parcel, end[0], error=end[1])
            return None
        assert platform is not None, "a parcel without a platform has ended"
        try:
            await self._attempts.attempt(parcel, platform)
        except Throttled as error:
            held = self._reach.gate(parcel.address) if error.whole_account else gate
            held.hold(error.retry_after)
            await self._attempts.settle(parcel, DeliveryState.PENDING, error=str(error))
            return parcel
        except NotConnected as error:
            self._reach.lost(parcel.address)
            if self._reach.line(parcel.address).is_set():  # else it is waited for, not guessed at
                gate.hold(min(FIRST_WAIT * 2**parcel.failures, _LONGEST_WAIT))
            await self._attempts.settle(parcel, DeliveryState.PENDING, error=str(error))
            return msgspec.structs.replace(parcel, failures=parcel.failures + 1)
        except Refused as error:
            about = {"action": "delivery_failed", "session": parcel.session_id}
            log.warning("A reply was refused: %s", error, extra=about)
            await self._attempts.settle(parcel, DeliveryState.FAILED, error=str(error))
        except OutcomeUnknown as error:
            await self._attempts.settle(parcel, DeliveryState.UNKNOWN, error=str(error))
            if parcel.doubtful:  # the first is sent again at once, and no other
                gate.hold(min(_AGAIN * 2**parcel.failures, _LONGEST_WAIT))
            failures = parcel.failures + 1
            return msgspec.structs.replace(
                parcel, doubtful=True, repeated=parcel.doubtful, failures=failures
            )
        return None
