"""The conformance harness for XMPP: a real Prosody, new accounts and a room for each check."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import unquote

import aiohttp
from tests.platforms.xmpp.builders import new_id, new_platform
from tests.platforms.xmpp.prosody import LARGEST_UPLOAD, Prosody
from tests.platforms.xmpp.users import XmppUser, online

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.core.ports.platform import Platform
from holdfast.testing.conformance import (
    ChatKind,
    FaultProxy,
    NotSupported,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
    wait_until,
)
from holdfast.testing.intake import RecordingIntake

_OOB = "{jabber:x:oob}x/{jabber:x:oob}url"
_ID = "{urn:xmpp:sid:0}stanza-id"
_FAULT_COMMANDS = {
    VendorFault.RATE_LIMIT: "wait",
    VendorFault.REFUSED: "refuse",
    VendorFault.RECEIPT_LOST: "cut",
}


class XmppHarness(PlatformHarness):
    shows_replies = True

    def __init__(
        self, server: Prosody, platform: Platform, ann: XmppUser, room: str, proxy: FaultProxy
    ) -> None:
        self.platform = platform
        self._server = server
        self._ann = ann
        self._bob: XmppUser | None = None
        self._room = room
        self._proxy = proxy
        self._exit_stack = AsyncExitStack()
        self._sent: dict[str, tuple[XmppUser, str]] = {}  # by message id
        self._in_room: dict[str, Any] = {}  # messages in the room, by id
        self._bot = bot_name(room)
        ann.add_event_handler("groupchat_message", self._on_groupchat_message)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._exit_stack.aclose()

    def address(self) -> Address:
        chat = self._ann.boundjid.bare
        return Address(platform="xmpp", account="default", chat_id=chat)

    async def _user(self, who: Participant, chat: ChatKind) -> XmppUser:
        """Ann is online from the beginning; Bob connects when he first writes."""
        if who is Participant.PROGRAM:
            raise NotSupported("XMPP does not mark messages of programs")
        if who is Participant.BOB and self._bob is None:
            jid = self._ann.boundjid.bare.replace("ann", "bob")
            self._bob = await self._exit_stack.enter_async_context(online(self._server, jid))
        writer = self._ann if who is Participant.ANN else self._bob
        assert writer is not None
        for client, nick in ((self._ann, "ann"), (writer, who.name.lower())):
            if chat is ChatKind.GROUP and client.nick != nick:
                await client.join_room(self._room, nick=nick)
        return writer

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
        writer, alone = await self._user(by, chat), chat is ChatKind.DM
        to = f"{self._bot}@localhost" if alone else self._room
        more = await self._extensions(writer, reply_to, files, alone=alone)
        urls = [more["oob"]["url"]] if files else []
        body = "\n".join([f"{self._bot}: {text}" if mention and not alone else text, *urls])
        name = writer.write(body, to=to, **more)
        self._sent[name] = writer, to
        if alone:
            await writer.plugin["xep_0199"].ping("localhost")  # it is answered after the message
        else:
            await wait_until(lambda: name in self._in_room)
        return name

    async def _extensions(
        self, writer: XmppUser, answers: str | None, files: Sequence[OutboundFile], *, alone: bool
    ) -> dict[str, dict[str, str]]:
        more: dict[str, dict[str, str]] = {}
        if answers is not None and alone:
            more["reply"] = {"to": f"{self._bot}@localhost", "id": answers}
        elif answers is not None:
            await wait_until(lambda: answers in self._in_room)
            answered = self._in_room[answers]
            named = answered.xml.find(_ID).get("id")
            more["reply"] = {"to": str(answered["from"]), "id": named}
        for file in files:
            uploads = writer.plugin["xep_0363"]
            url = await uploads.upload_file(
                file.name, len(file.data), input_file=BytesIO(file.data)
            )
            more["oob"] = {"url": url}
        return more

    async def edit(self, name: str, text: str) -> None:
        writer, to = self._sent[name]
        writer.write(text, to=to, replace={"id": name})

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        shown: dict[str, Any] = {}
        for each in self._ann.read:
            if each["body"] and each["from"].resource != "bob":
                first = each["replace"]["id"] or each["id"]
                shown[first] = (shown.get(first, (each,))[0], each)
        return [await self._shown(first, last) for first, last in shown.values()]

    async def _shown(self, first: Any, last: Any) -> VisibleMessage:
        url = last.xml.findtext(_OOB)
        in_room = last["type"] == "groupchat"
        return VisibleMessage(
            text=last["body"],
            chat=ChatKind.GROUP if in_room else ChatKind.DM,
            files=() if not url else (await _fetched(url),),
            reply_to=self._name(first["reply"]["id"], in_room=in_room),
        )

    def _name(self, answered: str, *, in_room: bool) -> str | None:
        if not in_room:
            return answered or None
        names = [k for k, each in self._in_room.items() if each.xml.find(_ID).get("id") == answered]
        return names[0] if names else None

    def _on_groupchat_message(self, message: Any) -> None:
        self._in_room[message["id"]] = message

    async def reactions(self, name: str) -> Sequence[str]:
        """https://xmpp.org/extensions/xep-0444.html: the last reactions of a user to a
        message replace all earlier ones."""
        found = [each for each in self._ann.reactions if each["reactions"]["id"] == name]
        return sorted(found[-1]["reactions"]["values"]) if found else []

    async def too_large_file(self) -> OutboundFile:
        return OutboundFile(name="plan.txt", data=bytes(LARGEST_UPLOAD + 1))

    async def set_fault(self, fault: VendorFault) -> None:
        match fault:
            case VendorFault.BAD_CREDENTIALS:
                self._server.set_password(self._bot, "another")
            case VendorFault.UNREACHABLE:
                self._proxy.refuse_connections()
            case VendorFault.HALF_OPEN:
                self._proxy.go_silent()
            case VendorFault.NONE:
                self._server.set_password(self._bot, "pw-bot")
                self._proxy.restore()
            case _:
                self._server.inject_fault(_FAULT_COMMANDS[fault])


def bot_name(room: str) -> str:
    """The account of the bot that was made together with a room."""
    return room.partition("@")[0].replace("club", "bot")


async def _fetched(url: str) -> OutboundFile:
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        return OutboundFile(name=unquote(url.rpartition("/")[2]), data=await answer.read())


@asynccontextmanager
async def prosody_harness(
    server: Prosody, *, send_timeout: float
) -> AsyncIterator[PlatformHarness]:
    room = f"{new_id('club')}@rooms.localhost"
    name = bot_name(room)
    number = name.rpartition("_")[2]
    for each in (name, f"ann_{number}", f"bob_{number}"):
        server.set_password(each, f"pw-{each.partition('_')[0]}")
    with TemporaryDirectory() as folder:
        async with (
            FaultProxy(server.port) as proxy,
            online(server, f"ann_{number}@localhost") as ann,
        ):
            platform = new_platform(
                server,
                Path(folder),
                jid=f"{name}@localhost",
                port=proxy.port,
                rooms=(room,),
                timeout=send_timeout,
            )
            async with platform.connect(RecordingIntake()):
                pass  # it has a checkpoint: only later messages are read
            async with XmppHarness(server, platform, ann, room, proxy) as harness:
                yield harness
