"""The conformance harnesses for IRC: on a real ngircd and on a fake IRCv3 server."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.platforms.irc import fake_ircv3
from tests.platforms.irc.builders import address, new_platform, settings_for, until
from tests.platforms.irc.ngircd import IrcUser, Ngircd, irc_user

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.platforms.irc.events import IrcMessage, strip_formatting
from holdfast.platforms.irc.platform import IrcPlatform
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.sender import REPEAT_NOTICE
from holdfast.testing.conformance import (
    ChatKind,
    FaultProxy,
    NotSupported,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
)
from holdfast.testing.intake import RecordingIntake

_FULL = 300  # bytes: a line of this length continues in the next
_BOT = "holdfast"
_CHANNEL = "#club"


def _shown(lines: Sequence[IrcMessage]) -> list[VisibleMessage]:
    """Lines joined to messages: a full line, or a line that announces a repetition, belongs to the
    next one."""
    messages: list[VisibleMessage] = []
    joint: str | None = None
    for message in lines:
        text = strip_formatting(message.trailing, nick=message.nick) or ""
        chat_kind = ChatKind.GROUP if message.param(0).startswith("#") else ChatKind.DM
        if joint is not None:
            text = f"{messages.pop().text}{joint}{text}"
        answers = message.tags.get("+draft/reply")
        messages.append(VisibleMessage(text=text, chat=chat_kind, reply_to=answers))
        full = len(message.trailing.encode()) >= _FULL
        joint = "" if full else "\n" if message.trailing == REPEAT_NOTICE.strip() else None
    return messages


class NgircdHarness(PlatformHarness):
    """Users are clients of the server; the bot connects through a fault proxy."""

    def __init__(
        self,
        platform: IrcPlatform,
        settings: IrcSettings,
        proxy: FaultProxy,
        users: dict[Participant, IrcUser],
    ) -> None:
        self.platform = platform
        self._nick = settings.nick
        (self._channel,) = settings.channels
        self._proxy = proxy
        self._users = users
        self._numbers = count(1)

    def address(self) -> Address:
        return address(self._users[Participant.ANN].mask)

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
        if reply_to is not None:
            raise NotSupported("without tags, a message does not say what it answers")
        user, bot = self._users[by], await self._bot()
        target = self._channel if chat is ChatKind.GROUP else bot
        words = f"{bot}: {text}" if mention and chat is ChatKind.GROUP else text
        # Programs send a NOTICE, which no other program answers.
        user.do("NOTICE" if by is Participant.PROGRAM else "PRIVMSG", target, words)
        token = f"said{next(self._numbers)}"
        user.do("PING", token)
        await until(lambda: any(message.trailing == token for message in user.read))
        return token

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        lines = [
            message
            for message in self._users[Participant.ANN].read
            if message.command == "PRIVMSG" and message.nick.rstrip("_") == self._nick
        ]
        return _shown(lines)

    async def set_fault(self, fault: VendorFault) -> None:
        ann = self._users[Participant.ANN]
        match fault:
            case VendorFault.REFUSED:  # Ann changes her nick, and her old nick is free
                await _renamed(ann, f"{ann.nick}away")
            case VendorFault.UNREACHABLE:
                self._proxy.refuse_connections()
            case VendorFault.HALF_OPEN:
                self._proxy.go_silent()
            case VendorFault.NONE:
                self._proxy.restore()
                if "NICK" in ann.verbs():
                    await _renamed(ann, ann.nick)
            case _:
                raise NotSupported("ngircd has no such fault")

    async def _bot(self) -> str:
        """The current nick of the bot: a lost connection may hold the old nick for a while."""
        ann = self._users[Participant.ANN]
        while True:
            ann.read[:] = [message for message in ann.read if message.command != "353"]
            ann.do("NAMES", self._channel)
            await until(lambda: any(message.command == "353" for message in ann.read))
            names = next(
                message.trailing for message in ann.read if message.command == "353"
            ).split()
            bots = [name for name in names if name.lstrip("@+").rstrip("_") == self._nick]
            if len(bots) == 1:
                return bots[0].lstrip("@+")


async def _renamed(user: IrcUser, nick: str) -> None:
    before = user.verbs().count("NICK")
    user.do("NICK", nick)
    await until(lambda: user.verbs().count("NICK") > before)


class FakeIrcHarness(PlatformHarness):
    """Users write with a fake IRCv3 server."""

    shows_replies = True

    def __init__(self, platform: IrcPlatform, server: fake_ircv3.FakeIrcServer) -> None:
        self.platform = platform
        self._server = server

    def address(self) -> Address:
        return address("ann")

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
        words = f"{_BOT}, {text}" if mention and chat is ChatKind.GROUP else text
        return self._server.say(
            words,
            by=fake_ircv3.BOB if by is Participant.BOB else fake_ircv3.ANN,
            to=_CHANNEL if chat is ChatKind.GROUP else _BOT,
            answers=reply_to,
            **({"bot": ""} if by is Participant.PROGRAM else {}),
        )

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        return _shown(self._server.bot_messages)

    async def set_fault(self, fault: VendorFault) -> None:
        server = self._server
        faults = {
            VendorFault.RATE_LIMIT: fake_ircv3.flood,
            VendorFault.REFUSED: fake_ircv3.gone,
            VendorFault.RECEIPT_LOST: fake_ircv3.reset_after,
        }
        if fault in faults:
            server.faults.append(faults[fault])
        elif fault is VendorFault.BAD_CREDENTIALS:
            server.password = "another"
        elif fault is VendorFault.UNREACHABLE:
            server.refuses_connections = True
            if server.session is not None:
                server.session.disconnect()
        elif fault is VendorFault.NONE:
            server.refuses_connections, server.password = False, fake_ircv3.PASSWORD
        else:
            raise NotSupported("tested with the real server")


@asynccontextmanager
async def irc_on_ngircd(
    server: Ngircd, new_nick: Callable[[str], str]
) -> AsyncIterator[PlatformHarness]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        bot, channel = new_nick(_BOT), new_nick(_CHANNEL)
        users = {}
        for each in Participant:
            users[each] = await stack.enter_async_context(
                irc_user(server.port, new_nick(each.name.lower()))
            )
            users[each].do("JOIN", channel)
        proxy = await stack.enter_async_context(FaultProxy(server.port))
        settings = settings_for(proxy.port, nick=bot, channels=(channel,))
        yield NgircdHarness(new_platform(settings, folder, timeout=6.0), settings, proxy, users)


@asynccontextmanager
async def irc_with_history() -> AsyncIterator[PlatformHarness]:
    """A platform that was connected before, so that it knows the capabilities of the server."""
    with TemporaryDirectory() as folder:
        async with fake_ircv3.FakeIrcServer().serving() as server:
            settings = settings_for(server.port, channels=(_CHANNEL,))
            platform = new_platform(settings, Path(folder), password=fake_ircv3.PASSWORD)
            async with platform.connect(RecordingIntake()):
                pass
            yield FakeIrcHarness(platform, server)
