"""Hearing: all that one connection of an account listens with, put together."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.door import Opening
from holdfast.core.ports import Intake
from holdfast.platforms.matrix.api import ClientApi, NotFound
from holdfast.platforms.matrix.door import MatrixSettings
from holdfast.platforms.matrix.handing import Handing
from holdfast.platforms.matrix.history import History
from holdfast.platforms.matrix.invites import Invites
from holdfast.platforms.matrix.keys import Keys
from holdfast.platforms.matrix.listening import Listening
from holdfast.platforms.matrix.paths import path
from holdfast.platforms.matrix.patience import Patience
from holdfast.platforms.matrix.reading import PLATFORM, Reader
from holdfast.platforms.matrix.receipts import Receipts
from holdfast.platforms.matrix.record import Place, Record
from holdfast.platforms.matrix.rooms import Rooms
from holdfast.platforms.matrix.syncing import Syncing
from holdfast.platforms.matrix.taking import Taking
from holdfast.platforms.matrix.unread import Unread

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
        tasks: asyncio.TaskGroup,
    ) -> None:
        settings = opening.settings
        self._api, self._rooms, self._record = api, rooms, record
        self._me = user_id
        self._intake = intake
        self._account = opening.account
        self._reader = Reader(user_id, account=opening.account)
        self._receipts = Receipts(api, tasks=tasks, wanted=settings.receipts)
        most = settings.max_file_mb * 2**20
        handing = Handing(api, intake, most=most, taken=self._receipts.show)
        history = History(api, machine)
        listening = Listening(machine, rooms, history, self._reader, user_id=user_id)
        patience = Patience(api)
        self._unread = Unread(record, listening, handing, patience, tasks=tasks)
        invites = Invites(api, user_id, settings=settings)
        taking = Taking(
            listening, handing, self._unread, invites, patience, cursor=self._reader.cursor
        )
        self._syncing = Syncing(
            api,
            machine,
            rooms,
            keys,
            taking,
            record,
            hold=settings.sync_seconds,
            clock=opening.clock,
        )

    async def run(self) -> None:
        """Until the line breaks: that is raised."""
        await self._learn_direct()
        self._unread.begin()
        await self._syncing.run(await self._place())

    async def leave(self) -> None:
        """Nothing more is taken. How far everything was looked at is written down, so that the
        next connection need not look again."""
        self._receipts.leave()
        self._unread.leave()
        await self._record.settle()

    async def _place(self) -> Place | None:
        """The later one of what the store and the record say: the record may be old, and most of
        what is looked at leaves no row in the store."""
        cursor = await self._intake.cursor(PLATFORM, self._account, self._reader.cursor)
        places = [each for each in (Place.read(cursor), self._record.place) if each is not None]
        place = max(places, key=lambda each: each.number, default=None)
        if place is not None:
            self._record.reach(place)
        return place

    async def _learn_direct(self) -> None:
        try:
            where = path("user", self._me, "account_data", "m.direct")
            self._rooms.call_direct(await self._api.ask("GET", where, dict))
        except NotFound:
            return
