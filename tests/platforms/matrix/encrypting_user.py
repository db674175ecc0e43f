"""A Matrix user whose client encrypts, built on the vendor's own library.

It runs in its own process: the library binds its tables to one file at a time.
"""

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import nio
from nio.crypto import decrypt_attachment
from tests.platforms.matrix.synapse import Account

_STATE = {"type": "m.room.encryption", "state_key": ""}
_ENCRYPTED = {**_STATE, "content": {"algorithm": "m.megolm.v1.aes-sha2"}}


class EncryptingUser:
    """Owns that process while its context is open."""

    def __init__(self, base_url: str, account: Account, folder: Path) -> None:
        self.user_id = account.name
        self._given = [base_url, account.name, account.password, str(folder)]

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__, *self._given]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()  # a test that failed may still wait for its answer
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    async def _ask(self, what: str, *given: Any) -> Any:
        return await asyncio.to_thread(self._asked, what, given)

    def _asked(self, what: str, given: tuple[Any, ...]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([what, *given]), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    async def create_room(self, user_id: str) -> str:
        return str(await self._ask("room", user_id))

    async def say(self, room_id: str, text: str) -> None:
        await self._ask("say", room_id, text)

    async def can_encrypt_to(self, room_id: str, user_id: str) -> bool:
        """Whether a user is in the room with a device that can get keys."""
        return bool(await self._ask("sees", room_id, user_id))

    async def messages_by(self, user_id: str) -> list[dict[str, Any]]:
        """The contents of a user's readable messages, each with `decrypted`."""
        return list(await self._ask("said_by", user_id))

    async def download(self, file: dict[str, Any]) -> bytes:
        return base64.b64decode(await self._ask("download", file))


class _Client:
    """The client in that process; serves one command per line."""

    def __init__(self, base_url: str, user_id: str, folder: str) -> None:
        config = nio.AsyncClientConfig(encryption_enabled=True, max_timeouts=0)
        self._nio = nio.AsyncClient(base_url, user_id, "", folder, config)
        self._events: list[Any] = []

    async def serve(self, password: str) -> None:
        await self._nio.login(password)
        await self._listen()
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, *given = json.loads(line)
            await self._listen()
            answers = {
                "room": self._room,
                "say": self._send_text,
                "sees": self._sees,
                "said_by": self._messages_by,
                "download": self._download,
            }
            print(json.dumps(await answers[what](*given)), flush=True)
        await self._nio.close()

    async def _listen(self) -> None:
        sync = await self._nio.sync(timeout=1)
        for room in sync.rooms.join.values():
            self._events += room.timeline.events
        if self._nio.should_upload_keys:
            await self._nio.keys_upload()
        if self._nio.should_query_keys:
            await self._nio.keys_query()

    async def _room(self, user_id: str) -> str:
        made = await self._nio.room_create(
            invite=[user_id], is_direct=True, initial_state=[_ENCRYPTED]
        )
        return str(made.room_id)

    async def _send_text(self, room_id: str, text: str) -> str:
        content = {"msgtype": "m.text", "body": text}
        sent = await self._nio.room_send(
            room_id, "m.room.message", content, ignore_unverified_devices=True
        )
        return str(sent.event_id)

    async def _sees(self, room_id: str, user_id: str) -> bool:
        members = await self._nio.joined_members(room_id)
        devices = list(self._nio.device_store.active_user_devices(user_id))
        return bool(devices) and user_id in {each.user_id for each in members.members}

    async def _messages_by(self, user_id: str) -> list[dict[str, Any]]:
        said = [each for each in self._events if isinstance(each, nio.RoomMessage)]
        theirs = [each for each in said if each.sender == user_id]
        return [{**each.source["content"], "decrypted": each.decrypted} for each in theirs]

    async def _download(self, file: dict[str, Any]) -> str:
        found = await self._nio.download(mxc=file["url"])
        hashed, iv = file["hashes"]["sha256"], file["iv"]
        opened = decrypt_attachment(found.body, file["key"]["k"], hashed, iv)
        return base64.b64encode(opened).decode()


if __name__ == "__main__":
    address, user, secret, folder = sys.argv[1:]
    asyncio.run(_Client(address, user, folder).serve(secret))
