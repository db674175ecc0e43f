"""Groups: what is meant for the agent among all that is said there, and where a loop is broken."""

from collections.abc import Iterator

import msgspec

from holdfast.core.config.settings import Answers, ChatSettings, Settings
from holdfast.core.errors import NotMeant
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.people.commands import BY_NAME
from holdfast.gateway.commands.command import parse

IN_A_ROW = 50  # messages of one person that are answered while nobody else speaks
PAUSE = 600.0  # seconds of silence after which they count anew
_BOTS = ""  # as a voice: all of them are one
_MOST = 10_000  # chats that are counted in; the longest silent one makes way

_USUAL = ChatSettings()


class LoopFound(NotMeant):
    """This one, and those after it, are not answered: it may be a program that answers us."""


class _Row(msgspec.Struct, kw_only=True):
    """What was said last in a chat without anybody else speaking."""

    voice: str
    count: int = 0  # of those that were taken in
    told: bool = False  # why there are no more
    at: float = 0.0


class Groups:
    """Owns how many messages of one voice were answered in a row, by chat. Lost with the process:
    a loop that a restart lets go on is found again."""

    def __init__(self, settings: Settings) -> None:
        self._rows: dict[tuple[str, str, str], _Row] = {}
        self.follow(settings)

    def follow(self, settings: Settings) -> None:
        """What holds in a chat is this from now on; who spoke how often is not forgotten."""
        self._chats = dict(_chats(settings))

    def hear(self, inbound: Inbound, *, now: float) -> None:
        """Returns where the message is to be answered if its writer may talk; raises `NotMeant`
        where it is not, and `LoopFound`, until the chat was told, where it goes round.

        Nothing is counted here: a message that cannot be kept at the moment is brought again and
        again, and is one message all the same."""
        source = inbound.source
        if source.author is Author.OURSELVES:
            raise NotMeant("it was written by this account itself")
        chat = self._chats.get(_place(source), _USUAL)
        row = self._row(source, now)
        if source.chat_type is not ChatType.DM and not is_meant(inbound, chat.answers):
            raise NotMeant("it was not said to the agent")
        bot = source.author is Author.BOT
        most = chat.bots if bot else IN_A_ROW
        if row.count < most:
            return
        found = NotMeant if bot or row.told else LoopFound
        raise found(f"{most} of one voice were answered in a row")

    def kept(self, source: Source, *, now: float) -> None:
        """A message from there was taken in, and will be answered."""
        row = self._row(source, now)
        row.count, row.at = row.count + 1, now

    def told(self, source: Source, *, now: float) -> None:
        """The chat has heard why there are no more answers."""
        row = self._row(source, now)
        row.told, row.at = True, now

    def _row(self, source: Source, now: float) -> _Row:
        place = _place(source)
        voice = _BOTS if source.author is Author.BOT else source.user_id
        row = self._rows.pop(place, None)
        if row is None or row.voice != voice or not 0 <= now - row.at < PAUSE:
            row = _Row(voice=voice, at=now)
        self._rows[place] = row  # at the end: the first are the longest silent
        if len(self._rows) > _MOST:
            del self._rows[next(iter(self._rows))]
        return row


def _place(source: Source) -> tuple[str, str, str]:
    return source.platform, source.account, source.chat_id


def is_meant(inbound: Inbound, answers: Answers) -> bool:
    """Whether a message in a group is for the agent. One that calls another bot's command by that
    bot's name never is, unless the door says that the name is ours."""
    command = _command(inbound)
    if command is not None and "@" in command:
        return inbound.mentioned
    answered = inbound.quoted is not None and inbound.quoted.ours
    return inbound.mentioned or answered or answers is Answers.ALL or command in BY_NAME


def _command(inbound: Inbound) -> str | None:
    """The name of a command, with the name of the bot that it calls, if there is one."""
    parsed = parse(inbound.text) if inbound.commands else None
    if parsed is None:
        return None
    word = inbound.text.split(maxsplit=1)[0]
    return word if "@" in word else parsed[0]


def _chats(settings: Settings) -> Iterator[tuple[tuple[str, str, str], ChatSettings]]:
    for name, account, each in settings.every_account():
        for chat_id, chat in each.chats.items():
            yield (name, account, chat_id), chat
