"""Hearing: all that one connection of an account listens with, put together."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.ports.door import Opening
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.beginning import Beginning
from holdfast.platforms.matrix.checkpoint import Place, Record
from holdfast.platforms.matrix.handing import Handing
from holdfast.platforms.matrix.history import History
from holdfast.platforms.matrix.invites import Invites
from holdfast.platforms.matrix.keys import Keys
from holdfast.platforms.matrix.listening import Listening
from holdfast.platforms.matrix.paces import Paces
from holdfast.platforms.matrix.patience import Patience
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.reading import Reader
from holdfast.platforms.matrix.receipts import Receipts
from holdfast.platforms.matrix.rooms import Rooms
from holdfast.platforms.matrix.stream import Stream
from holdfast.platforms.matrix.syncing import Syncing
from holdfast.platforms.matrix.taking import Taking
from holdfast.platforms.matrix.unread import Unread
from holdfast.platforms.matrix.upgrades import Upgrades

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import Machine


class Hearing:
    """Owns the tasks that what is heard begins, among those of the connection."""

    def __init__(
        self,
        api: ClientApi,
        machine: "Machine",
        rooms: Rooms,
        keys: Keys,
        record: Record,
        *,
        user_id: str,
        opening: Opening[MatrixSettings],
        intake: Intake,
        paces: Paces,
    ) -> None:
        settings = opening.settings
        self._rooms, self._record, self._intake = rooms, record, intake
        self._account = opening.account
        self._reader = Reader(user_id, account=opening.account, chat_of=record.chat_of)
        self._receipts = Receipts(api, wanted=settings.receipts, room_of=record.room_of)
        most = settings.max_file_mb * 2**20
        handing = Handing(api, intake, most=most, taken=self._receipts.show)
        history = History(api, machine, page=paces.page)
        listening = Listening(
            machine, rooms, history, self._reader, user_id=user_id, chat_of=record.chat_of
        )
        patience = Patience(api)
        self._unread = Unread(record, listening, handing, patience, keys_within=paces.keys_within)
        invites = Invites(api, user_id, settings=settings, record=record)
        taking = Taking(
            listening,
            handing,
            self._unread,
            invites,
            Upgrades(api, record),
            patience,
            cursor=self._reader.cursor,
        )
        stream = Stream(api, hold=settings.sync_seconds, page=paces.page)
        self._beginning = Beginning(stream, machine, invites, record)
        self._syncing = Syncing(
            stream,
            machine,
            rooms,
            keys,
            taking,
            record,
            beginning=self._beginning,
            clock=opening.clock,
        )

    async def begin(self) -> Place:
        """Whatever is said once this has returned is heard. Raises a `SendError`."""
        await self._rooms.learn_direct()
        return await self._beginning.known(self._intake, self._account, self._reader.cursor)

    async def run(self, place: Place, tasks: asyncio.TaskGroup) -> None:
        """Until the line breaks: that is raised."""
        self._receipts.begin(tasks)
        self._unread.begin(tasks)
        await self._syncing.run(place)

    async def leave(self) -> None:
        """Nothing more is taken. How far everything was looked at is written down, so that the
        next connection need not look again."""
        self._receipts.leave()
        self._unread.leave()
        await self._record.settle()
