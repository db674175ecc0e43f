"""Handing over: files of the workspace, given to the people that a turn works for."""

from typing import Protocol

from holdfast.core.errors import HoldfastError


class NotHanded(HoldfastError):
    """The file will not reach anybody; the text says why, to the agent."""


class Handing(Protocol):
    async def hand_over(self, path: str, *, caption: str) -> None:
        """Returns once the file is owed to the chat, durably. It is read again when it is sent:
        until then it had better stay. Raises `NotHanded`."""
        ...
