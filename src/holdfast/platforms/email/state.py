"""What a mailbox keeps between connections: checkpoint, loop limiter and poison mails.

Imports none of the mail libraries: the platform object needs it before they are imported.
"""

import asyncio
from collections import Counter, deque
from pathlib import Path

import msgspec

from holdfast.system import state_file

_LOSS_CONSEQUENCE = "mails that were skipped since the last accepted mail are processed again."
_HOUR = 3600.0
_MAX_SENDERS = 10_000  # that are counted; the one silent for longest is dropped
_MAX_FAILURES = 10  # spread over some minutes of reconnects, so that a server can recover


class MailboxPosition(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Everything up to this UID was processed at this time. If the server renumbers its mail, it
    changes UIDVALIDITY: then only the time is meaningful."""

    validity: int
    uid: int
    at: float

    def __str__(self) -> str:
        return f"{self.validity}:{self.uid}:{self.at:.0f}"

    @classmethod
    def parse(cls, text: str | None) -> "MailboxPosition | None":
        """The inverse of `str`; None if the text is not a position."""
        try:
            validity, uid, at = (text or "").split(":")
            return cls(validity=int(validity), uid=int(uid), at=float(at))
        except ValueError:
            return None


class MailboxCheckpoint:
    """Owns the file that says how far a mailbox was processed; most mails leave no row in the
    inbox. It may lag behind: then some mails are processed twice, but none is missed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self) -> MailboxPosition | None:
        return await asyncio.to_thread(
            state_file.load, self._path, MailboxPosition, consequence=_LOSS_CONSEQUENCE
        )

    async def save(self, position: MailboxPosition) -> None:
        """Durable when this returns. Raises `TransientStoreError`."""
        await state_file.save(self._path, position)


class LoopLimiter:
    """Limits how many mails of one sender are answered within an hour, against mail loops. Owns the
    arrival times of accepted mails by sender. Not persisted: a loop that continues after a restart
    is detected again."""

    def __init__(self, *, hourly_limit: int) -> None:
        self._hourly_limit = hourly_limit
        self._arrivals: dict[str, deque[float]] = {}

    def is_over_limit(self, address: str, *, at: float) -> bool:
        """Whether a mail that arrived at this time exceeds the limit. Arrival times count, not
        processing times: mails that waited for a stopped gateway came over days, but are processed
        within a minute."""
        times = self._arrivals.get(address, deque())
        while times and not 0 <= at - times[0] < _HOUR:
            times.popleft()
        return len(times) >= self._hourly_limit

    def record(self, address: str, *, at: float) -> None:
        times = self._arrivals.pop(address, deque())
        times.append(at)
        self._arrivals[address] = times  # moved to the end: the first sender is silent for longest
        if len(self._arrivals) > _MAX_SENDERS:
            del self._arrivals[next(iter(self._arrivals))]


class PoisonMails:
    """Mails that the server does not deliver however often it is asked. Owns the failures per mail,
    across connections."""

    def __init__(self) -> None:
        self._failures: Counter[tuple[int, int]] = Counter()

    def record_failure(self, position: MailboxPosition) -> None:
        self._failures[position.validity, position.uid] += 1

    def is_poison(self, position: MailboxPosition) -> bool:
        """Whether to skip this mail from now on: later mails wait behind it."""
        return self._failures[position.validity, position.uid] >= _MAX_FAILURES
