"""Taking: what one sync brings is handed to intake, and only then is the next one asked for."""

import logging
from collections.abc import Sequence
from functools import partial

from holdfast.core.errors import SendRejected
from holdfast.core.messages.inbox import Cursor
from holdfast.platforms.matrix.checkpoint import SyncPosition, UndecryptedEvent
from holdfast.platforms.matrix.handing import MessageSubmitter, ReceivedMessage
from holdfast.platforms.matrix.invites import InviteHandler
from holdfast.platforms.matrix.listening import EventResolver
from holdfast.platforms.matrix.patience import RetryLoop
from holdfast.platforms.matrix.unread import UndecryptedMessages
from holdfast.platforms.matrix.upgrades import RoomUpgrades
from holdfast.platforms.matrix.wire import JoinedRoom, SyncResponse

log = logging.getLogger(__name__)

ResolvedEvent = ReceivedMessage | UndecryptedEvent


class MatrixReceiver:
    """Keeps nothing. What cannot be kept for the moment is tried again, and what came after it
    waits: no place that is written down lies behind a message that is not."""

    def __init__(
        self,
        resolver: EventResolver,
        submitter: MessageSubmitter,
        undecrypted: UndecryptedMessages,
        invites: InviteHandler,
        upgrades: RoomUpgrades,
        retry_loop: RetryLoop,
        *,
        cursor_name: str,
    ) -> None:
        self._resolver = resolver
        self._submitter = submitter
        self._undecrypted = undecrypted
        self._invites = invites
        self._upgrades = upgrades
        self._retry_loop = retry_loop
        self._cursor_name = cursor_name

    async def handle(self, sync: SyncResponse, *, since: str, position: SyncPosition) -> None:
        """The last message of the batch carries its place: a crash before that one is durable
        brings the whole batch again, and a crash after it none of it. So whatever else is to be
        done about the batch is done before."""
        # An invitation may be into the room that goes on with one that we are in.
        for room_id, joined in sync.rooms.join.items():
            await self._retry_loop.run(partial(self._upgrades.handle_room, room_id, joined))
        await self._answer_invites(sync)
        found: list[ResolvedEvent] = []
        for room_id, joined in sync.rooms.join.items():
            found += await self._resolve_room(room_id, joined, since)
        sealed = [each for each in found if isinstance(each, UndecryptedEvent)]
        said = [each for each in found if isinstance(each, ReceivedMessage)]
        await self._retry_loop.run(lambda: self._undecrypted.add(sealed))
        reached = Cursor(name=self._cursor_name, value=str(position))
        for each in said[:-1]:
            await self._submit(each, None)
        for each in said[-1:]:
            await self._submit(each, reached)

    async def retry_undecrypted(self) -> None:
        """What can be read by the keys that are here."""
        await self._retry_loop.run(self._undecrypted.retry_all)

    async def _answer_invites(self, sync: SyncResponse) -> None:
        for room_id, invited in sync.rooms.invite.items():
            await self._retry_loop.run(partial(self._invites.answer, room_id, invited))

    async def _submit(self, message: ReceivedMessage, cursor: Cursor | None) -> None:
        await self._retry_loop.run(lambda: self._submitter.submit(message, cursor))

    async def _resolve_room(
        self, room_id: str, joined: JoinedRoom, since: str
    ) -> Sequence[ResolvedEvent]:
        try:
            return await self._retry_loop.run(lambda: self._resolve_events(room_id, joined, since))
        except SendRejected as error:
            log.info(
                "What was said in %s is not to be had any more: %s",
                room_id,
                error,
                extra={"action": "room_unavailable"},
            )
            return ()

    async def _resolve_events(
        self, room_id: str, joined: JoinedRoom, since: str
    ) -> Sequence[ResolvedEvent]:
        events = await self._resolver.events_since(room_id, joined, since)
        heard = [await self._resolver.resolve(room_id, event) for event in events]
        return [each for each in heard if each is not None]
