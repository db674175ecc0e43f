"""Grounds: a bot on a real ngircd, and one on a server of IRCv3 that keeps a history."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.platforms.irc import fake_ircv3
from tests.platforms.irc.builders import address, door_to, settings_for, until
from tests.platforms.irc.ngircd import Ngircd, person
from tests.platforms.irc.ngircd import Person as Client

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

_FULL = 300  # bytes: a line that long was cut, and goes on in the next
_BOT = "holdfast"
_CHANNEL = "#club"


def _shown(lines: Sequence[IrcMessage]) -> list[VisibleMessage]:
    """Lines as messages, as a reader takes them: a line that is full, or says that it may be a
    repetition, belongs to the one behind it."""
    messages: list[VisibleMessage] = []
    joint: str | None = None
    for heard in lines:
        text = strip_formatting(heard.trailing, nick=heard.nick) or ""
        place = ChatKind.GROUP if heard.param(0).startswith("#") else ChatKind.DM
        if joint is not None:
            text = f"{messages.pop().text}{joint}{text}"
        answers = heard.tags.get("+draft/reply")
        messages.append(VisibleMessage(text=text, chat=place, reply_to=answers))
        full = len(heard.trailing.encode()) >= _FULL
        joint = "" if full else "\n" if heard.trailing == REPEAT_NOTICE.strip() else None
    return messages


class NgircdGround(PlatformHarness):
    """People are clients of the server, and the bot comes through a proxy that can break."""

    def __init__(
        self,
        door: IrcPlatform,
        settings: IrcSettings,
        proxy: FaultProxy,
        people: dict[Participant, Client],
    ) -> None:
        self.platform = door
        self._nick = settings.nick
        (self._channel,) = settings.channels
        self._proxy = proxy
        self._people = people
        self._numbers = count(1)

    def address(self) -> Address:
        return address(self._people[Participant.ANN].mask)

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
        somebody, bot = self._people[by], await self._bot()
        target = self._channel if chat is ChatKind.GROUP else bot
        words = f"{bot}: {text}" if mention and chat is ChatKind.GROUP else text
        # What programs say by themselves is a NOTICE, so that no other answers it.
        somebody.do("NOTICE" if by is Participant.PROGRAM else "PRIVMSG", target, words)
        token = f"said{next(self._numbers)}"
        somebody.do("PING", token)
        await until(lambda: any(heard.trailing == token for heard in somebody.read))
        return token

    async def bot_messages(self) -> Sequence[VisibleMessage]:
        lines = [
            heard
            for heard in self._people[Participant.ANN].read
            if heard.command == "PRIVMSG" and heard.nick.rstrip("_") == self._nick
        ]
        return _shown(lines)

    async def set_fault(self, fault: VendorFault) -> None:
        ann = self._people[Participant.ANN]
        match fault:
            case VendorFault.REFUSED:  # she is called otherwise, and nobody is by her nick
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
                raise NotSupported(
                    "ngircd makes no such trouble, and the door asks it more than that"
                )

    async def _bot(self) -> str:
        """The nick that the bot has now: one that was cut off may leave its own behind a while."""
        ann = self._people[Participant.ANN]
        while True:
            ann.read[:] = [heard for heard in ann.read if heard.command != "353"]
            ann.do("NAMES", self._channel)
            await until(lambda: any(heard.command == "353" for heard in ann.read))
            names = next(heard.trailing for heard in ann.read if heard.command == "353").split()
            bots = [name for name in names if name.lstrip("@+").rstrip("_") == self._nick]
            if len(bots) == 1:
                return bots[0].lstrip("@+")


async def _renamed(somebody: Client, nick: str) -> None:
    before = somebody.verbs().count("NICK")
    somebody.do("NICK", nick)
    await until(lambda: somebody.verbs().count("NICK") > before)


class HistoryGround(PlatformHarness):
    """People speak to a server of IRCv3."""

    shows_replies = True

    def __init__(self, door: IrcPlatform, server: fake_ircv3.Server) -> None:
        self.platform = door
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
        return _shown(self._server.said)

    async def set_fault(self, fault: VendorFault) -> None:
        server = self._server
        faults = {
            VendorFault.RATE_LIMIT: fake_ircv3.flood,
            VendorFault.REFUSED: fake_ircv3.gone,
            VendorFault.RECEIPT_LOST: fake_ircv3.cut_after,
        }
        if fault in faults:
            server.faults.append(faults[fault])
        elif fault is VendorFault.BAD_CREDENTIALS:
            server.password = "another"
        elif fault is VendorFault.UNREACHABLE:
            server.away = True
            if server.session is not None:
                server.session.cut()
        elif fault is VendorFault.NONE:
            server.away, server.password = False, fake_ircv3.PASSWORD
        else:
            raise NotSupported("a silent line is asked of the real server")


@asynccontextmanager
async def irc_on_ngircd(
    server: Ngircd, new_nick: Callable[[str], str]
) -> AsyncIterator[PlatformHarness]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        bot, channel = new_nick(_BOT), new_nick(_CHANNEL)
        people = {}
        for each in Participant:
            people[each] = await stack.enter_async_context(
                person(server.port, new_nick(each.name.lower()))
            )
            people[each].do("JOIN", channel)
        proxy = await stack.enter_async_context(FaultProxy(server.port))
        settings = settings_for(proxy.port, nick=bot, channels=(channel,))
        yield NgircdGround(door_to(settings, folder, patience=6.0), settings, proxy, people)


@asynccontextmanager
async def irc_with_history() -> AsyncIterator[PlatformHarness]:
    """A door that was connected before: what a server can do is known from then on."""
    with TemporaryDirectory() as folder:
        async with fake_ircv3.Server().serving() as server:
            settings = settings_for(server.port, channels=(_CHANNEL,))
            door = door_to(settings, Path(folder), password=fake_ircv3.PASSWORD)
            async with door.connect(RecordingIntake()):
                pass
            yield HistoryGround(door, server)
