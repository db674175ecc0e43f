"""The beginning: where an account starts to listen that was never here before."""

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.ports.protocols import Intake
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, SyncPosition
from holdfast.platforms.matrix.invites import InviteHandler
from holdfast.platforms.matrix.reading import PLATFORM
from holdfast.platforms.matrix.stream import SyncStream
from holdfast.platforms.matrix.wire import SyncResponse

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import EncryptionMachine


class SyncStart:
    """Keeps nothing."""

    def __init__(
        self,
        stream: SyncStream,
        encryption: "EncryptionMachine",
        invites: InviteHandler,
        checkpoint: MatrixCheckpoint,
    ) -> None:
        self._stream = stream
        self._encryption = encryption
        self._invites = invites
        self._checkpoint = checkpoint

    async def resume(self, intake: Intake, account: str, cursor_name: str) -> SyncPosition:
        """How far everything was taken: the later one of what the store and the record say. The
        record may be old, and most of what is looked at leaves no row in the store."""
        told = SyncPosition.parse(await intake.cursor(PLATFORM, account, cursor_name))
        places = [each for each in (told, self._checkpoint.position) if each is not None]
        if not places:
            return await self.start_from_now()
        place = max(places, key=lambda each: each.number)
        self._checkpoint.advance(place)
        return place

    async def start_from_now(self) -> SyncPosition:
        """From now on: whatever was said before was said to somebody else. Only invitations that
        wait are answered."""
        raw = await self._stream.newest()
        sync = msgspec.convert(raw, SyncResponse)
        await self._encryption.receive_sync(raw)
        for room_id, invited in sync.rooms.invite.items():
            await self._invites.answer(room_id, invited)
        place = SyncPosition(number=self._checkpoint.position_number + 1, since=sync.next_batch)
        self._checkpoint.advance(place)
        await self._checkpoint.save_position()
        return place
