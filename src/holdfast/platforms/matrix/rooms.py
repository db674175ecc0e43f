"""Rooms: how many people are in one, and whether it is encrypted, asked for when it matters."""

from typing import TYPE_CHECKING

from holdfast.core.messages.source import ChatType
from holdfast.platforms.matrix.api import ClientApi, NotFound
from holdfast.platforms.matrix.paths import in_room, path
from holdfast.platforms.matrix.wire import Json

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import Machine, Room

_TWO = 2


class Rooms:
    """Owns which rooms the account itself calls direct."""

    def __init__(self, api: ClientApi, machine: "Machine", *, user_id: str) -> None:
        self._api = api
        self._machine = machine
        self._me = user_id
        self._direct: frozenset[str] = frozenset()

    def call_direct(self, content: Json) -> None:
        """The account data `m.direct`: rooms by the people that they are a chat of two with. We
        never write it, so it is the word of whoever owns the account."""
        rooms = [each for each in content.values() if isinstance(each, list)]
        self._direct = frozenset(str(room) for each in rooms for room in each)

    async def learn_direct(self) -> None:
        """Later changes of it are told by the stream. Raises a `SendError`."""
        try:
            where = path("user", self._me, "account_data", "m.direct")
            self.call_direct(await self._api.ask("GET", where, dict))
        except NotFound:
            return

    async def known(self, room_id: str) -> "Room":
        """Raises a `SendError`: `Refused` where we are not in it."""
        if (room := await self._machine.room(room_id)) is not None:
            return room
        encrypted = await self._encrypted(room_id)
        members = await self._api.ask("GET", in_room(room_id, "joined_members"), dict)
        return await self._machine.learn(room_id, members, encrypted=encrypted)

    async def kind(self, room_id: str) -> ChatType:
        """A chat of two is one by how many are in it, whatever its name."""
        room = await self.known(room_id)
        is_dm = room.people <= _TWO or room_id in self._direct
        return ChatType.DM if is_dm else ChatType.GROUP

    async def _encrypted(self, room_id: str) -> bool:
        try:
            await self._api.ask("GET", in_room(room_id, "state", "m.room.encryption"), dict)
        except NotFound:
            return False
        return True
