"""The conformance harness for Matrix: a real Synapse behind a fault proxy."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.platforms.matrix.builders import address
from tests.platforms.matrix.fault_proxy import MatrixFault, MatrixFaultProxy
from tests.platforms.matrix.synapse import LARGEST_UPLOAD
from tests.platforms.matrix.users import MatrixUser

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.platforms.matrix.platform import MatrixPlatform
from holdfast.testing.conformance.harness import (
    ChatKind,
    NotSupported,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
)


class MatrixHarness(PlatformHarness):
    """Rooms are created at their first message and shared by all checks, because creating one is
    slow. Messages from before `since` are ignored."""

    shows_replies = True

    def __init__(
        self,
        proxy: MatrixFaultProxy,
        bot: MatrixUser,
        users: dict[Participant, MatrixUser],
        *,
        platform: MatrixPlatform,
        rooms: dict[object, str],
        since: str,
    ) -> None:
        self._proxy = proxy
        self._bot = bot
        self._users = users
        self._rooms = rooms
        self._since = since
        self._sent: dict[str, tuple[Participant, str]] = {}
        self.platform = platform

    async def begin(self) -> "MatrixHarness":
        await self._dm(Participant.ANN)
        return self

    def address(self) -> Address:
        return address(self._rooms[Participant.ANN])

    async def say(
        self,
        text: str,
        *,
        by: Participant = Participant.ANN,
        chat: ChatKind = ChatKind.DM,
        mention: bool = False,
        reply_to: str | None = None,
        files: Sequence[OutboundFile] = (),
    ) -> str:
        who = self._users[by]
        room_id = await self._dm(by) if chat is ChatKind.DM else await self._in_group()
        content = await self._content(who, text, files)
        content["msgtype"] = "m.notice" if by is Participant.PROGRAM else content["msgtype"]
        if mention:
            content["m.mentions"] = {"user_ids": [self._bot.user_id]}
        relation: dict[str, Any] = {"m.in_reply_to": {"event_id": reply_to}} if reply_to else {}
        if chat is ChatKind.THREAD:
            relation |= {"rel_type": "m.thread", "event_id": self._rooms[ChatKind.THREAD]}
        if relation:
            content["m.relates_to"] = relation
        name = await who.send(room_id, content)
        self._sent[name] = (by, room_id)
        return name

    async def edit(self, name: str, text: str) -> None:
        by, room_id = self._sent[name]
        await self._users[by].revise(room_id, name, text)

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        await asyncio.sleep(0.03)  # callers poll, and the server needs time
        found: dict[str, tuple[int, VisibleMessage]] = {}
        rooms = [room for kind, room in self._rooms.items() if kind is not ChatKind.THREAD]
        for room_id in rooms:
            for event in await self._bot.events(room_id, by=self._bot.user_id, since=self._since):
                if event["type"] == "m.room.message":
                    await self._show(event, room_id, found)
        return [shown for _, shown in sorted(found.values(), key=lambda each: each[0])]

    async def reactions(self, name: str) -> Sequence[str]:
        """https://spec.matrix.org/latest/client-server-api/#relationships-api"""
        by, room_id = self._sent[name]
        return await self._users[by].reactions(room_id, name, by=self._bot.user_id)

    async def acknowledged(self) -> int:
        return self._proxy.acknowledged(but=self._bot.user_id)

    async def revoke_after(self, requests: int) -> None:
        self._proxy.reject_token_after = requests

    async def revoked(self) -> bool:
        return self._proxy.rejects_token

    async def too_large_file(self) -> OutboundFile:
        return OutboundFile(name="plan.txt", data=bytes(LARGEST_UPLOAD + 1))

    async def set_fault(self, fault: VendorFault) -> None:
        proxy = self._proxy
        match fault:
            case VendorFault.RATE_LIMIT:
                proxy.faults.append(MatrixFault.FLOOD)
            case VendorFault.REFUSED:
                proxy.faults.append(MatrixFault.FORBIDDEN)
            case VendorFault.RECEIPT_LOST:
                # A PUT may be repeated, and the HTTP client does so once by itself.
                proxy.faults += [MatrixFault.RESET_AFTER, MatrixFault.RESET_AFTER]
            case VendorFault.UNREACHABLE:
                proxy.refuses_connections = True
                proxy.disconnect()
            case VendorFault.HALF_OPEN:
                proxy.is_silent = True
            case VendorFault.BAD_CREDENTIALS:
                proxy.rejects_token = True
            case VendorFault.NONE:
                proxy.restore()
            case _:
                raise NotSupported(fault.name)

    async def _content(
        self, who: MatrixUser, text: str, files: Sequence[OutboundFile]
    ) -> dict[str, Any]:
        for file in files:
            uri = await who.upload(file.data)
            return {"msgtype": "m.file", "body": text, "filename": file.name, "url": uri}
        return {"msgtype": "m.text", "body": text}

    async def _show(
        self, event: dict[str, Any], room_id: str, found: dict[str, tuple[int, VisibleMessage]]
    ) -> None:
        content, relation = event["content"], event["content"].get("m.relates_to", {})
        when, edited = event["origin_server_ts"], relation.get("rel_type") == "m.replace"
        threaded = relation.get("rel_type") == "m.thread"
        kind = ChatKind.DM if room_id != self._rooms.get(ChatKind.GROUP) else ChatKind.GROUP
        files: tuple[OutboundFile, ...] = ()
        if "url" in content:
            data = await self._bot.download(content["url"])
            files = (OutboundFile(name=content["filename"], data=data),)
        shown = VisibleMessage(
            text=content.get("m.new_content", content)["body"],
            chat=ChatKind.THREAD if threaded else kind,
            files=files,
            reply_to=relation.get("m.in_reply_to", {}).get("event_id"),
        )
        name = relation["event_id"] if edited else event["event_id"]
        found[name] = (found[name][0] if edited else when, shown)

    async def _dm(self, who: Participant) -> str:
        if who not in self._rooms:
            self._rooms[who] = await self._users[who].create_room(self._bot.user_id, direct=True)
            await self._bot.join(self._rooms[who])
        return self._rooms[who]

    async def _in_group(self) -> str:
        if ChatKind.GROUP not in self._rooms:
            ann, *others = self._users.values()
            room = self._rooms[ChatKind.GROUP] = await ann.create_room(
                *(each.user_id for each in others)
            )
            await asyncio.gather(*(each.join(room) for each in others))
            # What was said before the account was invited is not said to it.
            self._rooms[ChatKind.THREAD] = await ann.say(room, "the thread begins")
            await ann.invite(room, self._bot.user_id)
            await self._bot.join(room)
        return self._rooms[ChatKind.GROUP]
