"""Grounds: a bot on a real ngircd, and one on a server of IRCv3 that keeps a history."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.platforms.irc import ircv3
from tests.platforms.irc.doors import address, door_to, settings_for, until
from tests.platforms.irc.ngircd import Ngircd, person
from tests.platforms.irc.ngircd import Person as Client

from holdfast.core.messages.outbox import Address, SentFile
from holdfast.platforms.irc.formatting import plain
from holdfast.platforms.irc.platform import IrcPlatform
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.sender import REPEATED
from holdfast.platforms.irc.wire import Heard
from holdfast.testing.conformance import Ground, NotToBeHad, Person, Place, Proxy, Shown, Trouble
from holdfast.testing.intake import RecordingIntake

_FULL = 300  # bytes: a line that long was cut, and goes on in the next
_BOT = "holdfast"
_CHANNEL = "#club"


def _shown(lines: Sequence[Heard]) -> list[Shown]:
    """Lines as messages, as a reader takes them: a line that is full, or says that it may be a
    repetition, belongs to the one behind it."""
    messages: list[Shown] = []
    joint: str | None = None
    for heard in lines:
        text = plain(heard.last, nick=heard.nick) or ""
        place = Place.GROUP if heard.param(0).startswith("#") else Place.DM
        if joint is not None:
            text = f"{messages.pop().text}{joint}{text}"
        answers = heard.tags.get("+draft/reply")
        messages.append(Shown(text=text, place=place, answers=answers))
        full = len(heard.last.encode()) >= _FULL
        joint = "" if full else "\n" if heard.last == REPEATED.strip() else None
    return messages


class NgircdGround(Ground):
    """People are clients of the server, and the bot comes through a proxy that can break."""

    def __init__(
        self,
        door: IrcPlatform,
        settings: IrcSettings,
        proxy: Proxy,
        people: dict[Person, Client],
    ) -> None:
        self.door = door
        self._nick = settings.nick
        (self._channel,) = settings.channels
        self._proxy = proxy
        self._people = people
        self._numbers = count(1)

    def address(self) -> Address:
        return address(self._people[Person.ANN].mask)

    async def say(
        self,
        text: str,
        *,
        by: Person = Person.ANN,
        place: Place = Place.DM,
        named: bool = False,
        answers: str | None = None,
        files: Sequence[SentFile] = (),
    ) -> str:
        if answers is not None:
            raise NotToBeHad("without tags, a message does not say what it answers")
        somebody, bot = self._people[by], await self._bot()
        target = self._channel if place is Place.GROUP else bot
        words = f"{bot}: {text}" if named and place is Place.GROUP else text
        # What programs say by themselves is a NOTICE, so that no other answers it.
        somebody.do("NOTICE" if by is Person.PROGRAM else "PRIVMSG", target, words)
        token = f"said{next(self._numbers)}"
        somebody.do("PING", token)
        await until(lambda: any(heard.last == token for heard in somebody.read))
        return token

    async def read(self) -> Sequence[Shown]:
        lines = [
            heard
            for heard in self._people[Person.ANN].read
            if heard.verb == "PRIVMSG" and heard.nick.rstrip("_") == self._nick
        ]
        return _shown(lines)

    async def trouble(self, trouble: Trouble) -> None:
        ann = self._people[Person.ANN]
        match trouble:
            case Trouble.REFUSED:  # she is called otherwise, and nobody is by her nick
                await _renamed(ann, f"{ann.nick}away")
            case Trouble.AWAY:
                self._proxy.go_away()
            case Trouble.SILENT:
                self._proxy.fall_silent()
            case Trouble.WELL:
                self._proxy.be_well()
                if "NICK" in ann.verbs():
                    await _renamed(ann, ann.nick)
            case _:
                raise NotToBeHad(
                    "ngircd makes no such trouble, and the door asks it more than that"
                )

    async def _bot(self) -> str:
        """The nick that the bot has now: one that was cut off may leave its own behind a while."""
        ann = self._people[Person.ANN]
        while True:
            ann.read[:] = [heard for heard in ann.read if heard.verb != "353"]
            ann.do("NAMES", self._channel)
            await until(lambda: any(heard.verb == "353" for heard in ann.read))
            names = next(heard.last for heard in ann.read if heard.verb == "353").split()
            bots = [name for name in names if name.lstrip("@+").rstrip("_") == self._nick]
            if len(bots) == 1:
                return bots[0].lstrip("@+")


async def _renamed(somebody: Client, nick: str) -> None:
    before = somebody.verbs().count("NICK")
    somebody.do("NICK", nick)
    await until(lambda: somebody.verbs().count("NICK") > before)


class HistoryGround(Ground):
    """People speak to a server of IRCv3."""

    shows_answers = True

    def __init__(self, door: IrcPlatform, server: ircv3.Server) -> None:
        self.door = door
        self._server = server

    def address(self) -> Address:
        return address("ann")

    async def say(
        self,
        text: str,
        *,
        by: Person = Person.ANN,
        place: Place = Place.DM,
        named: bool = False,
        answers: str | None = None,
        files: Sequence[SentFile] = (),
    ) -> str:
        words = f"{_BOT}, {text}" if named and place is Place.GROUP else text
        return self._server.say(
            words,
            by=ircv3.BOB if by is Person.BOB else ircv3.ANN,
            to=_CHANNEL if place is Place.GROUP else _BOT,
            answers=answers,
            **({"bot": ""} if by is Person.PROGRAM else {}),
        )

    async def read(self) -> Sequence[Shown]:
        return _shown(self._server.said)

    async def trouble(self, trouble: Trouble) -> None:
        server = self._server
        faults = {
            Trouble.FLOOD: ircv3.flood,
            Trouble.REFUSED: ircv3.gone,
            Trouble.RECEIPT_LOST: ircv3.cut_after,
        }
        if trouble in faults:
            server.faults.append(faults[trouble])
        elif trouble is Trouble.SHUT_OUT:
            server.password = "another"
        elif trouble is Trouble.AWAY:
            server.away = True
            if server.session is not None:
                server.session.cut()
        elif trouble is Trouble.WELL:
            server.away, server.password = False, ircv3.PASSWORD
        else:
            raise NotToBeHad("a silent line is asked of the real server")


@asynccontextmanager
async def irc_on_ngircd(server: Ngircd, new_nick: Callable[[str], str]) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        bot, channel = new_nick(_BOT), new_nick(_CHANNEL)
        people = {}
        for each in Person:
            people[each] = await stack.enter_async_context(
                person(server.port, new_nick(each.name.lower()))
            )
            people[each].do("JOIN", channel)
        proxy = await stack.enter_async_context(Proxy(server.port))
        settings = settings_for(proxy.port, nick=bot, channels=(channel,))
        yield NgircdGround(door_to(settings, folder, patience=6.0), settings, proxy, people)


@asynccontextmanager
async def irc_with_history() -> AsyncIterator[Ground]:
    """A door that was connected before: what a server can do is known from then on."""
    with TemporaryDirectory() as folder:
        async with ircv3.Server().serving() as server:
            settings = settings_for(server.port, channels=(_CHANNEL,))
            door = door_to(settings, Path(folder), password=ircv3.PASSWORD)
            async with door.connect(RecordingIntake()):
                pass
            yield HistoryGround(door, server)
