"""Taking: what is heard is handed to intake in its order, behind what was said before we came."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.core.errors import (
    IntakeClosed,
    LineLost,
    NotAllowed,
    NotConnected,
    NotMeant,
    StoreError,
)
from holdfast.core.messages.inbox import Inbound
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.held import Held
from holdfast.platforms.irc.history import PLAYBACK, History, earlier, marked
from holdfast.platforms.irc.reading import PLATFORM, Reader
from holdfast.platforms.irc.record import Record
from holdfast.platforms.irc.users import People
from holdfast.platforms.irc.wire import Heard
from holdfast.platforms.pauses import growing

log = logging.getLogger(__name__)

Job = Callable[[], Awaitable[None]]
_WAITING = 10_000  # messages that are heard and not taken, where a history has them
# Seconds by which the mark stays behind: servers of one network have clocks of their own, and what
# is heard later may have been said earlier by them.
_BEHIND = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What was said while we were away: where it is asked for, and how far it was looked at."""

    history: History
    record: Record


class Taking:
    """Owns what was heard on one line and is not durable yet. Where there is no history nobody
    brings it again: it is the door's then (`held`), and tried on line after line until it is
    kept."""

    def __init__(
        self,
        reader: Reader,
        people: People,
        *,
        account: str,
        intake: Intake,
        past: Past | None,
        held: Held[Inbound],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._reader = reader
        self._people = people
        self._account = account
        self._intake = intake
        self._past = past
        self._held = held
        self._sleep = sleep
        self._jobs: asyncio.Queue[Job] = asyncio.Queue(_WAITING)
        self._playbacks: set[str] = set()
        self._found: set[str] = set()  # events that the history brought before they were heard
        self._latest = ""
        self._began = False
        self._channels: list[str] = []  # that we were in when it began

    def hear(self, heard: Heard) -> None:
        if heard.verb == "BATCH":
            self._bounds(heard)
        elif heard.tags.get("batch") not in self._playbacks:
            self._live(heard)

    def joined(self, channel: str) -> None:
        """To be told before anything is heard from there."""
        if self._past is None:
            return
        if not self._began:
            self._channels.append(channel)
        else:
            self._put(lambda: self._fill(channel))

    async def run(self) -> None:
        """From when we are in our channels on: what was said before is taken first."""
        self._began = True
        await self._done(self._take_held)
        if self._past is not None:
            await self._done(self._fill_all)
        while True:
            job = await self._jobs.get()
            await self._done(job)
            # Nothing that was heard is left to be looked at.
            if self._past is not None and self._jobs.empty():
                self._past.record.move(earlier(self._latest, _BEHIND))
                self._found.clear()

    async def keep_mark(self) -> None:
        if self._past is not None:
            await self._past.record.save()

    def _bounds(self, heard: Heard) -> None:
        """Whoever plays back unasked brings what was looked at, or is asked for."""
        sign, name = heard.param(0)[:1], heard.param(0)[1:]
        if sign == "+" and heard.param(1) in PLAYBACK:
            self._playbacks.add(name)
        else:
            self._playbacks.discard(name)

    def _live(self, heard: Heard) -> None:
        inbound = self._reader.said(heard)
        if inbound is None:
            return
        self._people.saw(heard)
        if self._past is not None:
            self._put(lambda: self._take_news(inbound))
        elif self._held.full:
            raise _too_much()
        else:
            self._put(self._take_held)
            self._held.add(inbound)

    def _put(self, job: Job) -> None:
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull:
            # To wait would leave the server unanswered, which ends the line as well.
            raise _too_much() from None

    async def _take_held(self) -> None:
        await self._held.hand_over(self._take)

    async def _take_news(self, inbound: Inbound) -> None:
        """What was said while the history was being asked for stands in it, too: whoever may not
        talk is told so once."""
        if inbound.event_id not in self._found:
            await self._take(inbound)

    async def _take(self, inbound: Inbound) -> None:
        try:
            await self._intake.accept(inbound)
        except NotMeant as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "message_not_meant"})
        except NotAllowed as error:
            log.info(
                "A message of %s was dropped: %s",
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )
        if inbound.cursor is not None:
            self._latest = max(self._latest, marked(inbound.cursor.value)[0])

    async def _fill_all(self) -> None:
        """A server that does not say where something was said is asked about every channel."""
        assert self._past is not None, "only who has a past is asked for it"
        chats = await self._past.history.chats(self._past.record.until)
        for chat in self._channels if chats is None else chats:
            await self._fill(chat)

    async def _fill(self, target: str) -> None:
        assert self._past is not None, "only who has a past is asked for it"
        name = self._reader.cursor_of(target)
        cursor = await self._intake.cursor(PLATFORM, self._account, name)
        moment, known = marked(max(cursor or "", self._past.record.until))
        async for heard in self._past.history.since(target, moment):
            inbound = self._reader.said(heard)
            if inbound is not None and not self._knows(inbound, known):
                await self._take(inbound)
                self._found.add(inbound.event_id)

    def _knows(self, inbound: Inbound, last: str) -> bool:
        return inbound.event_id == last or inbound.event_id in self._found

    async def _done(self, job: Job) -> None:
        for pause in growing():
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected) as error:
                log.warning(
                    "What was said on IRC is not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "feed_paused"},
                )
                await self._sleep(pause)


def _too_much() -> LineLost:
    return LineLost("more is said than can be kept: the store takes nothing")
