"""The beginning: where an account starts to listen that was never here before."""

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.ports.protocols import Intake
from holdfast.platforms.matrix.checkpoint import Place, Record
from holdfast.platforms.matrix.invites import Invites
from holdfast.platforms.matrix.reading import PLATFORM
from holdfast.platforms.matrix.stream import Stream
from holdfast.platforms.matrix.wire import Sync

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import Machine


class Beginning:
    """Keeps nothing."""

    def __init__(
        self, stream: Stream, machine: "Machine", invites: Invites, record: Record
    ) -> None:
        self._stream = stream
        self._machine = machine
        self._invites = invites
        self._record = record

    async def known(self, intake: Intake, account: str, cursor: str) -> Place:
        """How far everything was taken: the later one of what the store and the record say. The
        record may be old, and most of what is looked at leaves no row in the store."""
        told = Place.read(await intake.cursor(PLATFORM, account, cursor))
        places = [each for each in (told, self._record.place) if each is not None]
        if not places:
            return await self.anew()
        place = max(places, key=lambda each: each.number)
        self._record.reach(place)
        return place

    async def anew(self) -> Place:
        """From now on: whatever was said before was said to somebody else. Only invitations that
        wait are answered."""
        raw = await self._stream.newest()
        sync = msgspec.convert(raw, Sync)
        await self._machine.heard(raw)
        for room_id, invited in sync.rooms.invite.items():
            await self._invites.answer(room_id, invited)
        place = Place(number=self._record.number + 1, since=sync.next_batch)
        self._record.reach(place)
        await self._record.settle()
        return place
