"""Rooms of a Matrix account: members and encryption, the keys for sending, invitations, and
upgrades.

Imports the vendor's library for type checking only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.core.config.settings import account_table
from holdfast.core.errors import HoldfastError, NotConnected, SendError, SendRejected
from holdfast.core.messages.source import ChatType
from holdfast.core.text.translation import N_
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, PendingUpgrade
from holdfast.platforms.matrix.client import MatrixClient, MatrixNotFound, api_path, room_path
from holdfast.platforms.matrix.events import (
    CREATE,
    TOMBSTONE,
    InvitedRoom,
    JoinedRoom,
    Json,
    MatrixEmptyResponse,
    RoomCreate,
    is_membership,
)
from holdfast.platforms.matrix.plugin import MatrixSettings

if TYPE_CHECKING:
    from holdfast.platforms.matrix.encryption import EncryptionMachine, KeyRequest, RoomInfo

log = logging.getLogger(__name__)

ENCRYPTION_REMEDY = N_(
    "Run pip install 'holdfast[matrix,e2e]', leave platforms.matrix.encryption on, and restart the "
    "gateway."
)
_MAX_DIRECT_MEMBERS = 2
_MAX_ROUNDS = 5  # of key exchange for one message, while members join and leave


class RoomDirectory:
    """Knows the members and encryption of rooms, fetched when first needed. Owns the list of rooms
    that the account has marked as direct."""

    def __init__(
        self, client: MatrixClient, encryption: "EncryptionMachine", *, user_id: str
    ) -> None:
        self._client = client
        self._encryption = encryption
        self._user_id = user_id
        self._direct_rooms: frozenset[str] = frozenset()

    def set_direct(self, content: Json) -> None:
        """The account data `m.direct`: lists of direct rooms by user. We never write it, so it is
        the choice of the account's owner."""
        rooms = [each for each in content.values() if isinstance(each, list)]
        self._direct_rooms = frozenset(str(room) for each in rooms for room in each)

    async def load_direct(self) -> None:
        """Later changes arrive by sync. A homeserver that has no such list, or does not know the
        request, is as good: then the number of members decides alone. Raises a `SendError` if the
        connection or the token is at fault."""
        path = api_path("user", self._user_id, "account_data", "m.direct")
        try:
            self.set_direct(await self._client.call_idempotent("GET", path, dict))
        except MatrixNotFound:
            return
        except SendRejected as error:
            log.info(
                "The homeserver gives no list of direct rooms, so only rooms of two are direct "
                "chats: %s",
                error,
                extra={"action": "direct_rooms_unknown"},
            )

    async def room_info(self, room_id: str) -> "RoomInfo":
        """Raises a `SendError`: `SendRejected` if we are not in the room."""
        if (room := await self._encryption.room_info(room_id)) is not None:
            return room
        encrypted = await self._is_encrypted(room_id)
        members = await self._client.call_idempotent(
            "GET", room_path(room_id, "joined_members"), dict
        )
        return await self._encryption.set_members(room_id, members, encrypted=encrypted)

    async def chat_type(self, room_id: str) -> ChatType:
        """A room with at most two members is a direct chat, even if it is not marked as one."""
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


class KeyUploadLog:
    """Owns whether the last upload of our keys was refused, so that a refusal, which every sync
    repeats, is logged once. It outlives the connections of an account."""

    def __init__(self, account: str) -> None:
        self._account = account
        self._refused = False

    def accepted(self) -> None:
        self._refused = False

    def refused(self, error: SendRejected) -> None:
        if self._refused:
            return
        self._refused = True
        log.warning(
            "The homeserver refuses the keys of this device, so others cannot write to it in "
            "encrypted rooms: %s. If its key files were lost or come from another machine, stop "
            "the gateway, remove platforms/matrix/%s/ in its home and start it: with a password "
            "it logs in as a new device, with a token it needs a new one. If the homeserver has "
            "no encryption, set %s.encryption = false",
            error,
            self._account,
            account_table("matrix", self._account),
            extra={"action": "key_upload_refused"},
        )


class RoomKeys:
    """Exchanges the keys with which we and the members of encrypted rooms read messages. Owns the
    lock that serialises key exchanges."""

    def __init__(
        self,
        client: MatrixClient,
        encryption: "EncryptionMachine",
        rooms: RoomDirectory,
        *,
        upload_log: KeyUploadLog,
    ) -> None:
        self._client = client
        self._encryption = encryption
        self._rooms = rooms
        self._upload_log = upload_log
        self._lock = asyncio.Lock()

    async def exchange_keys(self) -> None:
        """Uploads our keys and fetches those of others, as far as they are due. What fails now is
        repeated after the next sync batch."""
        try:
            async with self._lock:
                await self._send_requests(self._encryption.outgoing_requests)
        except SendError as error:
            log.info(
                "Could not exchange keys; retrying after the next sync: %s",
                error,
                extra={"action": "key_exchange_failed"},
            )

    async def encrypt_for_room(
        self, room_id: str, event_type: str, content: Json
    ) -> tuple[str, Json]:
        """Returns the event type and content to send. A message to an encrypted room is never
        returned unencrypted. Raises a `SendError`; nothing was sent then."""
        room = await self._rooms.room_info(room_id)
        if not room.encrypted:
            return event_type, content
        if not self._encryption.can_encrypt:
            raise SendRejected(
                "room {room_id} is end-to-end encrypted, and this gateway cannot encrypt. {remedy}",
                room_id=room_id,
                remedy=HoldfastError(ENCRYPTION_REMEDY),
            )
        async with self._lock:
            return await self._encrypt(room_id, event_type, content)

    async def _encrypt(self, room_id: str, event_type: str, content: Json) -> tuple[str, Json]:
        for _ in range(_MAX_ROUNDS):
            await self._send_requests(self._encryption.key_queries)
            await self._send_requests(lambda: self._encryption.key_claims(room_id))
            await self._send_requests(lambda: self._encryption.key_shares(room_id))
            await self._encryption.mark_shared(room_id)
            encrypted = await self._encryption.encrypt(room_id, event_type, content)
            if encrypted is not None:
                return encrypted
        raise NotConnected(
            "the members of room {room_id} changed while the message was encrypted, so it "
            "was not sent; "
            "it is retried",
            room_id=room_id,
        )

    async def _send_requests(
        self, list_requests: "Callable[[], Awaitable[Sequence[KeyRequest]]]"
    ) -> None:
        """A refused upload of our keys stops none of the other requests."""
        for request in await list_requests():
            try:
                answer = await self._client.call_idempotent(
                    request.method, request.path, dict, body=request.body
                )
            except SendRejected as error:
                if not request.uploads_keys:
                    raise
                self._upload_log.refused(error)
                continue
            await self._encryption.receive_answer(request, answer)
            if request.uploads_keys:
                self._upload_log.accepted()


class InviteHandler:
    """Accepts or declines invitations to rooms. Has no state. Raises a `SendError` if an invitation
    cannot be answered now."""

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
        """Joins the room or declines. A user who was declined can invite again once allowed."""
        invites = [
            event
            for event in invited.invite_state.events
            if is_membership(event, self._user_id, "invite")
        ]
        if not invites:
            return
        inviter = str(invites[-1].get("sender", ""))
        accepted = self._may_accept(
            room_id, inviter, is_direct=bool(invites[-1]["content"].get("is_direct"))
        )
        log.info(
            "Invitation by %s to %s %s",
            inviter,
            room_id,
            "accepted" if accepted else "declined: the user is not allowed to invite",
            extra={"action": "invite_answered"},
        )
        path = api_path("join", room_id) if accepted else room_path(room_id, "leave")
        try:
            await self._client.call_idempotent("POST", path, MatrixEmptyResponse, body={})
        except SendRejected as error:  # withdrawn meanwhile
            log.info(
                "Could not answer an invitation to %s: %s",
                room_id,
                error,
                extra={"action": "invite_withdrawn"},
            )

    def _may_accept(self, room_id: str, inviter: str, *, is_direct: bool) -> bool:
        """Users who may talk to the agent may invite it, and it joins every room named in the
        configuration. If pairing is on, it joins any user's direct chat: only there can an unknown
        user get a pairing code."""
        settings = self._settings
        known = {*settings.allow, *settings.operators}
        if inviter in known or "*" in settings.allow or room_id in settings.chats:
            return True
        if room_id in self._checkpoint.pending_upgrades:  # it replaces a room that we are in
            return True
        return is_direct and settings.pairing


class RoomUpgrades:
    """Follows upgraded rooms to their successors, so that the conversation stays one chat
    (https://spec.matrix.org/latest/client-server-api/#room-upgrades). Has no state: the checkpoint
    knows which room follows which. Raises a `SendError` or `TransientStoreError` if something fails
    for now."""

    def __init__(self, client: MatrixClient, checkpoint: MatrixCheckpoint) -> None:
        self._client = client
        self._checkpoint = checkpoint

    async def handle_room(self, room_id: str, joined: JoinedRoom) -> None:
        """Must be called before the room's messages are handled: it decides to which chat they
        belong."""
        if room_id in self._checkpoint.pending_upgrades:
            await self._complete(room_id, self._checkpoint.pending_upgrades[room_id])
        for event in (*joined.state.events, *joined.timeline.events):
            if event.get("type") == TOMBSTONE and event.get("state_key") == "":
                await self._join_successor(room_id, event)

    async def _join_successor(self, room_id: str, event: Json) -> None:
        """If the join is refused, a later invitation to the successor is accepted."""
        new, by = event.get("content", {}).get("replacement_room"), event.get("sender")
        if not (isinstance(new, str) and new and isinstance(by, str)):
            return
        if self._checkpoint.is_successor(new):
            return
        log.info("Room %s was replaced by %s", room_id, new, extra={"action": "room_upgraded"})
        await self._checkpoint.add_pending_upgrade(new, PendingUpgrade(instead_of=room_id, by=by))
        try:
            server = {"server_name": by.partition(":")[2], "via": by.partition(":")[2]}
            await self._client.call_idempotent(
                "POST", api_path("join", new), MatrixEmptyResponse, body={}, query=server
            )
        except SendRejected as error:
            log.warning(
                "Room %s was replaced by %s, which needs an invitation to join: %s",
                room_id,
                new,
                error,
                extra={"action": "room_upgraded"},
            )

    async def _complete(self, room_id: str, upgrade: PendingUpgrade) -> None:
        """A user who may close a room could name any other room as its successor. That room must
        therefore name the old one as its predecessor, and be created by the same user."""
        is_successor = await self._is_successor(room_id, upgrade)
        if not is_successor:
            log.warning(
                "Room %s does not name %s as its predecessor: it is treated as a separate chat",
                room_id,
                upgrade.instead_of,
                extra={"action": "room_upgrade_unconfirmed"},
            )
        await self._checkpoint.complete_upgrade(room_id, is_successor=is_successor)

    async def _is_successor(self, room_id: str, upgrade: PendingUpgrade) -> bool:
        """A server that does not support `format` returns only the content, which names the creator
        in older room versions. If the creator is unknown, the room is not a successor."""
        path = room_path(room_id, "state", CREATE, "")
        try:
            state = await self._client.call_idempotent("GET", path, dict, query={"format": "event"})
        except SendRejected:
            return False
        event = state if "content" in state else {"content": state, "sender": state.get("creator")}
        predecessor = RoomCreate.from_event(event).predecessor.room_id
        return predecessor == upgrade.instead_of and event.get("sender") == upgrade.by
