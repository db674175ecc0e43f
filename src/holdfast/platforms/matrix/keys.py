"""Keys: what is needed so that encrypted rooms can be read, by us and by their people."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.core.errors import NotConnected, Refused, SendError
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.rooms import Rooms
from holdfast.platforms.matrix.wire import Json

if TYPE_CHECKING:  # these import the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import Machine
    from holdfast.platforms.matrix.owed import Owed

log = logging.getLogger(__name__)

REMEDY = "pip install 'holdfast[matrix,e2e]', then restart the gateway"
_TRIES = 5  # at a room whose people come and go


class Keys:
    """Owns the turn in which rooms are given their keys."""

    def __init__(self, api: ClientApi, machine: "Machine", rooms: Rooms) -> None:
        self._api = api
        self._machine = machine
        self._rooms = rooms
        self._turn = asyncio.Lock()

    async def keep(self) -> None:
        """Ours are at the homeserver, and those of others here, as far as that is known. What
        cannot be asked now is asked after the next messages."""
        try:
            async with self._turn:
                await self._ask(self._machine.owed)
        except SendError as error:
            log.info("Keys could not be looked after: %s", error, extra={"action": "keys_unkept"})

    async def for_room(self, room_id: str, kind: str, content: Json) -> tuple[str, Json]:
        """The type and the content of an event as they are to be sent there. Raises a `SendError`;
        nothing was sent then. Never is a message sent in clear to an encrypted room."""
        room = await self._rooms.known(room_id)
        if not room.encrypted:
            return kind, content
        if not self._machine.encrypts:
            raise Refused(
                f"the room {room_id} is end-to-end encrypted, and this gateway cannot encrypt: "
                f"{REMEDY}, and leave platforms.matrix.encryption on"
            )
        async with self._turn:
            return await self._sealed(room_id, kind, content)

    async def _sealed(self, room_id: str, kind: str, content: Json) -> tuple[str, Json]:
        for _ in range(_TRIES):
            await self._ask(self._machine.queries)
            await self._ask(lambda: self._machine.claims(room_id))
            await self._ask(lambda: self._machine.shares(room_id))
            await self._machine.shared(room_id)
            if (sealed := await self._machine.sealed(room_id, kind, content)) is not None:
                return sealed
        raise NotConnected(f"people come into {room_id} and go faster than keys; nothing was sent")

    async def _ask(self, what: "Callable[[], Awaitable[Sequence[Owed]]]") -> None:
        for owed in await what():
            answer = await self._api.ask(owed.method, owed.path, dict, body=owed.body)
            await self._machine.settle(owed, answer)
