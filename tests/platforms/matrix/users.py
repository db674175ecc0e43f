"""Users of a Matrix homeserver, each with a client of their own."""

from itertools import count
from typing import Any, Self
from urllib.parse import quote

import aiohttp
from tests.platforms.matrix.synapse import Account

Json = dict[str, Any]
_numbers = count(1)  # of transactions: an account keeps its own over all tests


class MatrixUser:
    """A user of a homeserver, with an HTTP client while the context is open."""

    def __init__(self, base_url: str, account: Account) -> None:
        self.user_id = account.name
        self.token = account.token
        self._base_url = base_url

    async def __aenter__(self) -> Self:
        headers = {"Authorization": f"Bearer {self.token}"}
        self._http = aiohttp.ClientSession(f"{self._base_url}/_matrix/", headers=headers)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.close()

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Json:
        url = path if "/v" in path[:12] else f"client/v3/{path}"
        async with self._http.request(method, url, json=body, **more) as answer:
            found: Json = await answer.json()
            assert answer.status == 200, found
            return found

    async def create_room(self, *invited: str, direct: bool = False, **more: Any) -> str:
        body = {"invite": invited, "is_direct": direct, "preset": "private_chat", **more}
        return str((await self.call("POST", "createRoom", body))["room_id"])

    async def invite(self, room_id: str, user_id: str) -> None:
        await self.call("POST", f"rooms/{quote(room_id)}/invite", {"user_id": user_id})

    async def join(self, room_id: str) -> None:
        await self.call("POST", f"join/{quote(room_id)}", {})

    async def say(self, room_id: str, text: str, **more: Any) -> str:
        """The id of the message."""
        return await self.send(room_id, {"msgtype": "m.text", "body": text, **more})

    async def send(self, room_id: str, content: Json, kind: str = "m.room.message") -> str:
        where = f"rooms/{quote(room_id)}/send/{kind}/{next(_numbers)}"
        return str((await self.call("PUT", where, content))["event_id"])

    async def revise(self, room_id: str, event_id: str, text: str) -> str:
        relation = {"rel_type": "m.replace", "event_id": event_id}
        words = {"msgtype": "m.text", "body": text}
        more = {"m.new_content": words, "m.relates_to": relation}
        return await self.say(room_id, f"* {text}", **more)

    async def upload(self, data: bytes) -> str:
        where = "media/v3/upload"
        async with self._http.post(where, data=data) as answer:
            return str((await answer.json())["content_uri"])

    async def download(self, uri: str) -> bytes:
        where = f"client/v1/media/download/{uri.removeprefix('mxc://')}"
        async with self._http.get(where) as answer:
            return await answer.read()

    async def events(self, room_id: str, *, by: str = "", since: str = "") -> list[Json]:
        """The events of a room, oldest first."""
        where = f"rooms/{quote(room_id)}/messages"
        way = {"dir": "f", "from": since} if since else {"dir": "b"}
        page = await self.call("GET", where, params={**way, "limit": "200"})
        found = page["chunk"] if since else page["chunk"][::-1]
        said = [each for each in found if each["type"].startswith("m.room.")]
        return [each for each in said if not by or each["sender"] == by]

    async def reactions(self, room_id: str, event_id: str, *, by: str) -> list[str]:
        """The reactions of a user to a message."""
        where = f"client/v1/rooms/{quote(room_id)}/relations/{quote(event_id)}/m.annotation"
        found = (await self.call("GET", where))["chunk"]
        return [each["content"]["m.relates_to"]["key"] for each in found if each["sender"] == by]

    async def texts(self, room_id: str, *, by: str) -> list[str]:
        """The texts of a user's messages, with edits applied."""
        shown: dict[str, str] = {}
        for event in await self.events(room_id, by=by):
            content = event["content"]
            if event["type"] != "m.room.message" or "body" not in content:
                continue
            new = content.get("m.new_content")
            name = content["m.relates_to"]["event_id"] if new else event["event_id"]
            shown[name] = (new or content)["body"]
        return list(shown.values())

    async def reads(self, room_id: str, by: str, *texts: str) -> bool:
        return await self.texts(room_id, by=by) == list(texts)

    async def membership(self, room_id: str, user_id: str) -> str:
        state = await self.call("GET", f"rooms/{quote(room_id)}/state/m.room.member/{user_id}")
        return str(state["membership"])

    async def has_read(self, room_id: str, user_id: str, event_id: str) -> bool:
        """Whether a user has a read receipt at that message."""
        sync_filter = '{"room":{"timeline":{"limit":1}}}'
        sync = await self.call("GET", "sync", params={"timeout": "0", "filter": sync_filter})
        room = sync["rooms"]["join"].get(room_id, {"ephemeral": {"events": []}})
        receipts = [each["content"] for each in room["ephemeral"]["events"]]
        return any(user_id in each.get(event_id, {}).get("m.read", {}) for each in receipts)
