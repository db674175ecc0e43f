"""The harness that the author of a platform writes (a vendor with one bot and a few people), and
the check that runs against it."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import msgspec
import pytest

from holdfast.core.messages.outbox import Address, OutboundFile
from holdfast.core.ports.platform import Platform


class NotSupported(Exception):
    """The vendor has no such feature, or the harness cannot cause it: the check is skipped, and the
    text is printed as the reason."""


class Participant(Enum):
    """Who writes."""

    ANN = auto()
    BOB = auto()
    PROGRAM = auto()  # another bot, a webhook, an automatic reply


class ChatKind(Enum):
    """Where a message is. The bot, Ann, Bob and the program are members of the group; each of them
    also has a direct chat with the bot."""

    DM = auto()
    GROUP = auto()
    THREAD = auto()  # a thread of the group


class VendorFault(Enum):
    """What goes wrong. The first three apply to the next message that the bot sends, once; the
    others last until `NONE` is set."""

    RATE_LIMIT = auto()  # not accepted: the bot has to wait for some seconds
    REFUSED = auto()  # not accepted, and never will be
    RECEIPT_LOST = auto()  # accepted, but the connection breaks before the bot gets the receipt
    BAD_CREDENTIALS = auto()  # the bot's credentials are no longer valid
    UNREACHABLE = auto()  # open connections break, and no new one is accepted
    HALF_OPEN = auto()  # open connections look intact, but nothing comes through either way
    NONE = auto()  # the vendor is reachable again, and knows the bot


class VisibleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the bot as people see it now."""

    text: str  # without formatting marks, where those are easy to remove
    chat: ChatKind = ChatKind.DM
    files: tuple[OutboundFile, ...] = ()
    buttons: tuple[str, ...] = ()  # the labels
    reply_to: str | None = None  # the id of the message that it is shown as a reply to


class PlatformHarness(ABC):
    """A vendor that has just been started (or a server with fresh accounts), and a platform for it
    that is not connected yet. Each check gets its own harness.

    The abstract methods are the minimum for testing a platform. Override a method to offer what
    else the vendor has; leave it, or raise `NotSupported`, where the vendor has no such feature. A
    message *id* is how the harness identifies a message; what `send` returned as the receipt of a
    message of the bot is such an id too.
    """

    platform: Platform
    shows_replies = False  # whether `VisibleMessage.reply_to` is filled in
    has_connection = True  # False: vendor and platform are in one process, nothing can disconnect

    @abstractmethod
    def address(self) -> Address:
        """The direct chat with Ann."""

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
        """Writes a message to the bot, or in a chat of the bot, and returns its id. With `mention`
        the bot is mentioned as is usual at that vendor; `reply_to` is the id of the message that
        this one replies to. Returns when the vendor has accepted it."""

    @abstractmethod
    async def bot_messages(self) -> Sequence[VisibleMessage]:
        """The bot's messages in all chats, from the oldest to the newest."""

    async def acknowledged(self) -> int:
        """How many messages of people were acknowledged at the vendor. Called only where the
        platform declares a backlog that is kept until then."""
        raise NotSupported("the vendor does not show what was acknowledged")

    async def edit(self, message_id: str, text: str) -> None:
        """The author of the message edits it."""
        raise NotSupported("people cannot edit their messages there")

    async def delete_answer(self) -> None:
        """Someone who may do so deletes the newest message of the bot. Called only where the
        platform declares edits."""
        raise NotSupported("the bot's messages cannot be deleted there")

    async def too_large_file(self) -> OutboundFile:
        """A file that the vendor refuses because of its size. Called only where the platform
        declares outgoing files."""
        raise NotSupported("no file is too large there")

    async def press(self, label: str) -> None:
        """Ann presses the button with that label below the newest message of the bot."""
        raise NotSupported("there are no buttons in this harness")

    async def reactions(self, message_id: str) -> Sequence[str]:
        """The bot's reactions to that message of a person. Called only where the platform declares
        reactions."""
        raise NotSupported("reactions cannot be seen there")

    async def revoke_after(self, requests: int) -> None:
        """The bot's credentials become invalid after that many further requests of the bot.
        `VendorFault.NONE` makes them valid again."""
        raise NotSupported("the credentials cannot be revoked between two requests there")

    async def revoked(self) -> bool:
        """Whether the credentials have become invalid since `revoke_after`."""
        raise NotSupported("the credentials cannot be revoked between two requests there")

    async def set_fault(self, fault: VendorFault) -> None:
        raise NotSupported(f"this harness cannot produce the fault {fault.name}")


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """A promise that can be checked with any harness. Raises what a failing test raises; skips the
    test that calls it where the platform declares, or the harness says, that it does not apply."""

    promise: Callable[[PlatformHarness], Awaitable[None]]

    def __str__(self) -> str:
        return self.promise.__name__

    async def __call__(self, harness: PlatformHarness) -> None:
        try:
            await self.promise(harness)
        except NotSupported as reason:
            pytest.skip(str(reason))


def require(condition: object, reason: str) -> None:
    """Skips the check with that reason unless the condition holds."""
    if not condition:
        raise NotSupported(reason)
