"""Receiving: what is new in the folder, from where it was left, mail by mail."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from holdfast.core.errors import IntakeClosed, StoreError, StoreFailing
from holdfast.core.ports.protocols import Clock
from holdfast.platforms.email.broken import Broken
from holdfast.platforms.email.mailbox import Mailbox, NotGiven
from holdfast.platforms.email.record import Mark, Record
from holdfast.platforms.email.taking import Taking
from holdfast.platforms.pauses import growing

log = logging.getLogger(__name__)


class Receiving:
    """Owns how far the folder was looked through."""

    def __init__(
        self,
        box: Mailbox,
        taking: Taking,
        record: Record,
        broken: Broken,
        *,
        clock: Clock,
        idle: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._box = box
        self._taking = taking
        self._record = record
        self._broken = broken
        self._clock = clock
        self._idle = idle
        self._sleep = sleep
        self._validity = self._uid = 0
        self._remembered: tuple[int, int] | None = None

    async def begin(self, folder: str, cursor: Mark | None) -> list[int]:
        """What waits there. A mailbox that nobody has looked at before has nothing new in it, and
        that is durable when this returns: what comes from now on is."""
        self._validity, following = await self._box.select(folder)
        left = [each for each in (await self._record.load(), cursor) if each is not None]
        here = [each.uid for each in left if each.validity == self._validity]
        if here:
            self._uid = max(here)
            return await self._box.since(self._uid)
        self._uid = following - 1
        if not left:
            await self._record.save(self._mark(self._uid))
            return []
        return await self._renumbered(max(each.at for each in left))

    async def run(self, waiting: list[int]) -> None:
        """Until it is cancelled, or the line breaks, which is raised."""
        while True:
            for uid in waiting:
                await self._insist(uid)
            await self._remember()
            await self._box.wait(self._idle)
            waiting = await self._box.since(self._uid)

    async def _renumbered(self, at: float) -> list[int]:
        """The numbers say nothing any more. What has arrived since about the last look is looked
        at again, and what was taken then is known by what its headers say."""
        day = datetime.fromtimestamp(at, UTC).date() - timedelta(days=1)
        log.warning(
            "The mail server numbers its mail anew: what has arrived since %s is looked at again.",
            day,
            extra={"action": "mail_renumbered"},
        )
        return await self._box.arrived_since(day)

    async def _insist(self, uid: int) -> None:
        """Until it is behind us: what cannot be kept is waited for."""
        for pause in growing():
            try:
                await self._take(uid)
                break
            except (StoreError, IntakeClosed) as error:
                log.warning(
                    "Mail is not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "feed_paused"},
                )
                await self._sleep(pause)
        self._uid = max(uid, self._uid)

    async def _take(self, uid: int) -> None:
        mark = self._mark(uid)
        if self._broken.is_given_up(mark):
            log.warning(
                "Mail %d is passed over: the IMAP server ends every line in which it is asked for.",
                uid,
                extra={"action": "mail_passed"},
            )
            return
        try:
            await self._taking.take(mark)
        except NotGiven:
            self._broken.stumbled(mark)
            raise

    async def _remember(self) -> None:
        if self._remembered == (self._validity, self._uid):
            return
        try:
            await self._record.save(self._mark(self._uid))
            self._remembered = self._validity, self._uid
        except StoreFailing as error:
            # An older mark does no harm, and the next one is not far.
            log.warning("%s", error, extra={"action": "record_unwritten"})

    def _mark(self, uid: int) -> Mark:
        return Mark(validity=self._validity, uid=uid, at=self._clock.now())
