"""The conformance harness for Discord, with the fake vendor."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.discord.builders import address, new_platform, write_checkpoint
from tests.platforms.discord.fake import (
    ANN,
    BOB,
    BOT,
    TEXT,
    THREAD,
    FakeDiscord,
    Json,
    discord_user,
)
from tests.platforms.discord.fake_rest import FakeRestApi
from tests.platforms.discord.faults import FakeDiscordError, blocked, flood

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
)

_USERS = {
    Participant.ANN: ANN,
    Participant.BOB: BOB,
    Participant.PROGRAM: discord_user("2001", "other", bot=True),
}
_CHANNELS = {ChatKind.DM: None, ChatKind.GROUP: TEXT, ChatKind.THREAD: THREAD}
_SEND_FAULTS: dict[VendorFault, FakeDiscordError | ConnectionFault] = {
    VendorFault.RATE_LIMIT: flood(7),
    VendorFault.REFUSED: blocked(),
    VendorFault.RECEIPT_LOST: ConnectionFault.RESET_AFTER,
}
_BUTTON, _REPLY = 2, 19
SHORT_TIMEOUT = 1.0  # seconds until a platform gives up, where no response comes


class DiscordHarness(PlatformHarness):
    shows_replies = True

    def __init__(
        self, vendor: FakeDiscord, platform: Platform, proxy: FaultProxy, *, limit: float = 20.0
    ) -> None:
        self.platform = platform
        self._limit = limit
        self._vendor = vendor
        self._proxy = proxy
        self._token = vendor.token

    def address(self) -> Address:
        return address()

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
        mentioned = mention and chat is not ChatKind.DM
        message = self._vendor.say(
            f"<@{BOT['id']}> {text}" if mentioned else text,
            by=_USERS[by],
            channel=_CHANNELS[chat],
            mentions=[BOT] if mentioned else [],
            attachments=[self._vendor.upload(each.name, each.data) for each in files],
            **({} if reply_to is None else self._reply(reply_to)),
        )
        return str(message["id"])

    def _reply(self, name: str) -> Json:
        """resources/message#message-object: a reply contains the original message."""
        message = self._known(name)
        reference = {"message_id": name, "channel_id": message["channel_id"]}
        return {"type": _REPLY, "message_reference": reference, "referenced_message": message}

    def _known(self, name: str) -> Json:
        every = [each for messages in self._vendor.messages.values() for each in messages]
        (found,) = [each for each in every if each["id"] == name]
        return found

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        return [self._shown(each) for each in self._vendor.sent]

    def _shown(self, message: Json) -> VisibleMessage:
        kinds = {TEXT: ChatKind.GROUP, THREAD: ChatKind.THREAD}
        return VisibleMessage(
            text=message["content"],
            chat=kinds.get(message["channel_id"], ChatKind.DM),
            files=tuple(
                OutboundFile(name=each["filename"], data=self._vendor.files[each["filename"]])
                for each in message["attachments"]
            ),
            buttons=tuple(each["label"] for each in _buttons(message)),
            reply_to=message.get("message_reference", {}).get("message_id"),
        )

    async def edit(self, name: str, text: str) -> None:
        self._vendor.revise(self._known(name), text)

    async def delete_answer(self) -> None:
        self._vendor.delete_sent()

    async def too_large_file(self) -> OutboundFile:
        self._vendor.largest_upload = 1000
        return OutboundFile(name="plan.txt", data=bytes(1001))

    async def press(self, label: str) -> None:
        (button,) = [each for each in _buttons(self._vendor.sent[-1]) if each["label"] == label]
        pressed = {"custom_id": button["custom_id"], "component_type": _BUTTON}
        self._vendor.interact(3, pressed)

    async def reactions(self, name: str) -> Sequence[str]:
        return self._vendor.reactions.get(name, [])

    async def revoke_after(self, requests: int) -> None:
        self._vendor.revoke_after, self._vendor.revoked = requests, False

    async def revoked(self) -> bool:
        return self._vendor.revoked

    async def set_fault(self, fault: VendorFault) -> None:
        match fault:
            case VendorFault.BAD_CREDENTIALS:
                self._vendor.token = "another"
            case VendorFault.UNREACHABLE:
                self._proxy.refuse_connections()
            case VendorFault.NONE:
                self._vendor.revoke_after = None
                self._vendor.token = self._token
                self._proxy.restore()
            case VendorFault.HALF_OPEN if self._limit > SHORT_TIMEOUT:
                raise NotSupported("tested separately, with a short timeout")
            case VendorFault.HALF_OPEN:
                self._proxy.go_silent()
            case _:
                self._vendor.faults.append(_SEND_FAULTS[fault])


def _buttons(message: Json) -> list[Json]:
    return [each for row in message["components"] for each in row["components"]]


@asynccontextmanager
async def discord_harness(limit: float = 20.0) -> AsyncIterator[PlatformHarness]:
    """The bot already has chats with both users, and connects through the proxy."""
    vendor = FakeDiscord()
    with TemporaryDirectory() as folder:
        async with (
            FakeRestApi(vendor).serving(),
            FaultProxy(urlsplit(vendor.base_url).port or 0) as proxy,
        ):
            await write_checkpoint(Path(folder), vendor)
            platform = new_platform(
                vendor,
                Path(folder),
                limit=limit,
                base_url=f"http://127.0.0.1:{proxy.port}/api/v10",
            )
            yield DiscordHarness(vendor, platform, proxy, limit=limit)
