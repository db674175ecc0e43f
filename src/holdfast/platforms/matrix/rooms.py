"""Rooms of a Matrix account: members and encryption, the keys for sending, invitations, and upgrades.

Imports the vendor's library for type checking only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.core.errors import NotConnected, SendError, SendRejected
from holdfast.core.messages.source import ChatType
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, PendingUpgrade
from holdfast.platforms.matrix.client import MatrixClient, MatrixNotFound, api_path, room_path
from holdfast.platforms.matrix.events import (
    CREATE,
    MEMBER,
    TOMBSTONE,
    InvitedRoom,
    JoinedRoom,
    Json,
    MatrixEmptyResponse,
    RoomCreate,
)
from holdfast.platforms.matrix.plugin import MatrixSettings

if TYPE_CHECKING:
    from holdfast.platforms.matrix.encryption import EncryptionMachine, KeyRequest, RoomInfo

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.matrix.rooms: Rooms: how many people are in one, and whether it is encrypted, asked for when it matters.
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


# MERGED holdfast.platforms.matrix.keys: Keys: what is needed so that encrypted rooms can be read, by us and by their people.
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


# MERGED holdfast.platforms.matrix.invites: Invitations: into which rooms the account goes.
class InviteHandler:
    """Keeps nothing. Raises a `SendError` where an invitation cannot be answered now."""

    def __init__(
        self,
        client: MatrixClient,
        user_id: str,
        *,
        settings: MatrixSettings,
        checkpoint: MatrixCheckpoint,
    ) -> None:
        self._client = client
        self._checkpoint = checkpoint
        self._user_id = user_id
        self._settings = settings

    async def answer(self, room_id: str, invited: InvitedRoom) -> None:
        """Gone into, or declined: whoever was declined can ask again once that has changed."""
        ours = [each for each in invited.invite_state.events if self._is_our_invite(each)]
        if not ours:
            return
        by = str(ours[-1].get("sender", ""))
        welcome = self._may_accept(
            room_id, by, is_direct=bool(ours[-1]["content"].get("is_direct"))
        )
        log.info(
            "The invitation of %s into %s is %s.",
            by,
            room_id,
            "taken" if welcome else "declined: they are not allowed to",
            extra={"action": "invite_answered"},
        )
        where = api_path("join", room_id) if welcome else room_path(room_id, "leave")
        try:
            await self._client.call_idempotent("POST", where, MatrixEmptyResponse, body={})
        except SendRejected as error:  # taken back meanwhile
            log.info("%s", error, extra={"action": "invite_withdrawn"})

    def _is_our_invite(self, event: Json) -> bool:
        return (
            event.get("type") == MEMBER
            and event.get("state_key") == self._user_id
            and event.get("content", {}).get("membership") == "invite"
        )

    def _may_accept(self, room_id: str, inviter: str, *, is_direct: bool) -> bool:
        """Whoever may talk to the agent may take it along, and it goes where the configuration
        names the room. Into a chat of two it goes for anybody where strangers may be paired:
        nowhere else could they be given a code."""
        settings = self._settings
        known = {*settings.allow, *settings.operators}
        if inviter in known or "*" in settings.allow or room_id in settings.chats:
            return True
        if (
            room_id in self._checkpoint.pending_upgrades
        ):  # we are in the one that it takes the place of
            return True
        return is_direct and settings.pairing


# MERGED holdfast.platforms.matrix.upgrades: Upgrades: a room that another has taken the place of is followed, and stays one chat.
#
# https://spec.matrix.org/latest/client-server-api/#room-upgrades
class RoomUpgrades:
    """Keeps nothing; which room has followed which stands in the record. Raises a `SendError` or
    `TransientStoreError` where something cannot be done now."""

    def __init__(self, client: MatrixClient, checkpoint: MatrixCheckpoint) -> None:
        self._client = client
        self._checkpoint = checkpoint

    async def handle_room(self, room_id: str, joined: JoinedRoom) -> None:
        """To be called before what was said there is heard: under which chat that is known is
        settled by then."""
        if room_id in self._checkpoint.pending_upgrades:
            await self._complete(room_id, self._checkpoint.pending_upgrades[room_id])
        for event in (*joined.state.events, *joined.timeline.events):
            if event.get("type") == TOMBSTONE and event.get("state_key") == "":
                await self._join_successor(room_id, event)

    async def _join_successor(self, room_id: str, event: Json) -> None:
        """Where we are not let in, whoever invites us brings us there."""
        new, by = event.get("content", {}).get("replacement_room"), event.get("sender")
        if not (
            isinstance(new, str) and new and isinstance(by, str)
        ) or self._checkpoint.is_successor(new):
            return
        log.info("%s goes on as %s.", room_id, new, extra={"action": "room_upgraded"})
        await self._checkpoint.add_pending_upgrade(new, PendingUpgrade(instead_of=room_id, by=by))
        try:
            server = {"server_name": by.partition(":")[2], "via": by.partition(":")[2]}
            await self._client.call_idempotent(
                "POST", api_path("join", new), MatrixEmptyResponse, body={}, query=server
            )
        except SendRejected as error:
            log.warning(
                "%s goes on as %s, which does not let us in before somebody invites us: %s",
                room_id,
                new,
                error,
                extra={"action": "room_upgraded"},
            )

    async def _complete(self, room_id: str, upgrade: PendingUpgrade) -> None:
        """Anybody who may end a room could name any other as the one that follows it: that one
        has to say the same, by the word of the same person."""
        same = await self._is_successor(room_id, upgrade)
        if not same:
            log.warning(
                "%s does not say that it follows %s: it is a chat of its own, with a conversation "
                "of its own.",
                room_id,
                upgrade.instead_of,
                extra={"action": "room_upgrade_unconfirmed"},
            )
        await self._checkpoint.complete_upgrade(room_id, is_successor=same)

    async def _is_successor(self, room_id: str, upgrade: PendingUpgrade) -> bool:
        """A server that knows no `format` gives the content alone, in which older rooms have who
        made them; of others nobody knows, and then it is no follower."""
        where = room_path(room_id, "state", CREATE, "")
        try:
            told = await self._client.call_idempotent("GET", where, dict, query={"format": "event"})
        except SendRejected:
            return False
        event = told if "content" in told else {"content": told, "sender": told.get("creator")}
        before = RoomCreate.from_event(event).predecessor.room_id
        return before == upgrade.instead_of and event.get("sender") == upgrade.by
