"""The harness that the author of a platform writes (a vendor with one bot and a few people), and the check that runs against it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import msgspec
import pytest

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.core.ports.platform import Platform


# MERGED holdfast.testing.conformance.ground: A ground: a vendor with one bot and a few people, as the author of a door describes it.
class NotSupported(Exception):
    """The vendor has no such thing, or this ground cannot bring it about: the check is skipped,
    and the text is printed as the reason."""


class Participant(Enum):
    """Who writes."""

    ANN = auto()
    BOB = auto()
    PROGRAM = auto()  # a bot that is none of ours, a hook, an automatic reply


class ChatKind(Enum):
    """Where something stands. The bot, Ann, Bob and the program are members of all but the chats
    of two, of which each of them has one with the bot."""

    DM = auto()
    GROUP = auto()
    THREAD = auto()  # one of the group


class VendorFault(Enum):
    """What goes wrong. The first three become of the next message that the bot sends, once; the
    others last until all is `WELL`."""

    RATE_LIMIT = auto()  # it is not taken: the bot is told to wait for some seconds
    REFUSED = auto()  # it is not taken, and never will be
    RECEIPT_LOST = auto()  # it is taken, and the line breaks before the bot is told so
    BAD_CREDENTIALS = auto()  # the bot's credentials hold no longer
    UNREACHABLE = auto()  # nobody answers there: lines that are open break, and no other is let in
    HALF_OPEN = auto()  # lines that are open look whole, and nothing comes through them either way
    NONE = auto()  # the vendor is there again, and knows the bot


class VisibleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the bot as people see it now."""

    text: str  # without what only formats it, where that is easy to take away
    chat: ChatKind = ChatKind.DM
    files: tuple[OutboundFile, ...] = ()
    choices: tuple[str, ...] = ()  # the labels of its buttons
    reply_to: str | None = None  # the name of the message that it is shown as the answer to


class PlatformHarness(ABC):
    """A vendor that has just been started (or a server on which fresh accounts were made), and a
    door to it that nobody has connected. Each check gets one of its own.

    What is abstract is all that a door needs to be tested at all. Whatever else a vendor has is
    offered by overriding the method; what it has not is left as it is, or raises `NotSupported`.
    A message's *name* is how the ground knows it again; what `send` gave as the receipt of a
    message of the bot is a name, too.
    """

    platform: Platform
    shows_replies = False  # whether `Shown.answers` is to be believed
    has_connection = True  # False: vendor and door are one process, so there is none to be missing

    @abstractmethod
    def address(self) -> Address:
        """The chat of two with Ann."""

    @abstractmethod
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
        """Somebody writes to the bot, or where it can hear it; the name of the message. With
        `named` the bot is named as people there do it, `answers` is the name of the message that
        this one is a reply to. Returns when the vendor has taken it."""

    @abstractmethod
    async def bot_messages(self) -> Sequence[VisibleMessage]:
        """What stands of the bot's messages, in all places, from the oldest to the newest."""

    async def acknowledged(self) -> int:
        """How many messages of people the vendor has been told to be received. Asked only where
        the door declares that its backlog is kept until then."""
        raise NotSupported("the vendor does not say what was acknowledged")

    async def edit(self, name: str, text: str) -> None:
        """Whoever wrote it changes their message."""
        raise NotSupported("people cannot change there what they have said")

    async def press(self, label: str) -> None:
        """Ann presses the button with that label under the newest message of the bot."""
        raise NotSupported("this ground has no buttons")

    async def reactions(self, name: str) -> Sequence[str]:
        """The signs that the bot has on that message of a person. Asked only where the door
        declares that it marks messages."""
        raise NotSupported("it is not to be seen there who has marked a message")

    async def set_fault(self, fault: VendorFault) -> None:
        raise NotSupported(f"this ground makes no trouble ({fault.name})")


# MERGED holdfast.testing.conformance.check: A check: one promise of a door, with the rule by which it is skipped.
@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """A promise that can be asked of any ground. Raises what a failing test raises; skips the test
    that calls it where the door declares, or the ground says, that there is nothing to ask."""

    promise: Callable[[PlatformHarness], Awaitable[None]]

    def __str__(self) -> str:
        return self.promise.__name__

    async def __call__(self, harness: PlatformHarness) -> None:
        try:
            await self.promise(harness)
        except NotSupported as reason:
            pytest.skip(str(reason))


def require(condition: object, reason: str) -> None:
    """What a check is about is not there, for that reason."""
    if not condition:
        raise NotSupported(reason)
