"""A ground: a vendor with one bot and a few people, as the author of a door describes it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from holdfast.core.messages.outbox import Address, SentFile
from holdfast.core.ports.protocols import Platform


class NotToBeHad(Exception):
    """The vendor has no such thing, or this ground cannot bring it about: the check is skipped,
    and the text is printed as the reason."""


class Person(Enum):
    """Who writes."""

    ANN = auto()
    BOB = auto()
    PROGRAM = auto()  # a bot that is none of ours, a hook, an automatic reply


class Place(Enum):
    """Where something stands. The bot, Ann, Bob and the program are members of all but the chats
    of two, of which each of them has one with the bot."""

    DM = auto()
    GROUP = auto()
    THREAD = auto()  # one of the group


class Trouble(Enum):
    """What goes wrong. The first three become of the next message that the bot sends, once; the
    others last until all is `WELL`."""

    FLOOD = auto()  # it is not taken: the bot is told to wait for some seconds
    REFUSED = auto()  # it is not taken, and never will be
    RECEIPT_LOST = auto()  # it is taken, and the line breaks before the bot is told so
    SHUT_OUT = auto()  # the bot's credentials hold no longer
    AWAY = auto()  # nobody answers there: lines that are open break, and no other is let in
    SILENT = auto()  # lines that are open look whole, and nothing comes through them either way
    WELL = auto()  # the vendor is there again, and knows the bot


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the bot as people see it now."""

    text: str  # without what only formats it, where that is easy to take away
    place: Place = Place.DM
    files: tuple[SentFile, ...] = ()
    choices: tuple[str, ...] = ()  # the labels of its buttons
    answers: str | None = None  # the name of the message that it is shown as the answer to


class Ground(ABC):
    """A vendor that has just been started (or a server on which fresh accounts were made), and a
    door to it that nobody has connected. Each check gets one of its own.

    What is abstract is all that a door needs to be tested at all. Whatever else a vendor has is
    offered by overriding the method; what it has not is left as it is, or raises `NotToBeHad`.
    A message's *name* is how the ground knows it again; what `send` gave as the receipt of a
    message of the bot is a name, too.
    """

    door: Platform
    shows_answers = False  # whether `Shown.answers` is to be believed
    has_line = True  # False: vendor and door are one process, so there is none to be missing

    @abstractmethod
    def address(self) -> Address:
        """The chat of two with Ann."""

    @abstractmethod
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
        """Somebody writes to the bot, or where it can hear it; the name of the message. With
        `named` the bot is named as people there do it, `answers` is the name of the message that
        this one is a reply to. Returns when the vendor has taken it."""

    @abstractmethod
    async def read(self) -> Sequence[Shown]:
        """What stands of the bot's messages, in all places, from the oldest to the newest."""

    async def acknowledged(self) -> int:
        """How many messages of people the vendor has been told to be received. Asked only where
        the door declares that its backlog is kept until then."""
        raise NotToBeHad("the vendor does not say what was acknowledged")

    async def revise(self, name: str, text: str) -> None:
        """Whoever wrote it changes their message."""
        raise NotToBeHad("people cannot change there what they have said")

    async def press(self, label: str) -> None:
        """Ann presses the button with that label under the newest message of the bot."""
        raise NotToBeHad("this ground has no buttons")

    async def signs(self, name: str) -> Sequence[str]:
        """The signs that the bot has on that message of a person. Asked only where the door
        declares that it marks messages."""
        raise NotToBeHad("it is not to be seen there who has marked a message")

    async def trouble(self, trouble: Trouble) -> None:
        raise NotToBeHad(f"this ground makes no trouble ({trouble.name})")
