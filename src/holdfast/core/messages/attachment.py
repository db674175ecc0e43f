"""An attachment: a file that came with a message, and has not been fetched yet."""

from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.errors import HoldfastError

ATTACHED_PREFIX = "[Attached, "
"""What the line begins with that names, behind the words of a message, the files that came."""


class AttachmentUnavailable(HoldfastError):
    """The file is not to be had, now or later; the text says why, for the sender and the agent."""


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """`fetch` brings the whole file. It raises `AttachmentUnavailable` where that will never work, and
    anything else where the message had better be taken again later."""

    name: str  # as its sender calls it; nobody has looked at it yet
    fetch: Callable[[], Awaitable[bytes]]
    size: int | None = None  # in bytes, where the platform says it before
