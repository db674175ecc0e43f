"""End-to-end encryption with matrix-nio, used without any I/O of its own.

Importing this module imports the library: import it lazily, in a thread. The library writes its
keys to a file of its own, so all of it runs in a dedicated thread and never blocks the event loop.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import msgspec
import nio  # type: ignore[import-untyped]  # it has annotations, and does not say so
from nio.crypto import (  # type: ignore[import-untyped]
    ENCRYPTION_ENABLED,
    decrypt_attachment,
    encrypt_attachment,
)

from holdfast.core.errors import NotConnected
from holdfast.core.messages.source import AttachmentUnavailable
from holdfast.core.ports.runtime import IdFactory
from holdfast.platforms.matrix.client import api_path
from holdfast.platforms.matrix.events import ENCRYPTED, EncryptedFile, Json, MatrixIdentity

log = logging.getLogger(__name__)

T = TypeVar("T")

_KEY_ALGORITHM = "signed_curve25519"
_KEY_STORE_FILE = "keys.db"
_LIBRARY_ERRORS = (nio.ProtocolError, nio.EncryptionError, nio.GroupEncryptionError)

# The library binds its tables to one file at a time, for the whole process: if two accounts used it
# at once, the keys of one would be written to the file of the other.
_LIBRARY_LOCK = Lock()

# At lower levels, the library logs whole responses, including keys.
logging.getLogger("nio").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """A request about keys that the library needs from the homeserver. `parse_answer` turns the
    response into an object of the library."""

    method: str
    path: str
    body: Json
    parse_answer: Callable[[Json], Any]
    uploads_keys: bool = False  # our own


def key_upload(keys: Json) -> KeyRequest:
    return KeyRequest(
        method="POST",
        path=api_path("keys", "upload"),
        body=keys,
        parse_answer=nio.KeysUploadResponse.from_dict,
        uploads_keys=True,
    )


def key_query(users: set[str]) -> KeyRequest:
    all_devices: list[str] = []  # an empty list requests all of them
    body = {"device_keys": dict.fromkeys(users, all_devices)}
    return _key_request("query", body, nio.KeysQueryResponse.from_dict)


def key_claim(devices: dict[str, list[str]]) -> KeyRequest:
    claims = {user: dict.fromkeys(names, _KEY_ALGORITHM) for user, names in devices.items()}
    return _key_request("claim", {"one_time_keys": claims}, nio.KeysClaimResponse.from_dict)


def to_device_message(
    event_type: str, body: Json, *, transaction_id: str, parse_answer: Callable[[Json], Any]
) -> KeyRequest:
    return KeyRequest(
        method="PUT",
        path=api_path("sendToDevice", event_type, transaction_id),
        body=body,
        parse_answer=parse_answer,
    )


def _key_request(endpoint: str, body: Json, parse_answer: Callable[[Json], Any]) -> KeyRequest:
    return KeyRequest(
        method="POST", path=api_path("keys", endpoint), body=body, parse_answer=parse_answer
    )


def decrypt_file(file: EncryptedFile, data: bytes) -> bytes:
    """https://spec.matrix.org/latest/client-server-api/#sending-encrypted-attachments"""
    try:
        decrypted: bytes = decrypt_attachment(data, file.key.k, file.hashes.sha256, file.iv)
    except (nio.EncryptionError, ValueError) as error:
        raise AttachmentUnavailable("cannot be decrypted: {error}", error=error) from error
    return decrypted


def encrypt_file(data: bytes) -> tuple[bytes, Json]:
    """Returns the bytes to upload, and the `file` object for readers, without its URL."""
    encrypted: tuple[bytes, Json] = encrypt_attachment(data)
    return encrypted


class RoomInfo(msgspec.Struct, frozen=True, kw_only=True):
    member_count: int  # joined or invited
    encrypted: bool


class EncryptionMachine:
    """Owns the library's client and the thread that it runs in. It is fed the responses of the
    homeserver, and knows from them the members of rooms and, with the extra `e2e`, all keys. Its
    own requests are sent by `rooms.RoomKeys`."""

    def __init__(
        self, identity: MatrixIdentity, *, folder: Path, encryption: bool, new_id: IdFactory
    ) -> None:
        self._identity = identity
        self._folder = folder
        self._new_id = new_id
        self.can_encrypt = bool(ENCRYPTION_ENABLED and encryption and identity.device_id)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="matrix")
        store = nio.store.DefaultStore if self.can_encrypt else None
        config = nio.ClientConfig(
            store=store, encryption_enabled=self.can_encrypt, store_name=_KEY_STORE_FILE
        )
        self._client = nio.Client(identity.user_id, identity.device_id, str(folder), config)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["EncryptionMachine"]:
        try:
            await self._run(self._open)
            yield self
        finally:
            await self._run(self._close)
            self._thread.shutdown(wait=False)

    def _open(self) -> None:
        self._client.user_id = self._identity.user_id
        if self.can_encrypt:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Created by the library, the file would have the permissions of the umask.
            os.close(os.open(self._folder / _KEY_STORE_FILE, os.O_CREAT | os.O_RDWR, 0o600))
            self._client.load_store()

    def _close(self) -> None:
        if self._client.store is not None:
            self._client.store.database.close()

    async def _run(self, work: Callable[..., T], /, *arguments: Any) -> T:
        """Runs work in the library's thread. Raises `NotConnected` if the library fails: the
        message that needs it was not sent and stays queued."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._run_locked, work, *arguments)
        except _LIBRARY_ERRORS as error:
            raise NotConnected(
                "the keys for it are not available yet: {error}", error=error
            ) from error

    def _run_locked(self, work: Callable[..., T], /, *arguments: Any) -> T:
        with _LIBRARY_LOCK:
            return work(*arguments)

    async def receive_sync(self, sync: Json) -> bool:
        """Returns whether keys have arrived. The library gets only state and keys, no messages."""
        return await self._run(self._receive_sync, sync)

    def _receive_sync(self, sync: Json) -> bool:
        for left in sync.get("rooms", {}).get("leave", {}):
            self._client.rooms.pop(left, None)  # we no longer learn who joins it
        try:
            response = nio.SyncResponse.from_dict(_state_only(sync))
            self._client.receive_response(response)
        # The edge of the library: untrusted input can make it raise any exception, and the same
        # batch would be received again forever.
        except Exception:
            log.warning(
                "Skipping an invalid part of a Matrix sync response",
                exc_info=True,
                extra={"action": "sync_invalid"},
            )
            return False
        events = response.to_device_events if isinstance(response, nio.SyncResponse) else ()
        return any(isinstance(event, nio.RoomKeyEvent) for event in events)

    async def room_info(self, room_id: str) -> RoomInfo | None:
        """None if the members are not known yet."""
        return await self._run(self._room_info, room_id)

    def _room_info(self, room_id: str) -> RoomInfo | None:
        room = self._client.rooms.get(room_id)
        if room is None or not room.members_synced:
            return None
        return RoomInfo(member_count=len(room.users), encrypted=bool(room.encrypted))

    async def set_members(self, room_id: str, members: Json, *, encrypted: bool) -> RoomInfo:
        """Sets the members of a room. From then on, sync batches update them."""
        return await self._run(self._set_members, room_id, members, encrypted)

    def _set_members(self, room_id: str, members: Json, encrypted: bool) -> RoomInfo:
        rooms = self._client.rooms
        if room_id not in rooms:
            rooms[room_id] = nio.MatrixRoom(room_id, self._identity.user_id, encrypted)
        rooms[room_id].encrypted = rooms[room_id].encrypted or encrypted
        self._client.receive_response(nio.JoinedMembersResponse.from_dict(members, room_id))
        return RoomInfo(
            member_count=len(rooms[room_id].users), encrypted=bool(rooms[room_id].encrypted)
        )

    async def display_name(self, room_id: str, user_id: str) -> str | None:
        return await self._run(self._display_name, room_id, user_id)

    def _display_name(self, room_id: str, user_id: str) -> str | None:
        room = self._client.rooms.get(room_id)
        user = None if room is None else room.users.get(user_id)
        return None if user is None else user.display_name

    async def decrypt(self, room_id: str, event: Json) -> Json | None:
        """The decrypted event; None if its keys are missing."""
        return await self._run(self._decrypt, room_id, event) if self.can_encrypt else None

    def _decrypt(self, room_id: str, event: Json) -> Json | None:
        try:
            parsed = nio.Event.parse_event({**event, "room_id": room_id})
            decrypted: Json = self._client.decrypt_event(parsed).source
            return decrypted
        # The edge of the library: for invalid events it raises more than its own exceptions.
        except Exception as error:  # noqa: BLE001 - the event is kept and retried
            log.debug(
                "Could not decrypt a Matrix event in %s: %s; retrying when its keys arrive",
                room_id,
                error,
                extra={"action": "event_undecryptable"},
            )
            return None

    async def outgoing_requests(self) -> Sequence[KeyRequest]:
        """All requests that are due now."""
        return await self._run(self._outgoing_requests) if self.can_encrypt else ()

    def _outgoing_requests(self) -> Sequence[KeyRequest]:
        client, requests = self._client, self._key_queries()
        if client.should_upload_keys:
            requests.append(key_upload(client.olm.share_keys()))
        if client.should_claim_keys:
            requests.append(key_claim(client.get_users_for_key_claiming()))
        return [*requests, *map(self._to_device_request, client.outgoing_to_device_messages)]

    def _to_device_request(self, message: Any) -> KeyRequest:
        read = nio.ToDeviceResponse.from_dict
        return to_device_message(
            message.type,
            message.as_dict(),
            transaction_id=self._new_id("told"),
            parse_answer=lambda answer: read(answer, message),
        )

    async def key_queries(self) -> Sequence[KeyRequest]:
        """Requests for the devices of users whose devices have changed."""
        return await self._run(self._key_queries)

    def _key_queries(self) -> list[KeyRequest]:
        client = self._client
        return [key_query(set(client.users_for_key_query))] if client.should_query_keys else []

    async def key_claims(self, room_id: str) -> Sequence[KeyRequest]:
        """Requests for keys of devices to which we have no session yet, if the room's key must be
        shared."""
        return await self._run(self._key_claims, room_id)

    def _key_claims(self, room_id: str) -> Sequence[KeyRequest]:
        if not self._client.olm.should_share_group_session(room_id):
            return []
        missing = self._client.get_missing_sessions(room_id)
        return [key_claim(missing)] if missing else []

    async def key_shares(self, room_id: str) -> Sequence[KeyRequest]:
        """Requests that share the room's key with every device in it, if due. Devices are not
        verified: membership of the room decides who may read."""
        return await self._run(self._key_shares, room_id)

    def _key_shares(self, room_id: str) -> Sequence[KeyRequest]:
        olm = self._client.olm
        if not olm.should_share_group_session(room_id):
            return []
        users = list(self._client.rooms[room_id].users)
        shares = olm.share_group_session_parallel(room_id, users, ignore_unverified_devices=True)
        return [self._share_request(room_id, devices, body) for devices, body in shares]

    def _share_request(self, room_id: str, devices: set[tuple[str, str]], body: Json) -> KeyRequest:
        read = nio.ShareGroupSessionResponse.from_dict
        return to_device_message(
            ENCRYPTED,
            body,
            transaction_id=self._new_id("key"),
            parse_answer=lambda answer: read(answer, room_id, devices),
        )

    async def receive_answer(self, request: KeyRequest, answer: Json) -> None:
        await self._run(self._receive_answer, request, answer)

    def _receive_answer(self, request: KeyRequest, answer: Json) -> None:
        self._client.receive_response(request.parse_answer(answer))

    async def mark_shared(self, room_id: str) -> None:
        """The key was shared with all devices. Members without a device cannot get it."""
        await self._run(self._mark_shared, room_id)

    def _mark_shared(self, room_id: str) -> None:
        if (session := self._client.olm.outbound_group_sessions.get(room_id)) is not None:
            session.shared = True

    async def encrypt(
        self, room_id: str, event_type: str, content: Json
    ) -> tuple[str, Json] | None:
        """The event type and content to send. None if the members have changed meanwhile, and the
        room needs a new key."""
        return await self._run(self._encrypt, room_id, event_type, content)

    def _encrypt(self, room_id: str, event_type: str, content: Json) -> tuple[str, Json] | None:
        if self._client.olm.should_share_group_session(room_id):
            return None
        encrypted: tuple[str, Json] = self._client.encrypt(room_id, event_type, content)
        return encrypted


def _state_only(sync: Json) -> Json:
    rooms = sync.get("rooms", {}).get("join", {})
    return {
        "next_batch": sync["next_batch"],
        "to_device": sync.get("to_device", {}),
        "device_lists": sync.get("device_lists", {}),
        "device_one_time_keys_count": sync.get("device_one_time_keys_count", {}),
        "rooms": {"join": {name: {"state": _room_state(room)} for name, room in rooms.items()}},
    }


def _room_state(room: Json) -> Json:
    """State events of the timeline come last: they are the later ones."""
    timeline = room.get("timeline", {}).get("events", [])
    state = room.get("state", {}).get("events", [])
    return {"events": [*state, *(event for event in timeline if "state_key" in event)]}
