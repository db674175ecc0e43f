"""Intake: authorise, keep, acknowledge; then to the lane of the session, or to the commands."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import ConnectError, IntakeClosed
from holdfast.core.ids import InboxId, PrincipalId
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.events import Event, MessageEnded
from holdfast.core.messages.inbox import ENDS, Accepted, Inbound, InboxRow
from holdfast.gateway.inbound.receiving import Receiving
from holdfast.gateway.inbound.threshold import Threshold
from holdfast.gateway.services import House
from holdfast.gateway.sessions.resolver import route_of
from holdfast.gateway.unbroken import unbroken

log = logging.getLogger(__name__)

Admit = Callable[[Accepted], None]


class Gatehouse:
    """The one way in. Owns whether it is open; everything accepted is handed to `admit`.

    The hand-over hangs on the commit, not on whoever asked for it: a request that is
    cancelled while it waits has been accepted all the same, and is answered.
    """

    def __init__(
        self, house: House, *, threshold: Threshold, receiving: Receiving, admit: Admit
    ) -> None:
        self._house = house
        self._threshold = threshold
        self._receiving = receiving
        self._admit = admit
        self._open = self._shut = False

    def open(self) -> None:
        self._open = True

    def close(self) -> None:
        """From now on nothing is accepted: the platforms keep it. What is on its way into the
        log is acknowledged once it is there, and is the next start's to run. Only the children
        of turns that may still finish are let in, until `shut`."""
        self._open = False

    def shut(self) -> None:
        self._open, self._shut = False, True

    async def accept(self, inbound: Inbound, attached: Sequence[Attachment] = ()) -> Accepted:
        if not self._open:
            raise IntakeClosed("the gateway is not taking messages now; try again in a moment")
        principal = await self._threshold.cross(inbound)
        if attached:
            inbound = await self._receiving.received(inbound, attached)
        accepted = await self.keep(inbound, principal)
        if not accepted.duplicate:
            self._threshold.crossed(inbound.source)
            self._house.tally.accepted()
        return accepted

    async def speak(self, inbound: Inbound) -> Accepted:
        """Accept what whoever runs the gateway says into a chat of others: it goes to the session
        of that chat, and the answer to the chat."""
        if not self._open:
            raise IntakeClosed("the gateway is not taking messages now; try again in a moment")
        accepted = await self.keep(inbound, self._threshold.speak(inbound))
        if not accepted.duplicate:
            self._house.tally.accepted()
        return accepted

    async def keep(self, inbound: Inbound, principal: PrincipalId) -> Accepted:
        """Accept what was authorised, or what is the house's own word. Where the gateway is
        about to stop, it is kept for the next start."""
        self._house.crash(CrashPoint.ACCEPT_SUBMITTED)
        accepting = asyncio.ensure_future(
            self._house.store.accept(
                inbound,
                route=route_of(inbound.source, self._house.settings.sessions),
                principal=principal,
                at=self._house.clock.now(),
            )
        )
        accepting.add_done_callback(self._when_kept)
        accepted = await unbroken(accepting)
        self._house.crash(CrashPoint.ACCEPT_COMMITTED)
        return accepted

    def _when_kept(self, done: asyncio.Future[Accepted]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.kept(done.result())

    def kept(self, accepted: Accepted) -> None:
        """A row has come into the log just now, by whatever commit."""
        if self._house.traces is not None and not accepted.duplicate:
            self._house.traces.accepted(accepted.row)
        child = accepted.row.inbound.child is not None
        if not accepted.duplicate and (self._open or (child and not self._shut)):
            self.admit(accepted)

    def admit(self, accepted: Accepted) -> None:
        """Hand over a row that is in the log, now or since before this process began."""
        self._house.watchers.open(accepted.row.id)
        self._admit(accepted)

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        return await self._house.store.cursor(platform, account, name)

    def proven(self, platform: str, account: str) -> None:
        self._house.doors.alive(platform, account)

    def lost(self, platform: str, account: str, error: ConnectError) -> None:
        self._house.doors.on_lost(platform, account, error)

    @asynccontextmanager
    async def watch(self, inbox_id: InboxId) -> AsyncIterator[AsyncIterator[Event]]:
        if inbox_id in self._house.watchers:
            async with self._house.watchers.watch(inbox_id) as events:
                yield events
        else:
            yield self._past(inbox_id)

    async def end_of(self, inbox_id: InboxId) -> MessageEnded | None:
        if inbox_id in self._house.watchers:
            return await self._house.watchers.end_of(inbox_id)
        async with aclosing(self._past(inbox_id)) as events:
            async for event in events:
                if isinstance(event, MessageEnded):
                    return event
        return None

    async def _past(self, inbox_id: InboxId) -> AsyncGenerator[Event, None]:
        """The end of a message that nobody in this process is working on any more."""
        store = self._house.store
        row = await store.inbox_row(inbox_id)
        while row is not None and row.merged_into is not None:
            if row.merged_into in self._house.watchers:
                async with self._house.watchers.watch(row.merged_into) as events:
                    async for event in events:
                        yield event
                return
            row = await store.inbox_row(row.merged_into)
        if row is not None and row.state in ENDS:
            yield await self._end_of(row)

    async def _end_of(self, row: InboxRow) -> MessageEnded:
        store = self._house.store
        answers = await store.answers(row.id)
        turn = await store.turn(row.turn_id) if row.turn_id else None
        return MessageEnded(
            row.id,
            row.state,
            self._house.redact("\n\n".join(answer.text for answer in answers)),
            turn_id=row.turn_id,
            session_id=row.session_id,
            reason=row.reason,
            **({"usage": turn.usage} if turn else {}),
        )
