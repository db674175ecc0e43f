"""The one entry for messages: checks, stores and acknowledges them, then routes them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import ConnectError, IntakeClosed
from holdfast.core.ids import InboxId, PrincipalId
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.messages.inbox import END_STATES, Accepted, Inbound, InboxRow
from holdfast.core.messages.source import Attachment
from holdfast.core.ports.store_commands import AcceptMessage
from holdfast.core.ports.store_queries import (
    GetCursor,
    GetInboxRow,
    GetTurn,
    ListDeliveriesForMessage,
)
from holdfast.gateway.durable_writes import wait_uncancelled
from holdfast.gateway.inbound.attachments import AttachmentIntake
from holdfast.gateway.inbound.inbound_policy import InboundPolicy
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.resolver import route_of

log = logging.getLogger(__name__)

Admit = Callable[[Accepted], None]


class GatewayIntake:
    """The one way in. Owns whether it is open; everything accepted is handed to `admit`.

    The hand-over hangs on the commit, not on whoever asked for it: a request that is
    cancelled while it waits has been accepted all the same, and is answered.
    """

    def __init__(
        self,
        services: Services,
        *,
        policy: InboundPolicy,
        attachments: AttachmentIntake,
        admit: Admit,
    ) -> None:
        self._services = services
        self._policy = policy
        self._attachments = attachments
        self._admit = admit
        self._open = self._closed_to_subagents = False

    def open(self) -> None:
        self._open = True

    def close(self) -> None:
        """From now on nothing is accepted: the platforms keep it. What is on its way into the
        log is acknowledged once it is there, and is the next start's to run. Only the subagents
        of turns that may still finish are let in, until `close_to_subagents`."""
        self._open = False

    def close_to_subagents(self) -> None:
        self._open, self._closed_to_subagents = False, True

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        if not self._open:
            raise IntakeClosed("the gateway is not taking messages now; try again in a moment")
        principal = await self._policy.check(inbound)
        if attachments:
            inbound = await self._attachments.attach(inbound, attachments)
        accepted = await self.accept_authorised(inbound, principal)
        if not accepted.duplicate:
            self._policy.record_accepted(inbound.source)
            self._services.counters.message_accepted()
        return accepted

    async def accept_from_operator(self, inbound: Inbound) -> Accepted:
        """Accept what whoever runs the gateway says into a chat of others: it goes to the session
        of that chat, and the answer to the chat."""
        if not self._open:
            raise IntakeClosed("the gateway is not taking messages now; try again in a moment")
        accepted = await self.accept_authorised(inbound, self._policy.check_operator(inbound))
        if not accepted.duplicate:
            self._services.counters.message_accepted()
        return accepted

    async def accept_authorised(self, inbound: Inbound, principal: PrincipalId) -> Accepted:
        """Accept what was authorised, or what the gateway itself wrote. Where the gateway is
        about to stop, it is kept for the next start."""
        self._services.crash(CrashPoint.ACCEPT_SUBMITTED)
        accepting = asyncio.ensure_future(
            self._services.store.write(
                AcceptMessage(
                    inbound=inbound,
                    route=route_of(inbound.source, self._services.settings.sessions),
                    principal=principal,
                    at=self._services.clock.now(),
                )
            )
        )
        accepting.add_done_callback(self._on_write_done)
        accepted = await wait_uncancelled(accepting)
        self._services.crash(CrashPoint.ACCEPT_COMMITTED)
        return accepted

    def _on_write_done(self, done: asyncio.Future[Accepted]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.on_accepted(done.result())

    def on_accepted(self, accepted: Accepted) -> None:
        """A row has come into the log just now, by whatever commit."""
        if self._services.tracer is not None and not accepted.duplicate:
            self._services.tracer.record_accepted(accepted.row)
        from_subagent = accepted.row.inbound.subagent is not None
        if not accepted.duplicate and (
            self._open or (from_subagent and not self._closed_to_subagents)
        ):
            self.admit(accepted)

    def admit(self, accepted: Accepted) -> None:
        """Hand over a row that is in the log, now or since before this process began."""
        self._services.subscriptions.open(accepted.row.id)
        self._admit(accepted)

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        return await self._services.store.read(
            GetCursor(platform=platform, account=account, name=name)
        )

    def report_alive(self, platform: str, account: str) -> None:
        self._services.platforms.mark_alive(platform, account)

    def report_lost(self, platform: str, account: str, error: ConnectError) -> None:
        self._services.platforms.on_lost(platform, account, error)

    @asynccontextmanager
    async def watch(self, inbox_id: InboxId) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        if inbox_id in self._services.subscriptions:
            async with self._services.subscriptions.subscribe(inbox_id) as events:
                yield events
        else:
            yield self._stored_events(inbox_id)

    async def wait_for_end(self, inbox_id: InboxId) -> MessageEnded | None:
        if inbox_id in self._services.subscriptions:
            return await self._services.subscriptions.end_of(inbox_id)
        async with aclosing(self._stored_events(inbox_id)) as events:
            async for event in events:
                if isinstance(event, MessageEnded):
                    return event
        return None

    async def _stored_events(self, inbox_id: InboxId) -> AsyncGenerator[TurnEvent, None]:
        """The end of a message that nobody in this process is working on any more."""
        store = self._services.store
        row = await store.read(GetInboxRow(inbox_id=inbox_id))
        while row is not None and row.merged_into is not None:
            if row.merged_into in self._services.subscriptions:
                async with self._services.subscriptions.subscribe(row.merged_into) as events:
                    async for event in events:
                        yield event
                return
            row = await store.read(GetInboxRow(inbox_id=row.merged_into))
        if row is not None and row.state in END_STATES:
            yield await self._stored_end(row)

    async def _stored_end(self, row: InboxRow) -> MessageEnded:
        store = self._services.store
        answers = await store.read(ListDeliveriesForMessage(inbox_id=row.id))
        turn = await store.read(GetTurn(turn_id=row.turn_id)) if row.turn_id else None
        return MessageEnded(
            row.id,
            row.state,
            self._services.redact("\n\n".join(answer.text for answer in answers)),
            turn_id=row.turn_id,
            session_id=row.session_id,
            reason=row.reason,
            **({"usage": turn.usage} if turn else {}),
        )
