"""Rooms: how many people are in one, and whether it is encrypted, asked for when it matters."""

from typing import TYPE_CHECKING

from holdfast.core.messages.source import ChatType
from holdfast.platforms.matrix.api import MatrixClient, MatrixNotFound
from holdfast.platforms.matrix.paths import api_path, room_path
from holdfast.platforms.matrix.wire import Json

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import EncryptionMachine, RoomInfo

_MAX_DIRECT_MEMBERS = 2


class RoomDirectory:
    """Owns which rooms the account itself calls direct."""

    def __init__(
        self, client: MatrixClient, encryption: "EncryptionMachine", *, user_id: str
    ) -> None:
        self._client = client
        self._encryption = encryption
        self._user_id = user_id
        self._direct_rooms: frozenset[str] = frozenset()

    def set_direct(self, content: Json) -> None:
        """The account data `m.direct`: rooms by the people that they are a chat of two with. We
        never write it, so it is the word of whoever owns the account."""
        rooms = [each for each in content.values() if isinstance(each, list)]
        self._direct_rooms = frozenset(str(room) for each in rooms for room in each)

    async def load_direct(self) -> None:
        """Later changes of it are told by the stream. Raises a `SendError`."""
        try:
            where = api_path("user", self._user_id, "account_data", "m.direct")
            self.set_direct(await self._client.call_idempotent("GET", where, dict))
        except MatrixNotFound:
            return

    async def room_info(self, room_id: str) -> "RoomInfo":
        """Raises a `SendError`: `Refused` where we are not in it."""
        if (room := await self._encryption.room_info(room_id)) is not None:
            return room
        encrypted = await self._is_encrypted(room_id)
        members = await self._client.call_idempotent(
            "GET", room_path(room_id, "joined_members"), dict
        )
        return await self._encryption.set_members(room_id, members, encrypted=encrypted)

    async def chat_type(self, room_id: str) -> ChatType:
        """A chat of two is one by how many are in it, whatever its name."""
        room = await self.room_info(room_id)
        is_dm = room.member_count <= _MAX_DIRECT_MEMBERS or room_id in self._direct_rooms
        return ChatType.DM if is_dm else ChatType.GROUP

    async def _is_encrypted(self, room_id: str) -> bool:
        try:
            await self._client.call_idempotent(
                "GET", room_path(room_id, "state", "m.room.encryption"), dict
            )
        except MatrixNotFound:
            return False
        return True
