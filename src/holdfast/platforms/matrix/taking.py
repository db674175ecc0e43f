"""Taking: what one sync brings is handed to intake, and only then is the next one asked for."""

import logging
from collections.abc import Sequence
from functools import partial

from holdfast.core.errors import Refused
from holdfast.core.messages.inbox import Cursor
from holdfast.platforms.matrix.checkpoint import Place, Sealed
from holdfast.platforms.matrix.handing import Handing, Said
from holdfast.platforms.matrix.invites import Invites
from holdfast.platforms.matrix.listening import Listening
from holdfast.platforms.matrix.patience import Patience
from holdfast.platforms.matrix.unread import Unread
from holdfast.platforms.matrix.upgrades import Upgrades
from holdfast.platforms.matrix.wire import Joined, Sync

log = logging.getLogger(__name__)

Found = Said | Sealed


class Taking:
    """Keeps nothing. What cannot be kept for the moment is tried again, and what came after it
    waits: no place that is written down lies behind a message that is not."""

    def __init__(
        self,
        listening: Listening,
        handing: Handing,
        unread: Unread,
        invites: Invites,
        upgrades: Upgrades,
        patience: Patience,
        *,
        cursor: str,
    ) -> None:
        self._listening = listening
        self._handing = handing
        self._unread = unread
        self._invites = invites
        self._upgrades = upgrades
        self._patience = patience
        self._cursor = cursor

    async def take(self, sync: Sync, *, since: str, place: Place) -> None:
        """The last message of the batch carries its place: a crash before that one is durable
        brings the whole batch again, and a crash after it none of it. So whatever else is to be
        done about the batch is done before."""
        # An invitation may be into the room that goes on with one that we are in.
        for room_id, joined in sync.rooms.join.items():
            await self._patience.done(partial(self._upgrades.look_into, room_id, joined))
        await self._answer_invites(sync)
        found: list[Found] = []
        for room_id, joined in sync.rooms.join.items():
            found += await self._heard_in(room_id, joined, since)
        sealed = [each for each in found if isinstance(each, Sealed)]
        said = [each for each in found if isinstance(each, Said)]
        await self._patience.done(lambda: self._unread.keep(sealed))
        reached = Cursor(name=self._cursor, value=str(place))
        for each in said[:-1]:
            await self._hand_over(each, None)
        for each in said[-1:]:
            await self._hand_over(each, reached)

    async def open_unread(self) -> None:
        """What can be read by the keys that are here."""
        await self._patience.done(self._unread.retry)

    async def _answer_invites(self, sync: Sync) -> None:
        for room_id, invited in sync.rooms.invite.items():
            await self._patience.done(partial(self._invites.answer, room_id, invited))

    async def _hand_over(self, said: Said, cursor: Cursor | None) -> None:
        await self._patience.done(lambda: self._handing.over(said, cursor))

    async def _heard_in(self, room_id: str, joined: Joined, since: str) -> Sequence[Found]:
        try:
            return await self._patience.done(lambda: self._listen(room_id, joined, since))
        except Refused as error:
            log.info(
                "What was said in %s is not to be had any more: %s",
                room_id,
                error,
                extra={"action": "room_gone"},
            )
            return ()

    async def _listen(self, room_id: str, joined: Joined, since: str) -> Sequence[Found]:
        events = await self._listening.events(room_id, joined, since)
        heard = [await self._listening.heard(room_id, event) for event in events]
        return [each for each in heard if each is not None]
