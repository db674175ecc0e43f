"""The record: how far a mailbox was looked through, which most of its mail leaves no row of."""

import asyncio
from pathlib import Path

import msgspec

from holdfast.system import state_file

_LOSS_CONSEQUENCE = "what was passed over since the last mail that was kept is looked at again."


class MailboxPosition(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Everything up to that UID was looked at, at that time. A server that numbers its mail anew
    says so by another UIDVALIDITY: then only the time is worth something."""

    validity: int
    uid: int
    at: float

    def __str__(self) -> str:
        return f"{self.validity}:{self.uid}:{self.at:.0f}"

    @classmethod
    def parse(cls, text: str | None) -> "MailboxPosition | None":
        """What `str` made of one; None: it is none."""
        try:
            validity, uid, at = (text or "").split(":")
            return cls(validity=int(validity), uid=int(uid), at=float(at))
        except ValueError:
            return None


class MailboxCheckpoint:
    """Owns one file. What it says may be old: whoever goes by it looks at some mail twice, and at
    none never."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self) -> MailboxPosition | None:
        return await asyncio.to_thread(
            state_file.load, self._path, MailboxPosition, consequence=_LOSS_CONSEQUENCE
        )

    async def save(self, position: MailboxPosition) -> None:
        """Durable when this returns. Raises `TransientStoreError`."""
        await state_file.save(self._path, position)
