"""Keys: what is needed so that encrypted rooms can be read, by us and by their people."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.core.errors import NotConnected, SendError, SendRejected
from holdfast.platforms.matrix.api import MatrixClient
from holdfast.platforms.matrix.rooms import RoomDirectory
from holdfast.platforms.matrix.wire import Json

if TYPE_CHECKING:  # these import the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import EncryptionMachine
    from holdfast.platforms.matrix.owed import KeyRequest

log = logging.getLogger(__name__)

ENCRYPTION_REMEDY = "pip install 'holdfast[matrix,e2e]', then restart the gateway"
_MAX_ROUNDS = 5  # at a room whose people come and go


class RoomKeys:
    """Owns the turn in which rooms are given their keys."""

    def __init__(
        self, client: MatrixClient, encryption: "EncryptionMachine", rooms: RoomDirectory
    ) -> None:
        self._client = client
        self._encryption = encryption
        self._rooms = rooms
        self._lock = asyncio.Lock()

    async def exchange_keys(self) -> None:
        """Ours are at the homeserver, and those of others here, as far as that is known. What
        cannot be asked now is asked after the next messages."""
        try:
            async with self._lock:
                await self._send_requests(self._encryption.outgoing_requests)
        except SendError as error:
            log.info(
                "Keys could not be looked after: %s", error, extra={"action": "key_exchange_failed"}
            )

    async def encrypt_for_room(
        self, room_id: str, event_type: str, content: Json
    ) -> tuple[str, Json]:
        """The type and the content of an event as they are to be sent there. Raises a `SendError`;
        nothing was sent then. Never is a message sent in clear to an encrypted room."""
        room = await self._rooms.room_info(room_id)
        if not room.encrypted:
            return event_type, content
        if not self._encryption.can_encrypt:
            raise SendRejected(
                f"the room {room_id} is end-to-end encrypted, and this gateway cannot encrypt: "
                f"{ENCRYPTION_REMEDY}, and leave platforms.matrix.encryption on"
            )
        async with self._lock:
            return await self._encrypt(room_id, event_type, content)

    async def _encrypt(self, room_id: str, event_type: str, content: Json) -> tuple[str, Json]:
        for _ in range(_MAX_ROUNDS):
            await self._send_requests(self._encryption.key_queries)
            await self._send_requests(lambda: self._encryption.key_claims(room_id))
            await self._send_requests(lambda: self._encryption.key_shares(room_id))
            await self._encryption.mark_shared(room_id)
            if (sealed := await self._encryption.encrypt(room_id, event_type, content)) is not None:
                return sealed
        raise NotConnected(f"people come into {room_id} and go faster than keys; nothing was sent")

    async def _send_requests(
        self, list_requests: "Callable[[], Awaitable[Sequence[KeyRequest]]]"
    ) -> None:
        for owed in await list_requests():
            answer = await self._client.call_idempotent(
                owed.method, owed.path, dict, body=owed.body
            )
            await self._encryption.receive_answer(owed, answer)
