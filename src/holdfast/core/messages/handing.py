"""Handing over: words and files that a turn gives to people, besides its answer."""

from typing import Protocol

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import CallId

HERE = "here"  # the chat that the turn works for


class SendNotPossible(HoldfastError):
    """Nothing will reach anybody; the text says why, to the agent."""


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be brought to a chat; `path` names a file of the workspace to go with it."""

    to: str  # `here`, `home`, or platform:chat
    text: str
    path: str = ""


class MessageSender(Protocol):
    """Each call of a turn hands over once: asked again, by whatever process, it is the same
    delivery."""

    async def send_file(self, call_id: CallId, path: str, *, caption: str) -> None:
        """Returns once the file is owed to the chat of the turn, durably. It is read again when it
        is sent: until then it had better stay. Raises `SendNotPossible`."""
        ...

    async def send_message(self, call_id: CallId, message: OutgoingMessage) -> str:
        """Returns once it is owed, durably, and says to which chat. Raises `SendNotPossible`."""
        ...

    async def was_queued(self, call_id: CallId) -> bool:
        """Whether this call, started by an earlier process, has handed over what it was to."""
        ...
