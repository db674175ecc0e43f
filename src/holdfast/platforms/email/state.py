"""What a mailbox keeps from one connection to the next: its checkpoint, its loop limiter, and its poison mails.

Imports none of the mail libraries: the platform object needs it before they are imported.
"""

import asyncio
from collections import Counter, deque
from pathlib import Path

import msgspec

from holdfast.system import state_file

# MERGED holdfast.platforms.email.record: The record: how far a mailbox was looked through, which most of its mail leaves no row of.
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


# MERGED holdfast.platforms.email.guard: The guard against loops: how much mail of one person is answered within an hour.
_HOUR = 3600.0
_MAX_SENDERS = 10_000  # that are counted; the longest silent one makes way


class LoopLimiter:
    """Owns when mail arrived that was taken, by who wrote it. Lost with the process: a loop that a
    restart lets go on is found again."""

    def __init__(self, *, hourly_limit: int) -> None:
        self._hourly_limit = hourly_limit
        self._arrivals: dict[str, deque[float]] = {}

    def is_over_limit(self, address: str, *, at: float) -> bool:
        """Whether one that has arrived at that time is too much. By when they arrived: what waits
        for a gateway that was down has come over days, and is taken in a minute."""
        taken = self._arrivals.get(address, deque())
        while taken and not 0 <= at - taken[0] < _HOUR:
            taken.popleft()
        return len(taken) >= self._hourly_limit

    def record(self, address: str, *, at: float) -> None:
        times = self._arrivals.pop(address, deque())
        times.append(at)
        self._arrivals[address] = times  # at the end: the first are the longest silent
        if len(self._arrivals) > _MAX_SENDERS:
            del self._arrivals[next(iter(self._arrivals))]


# MERGED holdfast.platforms.email.broken: Broken mail: what a server does not give, however often it is asked.
_MAX_FAILURES = (
    10  # over some minutes, as lines are tried again: a server that is mended gives it by then
)


class PoisonMails:
    """Owns how often the server has said no to which mail, over one line after the other."""

    def __init__(self) -> None:
        self._failures: Counter[tuple[int, int]] = Counter()

    def record_failure(self, position: MailboxPosition) -> None:
        self._failures[position.validity, position.uid] += 1

    def is_poison(self, position: MailboxPosition) -> bool:
        """From now on it is passed over: what has come behind it waits."""
        return self._failures[position.validity, position.uid] >= _MAX_FAILURES
