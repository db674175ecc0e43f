"""End-to-end encryption with matrix-nio, used without any I/O of its own.

Importing this module imports the library: import it lazily, in a thread. The library writes its keys to a file of its
own, so all of it runs in one thread of its own and the event loop never waits for a disk.
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


# MERGED holdfast.platforms.matrix.owed: Questions that the machine wants to have asked: about keys, of the homeserver.
_KEY_ALGORITHM = "signed_curve25519"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """`read` makes of the answer what the machine understands."""

    method: str
    path: str
    body: Json
    parse_answer: Callable[[Json], Any]


def key_upload(keys: Json) -> KeyRequest:
    return _key_request("upload", keys, nio.KeysUploadResponse.from_dict)


def key_query(users: set[str]) -> KeyRequest:
    everything: list[str] = []  # of their devices
    body = {"device_keys": dict.fromkeys(users, everything)}
    return _key_request("query", body, nio.KeysQueryResponse.from_dict)


def key_claim(devices: dict[str, list[str]]) -> KeyRequest:
    wanted = {user: dict.fromkeys(names, _KEY_ALGORITHM) for user, names in devices.items()}
    return _key_request("claim", {"one_time_keys": wanted}, nio.KeysClaimResponse.from_dict)


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


# MERGED holdfast.platforms.matrix.sealed_files: Files that their server cannot read: https://spec.matrix.org/latest/client-server-api/#sending-encrypted-attachments.
def decrypt_file(file: EncryptedFile, data: bytes) -> bytes:
    try:
        opened: bytes = decrypt_attachment(data, file.key.k, file.hashes.sha256, file.iv)
    except (nio.EncryptionError, ValueError) as error:
        raise AttachmentUnavailable(f"it cannot be decrypted: {error}") from error
    return opened


def encrypt_file(data: bytes) -> tuple[bytes, Json]:
    """What is to be uploaded, and how its readers open it, but for its address."""
    sealed: tuple[bytes, Json] = encrypt_attachment(data)
    return sealed


# MERGED holdfast.platforms.matrix.machine: The machine: matrix-nio as it was meant to be used, without any input or output of its own.
#
# It is told what the homeserver said, and knows then who is in which room and, with the extra `e2e`,
# every key. What it wants to ask, `keys.Keys` asks for it. It writes its keys to a file of its own,
# so all of it runs in one thread of its own: the loop never waits for a disk.
T = TypeVar("T")

_KEY_STORE_FILE = "keys.db"
_LIBRARY_ERRORS = (nio.ProtocolError, nio.EncryptionError, nio.GroupEncryptionError)

# The library binds its tables to one file at a time, for the whole process: of two accounts that
# use it at once, the keys of one would be written among those of the other.
_LIBRARY_LOCK = Lock()

# At its lower levels it writes whole answers into the log, keys among them.
logging.getLogger("nio").setLevel(logging.ERROR)


class RoomInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a room."""

    member_count: int  # who are in it, or are invited
    encrypted: bool


class EncryptionMachine:
    """Owns the library's client and the thread that it runs in."""

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
            # Made by the library, it could be read by everybody whom the umask lets.
            os.close(os.open(self._folder / _KEY_STORE_FILE, os.O_CREAT | os.O_RDWR, 0o600))
            self._client.load_store()

    def _close(self) -> None:
        if self._client.store is not None:
            self._client.store.database.close()

    async def _run(self, work: Callable[..., T], /, *arguments: Any) -> T:
        """Raises `NotConnected` where the library cannot do it: whatever waits for it is still to
        be sent."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._run_locked, work, *arguments)
        except _LIBRARY_ERRORS as error:
            raise NotConnected(f"there are no keys for it yet: {error}") from error

    def _run_locked(self, work: Callable[..., T], /, *arguments: Any) -> T:
        with _LIBRARY_LOCK:
            return work(*arguments)

    async def receive_sync(self, sync: Json) -> bool:
        """Whether keys have come. The machine is told of states and keys alone, and of no words."""
        return await self._run(self._receive_sync, sync)

    def _receive_sync(self, sync: Json) -> bool:
        for left in sync.get("rooms", {}).get("leave", {}):
            self._client.rooms.pop(left, None)  # nobody tells us any more who comes into it
        try:
            response = nio.SyncResponse.from_dict(_state_only(sync))
            self._client.receive_response(response)
        # The library's edge: it raises whatever it stumbles over in what a stranger has sent, and
        # the same would come again for ever.
        except Exception:
            log.warning(
                "A part of what the homeserver told makes no sense and is passed over.",
                exc_info=True,
                extra={"action": "sync_invalid"},
            )
            return False
        told = response.to_device_events if isinstance(response, nio.SyncResponse) else ()
        return any(isinstance(each, nio.RoomKeyEvent) for each in told)

    async def room_info(self, room_id: str) -> RoomInfo | None:
        """None: its people are not known yet."""
        return await self._run(self._room_info, room_id)

    def _room_info(self, room_id: str) -> RoomInfo | None:
        room = self._client.rooms.get(room_id)
        if room is None or not room.members_synced:
            return None
        return RoomInfo(member_count=len(room.users), encrypted=bool(room.encrypted))

    async def set_members(self, room_id: str, members: Json, *, encrypted: bool) -> RoomInfo:
        """Who is in a room; from now on the machine hears by itself who comes and goes."""
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
        """What an encrypted event says; None: its keys are not here."""
        return await self._run(self._decrypt, room_id, event) if self.can_encrypt else None

    def _decrypt(self, room_id: str, event: Json) -> Json | None:
        try:
            read = nio.Event.parse_event({**event, "room_id": room_id})
            found: Json = self._client.decrypt_event(read).source
            return found
        # The library's edge: what it raises for events that make no sense is not its errors alone.
        except Exception as error:  # noqa: BLE001 - the event is kept, and tried again
            log.debug("%s", error, extra={"action": "event_undecryptable"})
            return None

    async def outgoing_requests(self) -> Sequence[KeyRequest]:
        """What there is to ask, as far as it is known now."""
        return await self._run(self._outgoing_requests) if self.can_encrypt else ()

    def _outgoing_requests(self) -> Sequence[KeyRequest]:
        client, asked = self._client, self._key_queries()
        if client.should_upload_keys:
            asked.append(key_upload(client.olm.share_keys()))
        if client.should_claim_keys:
            asked.append(key_claim(client.get_users_for_key_claiming()))
        return [*asked, *map(self._to_device_request, client.outgoing_to_device_messages)]

    def _to_device_request(self, message: Any) -> KeyRequest:
        read = nio.ToDeviceResponse.from_dict
        return to_device_message(
            message.type,
            message.as_dict(),
            transaction_id=self._new_id("told"),
            parse_answer=lambda answer: read(answer, message),
        )

    async def key_queries(self) -> Sequence[KeyRequest]:
        """Which devices people have, where that has changed."""
        return await self._run(self._key_queries)

    def _key_queries(self) -> list[KeyRequest]:
        client = self._client
        return [key_query(set(client.users_for_key_query))] if client.should_query_keys else []

    async def key_claims(self, room_id: str) -> Sequence[KeyRequest]:
        """Keys of devices of a room that were never written to, where it has to be given a key."""
        return await self._run(self._key_claims, room_id)

    def _key_claims(self, room_id: str) -> Sequence[KeyRequest]:
        if not self._client.olm.should_share_group_session(room_id):
            return []
        missing = self._client.get_missing_sessions(room_id)
        return [key_claim(missing)] if missing else []

    async def key_shares(self, room_id: str) -> Sequence[KeyRequest]:
        """The key of a room to every device in it, where they do not have it. Whose device it is
        was verified by nobody here: who is in a room is for the room to say."""
        return await self._run(self._key_shares, room_id)

    def _key_shares(self, room_id: str) -> Sequence[KeyRequest]:
        olm = self._client.olm
        if not olm.should_share_group_session(room_id):
            return []
        users = list(self._client.rooms[room_id].users)
        shares = olm.share_group_session_parallel(room_id, users, ignore_unverified_devices=True)
        return [self._share_request(room_id, people, body) for people, body in shares]

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
        """Everybody has been given the key who could be; somebody without a device cannot."""
        await self._run(self._mark_shared, room_id)

    def _mark_shared(self, room_id: str) -> None:
        if (session := self._client.olm.outbound_group_sessions.get(room_id)) is not None:
            session.shared = True

    async def encrypt(
        self, room_id: str, event_type: str, content: Json
    ) -> tuple[str, Json] | None:
        """The type and the content of an event as they are sent. None: somebody has come or gone
        meanwhile, and the room needs another key."""
        return await self._run(self._encrypt, room_id, event_type, content)

    def _encrypt(self, room_id: str, event_type: str, content: Json) -> tuple[str, Json] | None:
        if self._client.olm.should_share_group_session(room_id):
            return None
        sealed: tuple[str, Json] = self._client.encrypt(room_id, event_type, content)
        return sealed


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
    """Those of the timeline are the later ones."""
    said = room.get("timeline", {}).get("events", [])
    before = room.get("state", {}).get("events", [])
    return {"events": [*before, *(each for each in said if "state_key" in each)]}
