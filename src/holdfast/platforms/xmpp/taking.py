"""Taking: what was said in a chat or a room is handed to intake, from the archive and then live."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from holdfast.core.errors import (
    IntakeClosed,
    NotAllowed,
    NotConnected,
    NotMeant,
    OutcomeUnknown,
    StoreError,
)
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.core.ports.protocols import Clock, Intake
from holdfast.platforms.held import Held
from holdfast.platforms.pauses import growing
from holdfast.platforms.xmpp.archive import Archive, Kept, Position
from holdfast.platforms.xmpp.marks import Mark, Marks
from holdfast.platforms.xmpp.reading import PLATFORM
from holdfast.platforms.xmpp.stanza import Said
from holdfast.platforms.xmpp.wire import Rejected

log = logging.getLogger(__name__)

_TRIES = 4  # at the file of a message
_SELDOM = 60.0  # seconds between two writings of a mark


class Place(Protocol):
    """Where something is said: the chats of two, which have one archive, or a room."""

    name: str  # of its cursor
    owner: str  # by whose word a message has its id in the archive

    def read(self, said: Said, position: Position | None, *, now: bool) -> Inbound | None:
        """None: there is nothing in it for us. `now`: it is being said, and was not archived."""
        ...

    def attached(self, said: Said, *, last_try: bool) -> Sequence[Attachment]: ...


Unkept = tuple[Said, Inbound]
"""What was said where no archive has it, as it was read when it was heard: who was called by a name
in a room then need not be who has that name later."""


class Taking:
    """Owns what waits to be taken of one place, and how far it was looked at. What cannot be kept
    for the moment is tried again, and what was said after it waits. Where there is no archive,
    nobody brings it again: it is the door's then (`held`), and tried on line after line."""

    def __init__(
        self,
        place: Place,
        archive: Archive,
        *,
        account: str,
        marks: Marks,
        intake: Intake,
        held: Held[Unkept],
        clock: Clock,
    ) -> None:
        self._place = place
        self._archive: Archive | None = archive
        self._begun = False
        self._account = account
        self._marks = marks
        self._intake = intake
        self._held = held
        self._clock = clock
        self._heard: asyncio.Queue[Said] = asyncio.Queue()
        self._at: Position | None = None  # everything up to here was looked at
        self._cursor: str | None = None
        self._filled: set[str] = set()
        self._failed = 0  # tries at the file of the message in hand
        self._marked_at = clock.monotonic()

    @property
    def archive(self) -> Archive | None:
        """None: nothing that was said there can be looked up. Raises `NotConnected` where that is
        not known yet."""
        if not self._begun:
            raise NotConnected(f"the archive of {self._place.owner} has not answered yet")
        return self._archive

    async def begin(self) -> None:
        """Where to go on is known when this returns: for who is new here, behind everything. A
        server that was asked for its archive does not bring what it has there a second time."""
        if self._begun or self._archive is None:
            return
        try:
            end = await self._archive.end()
        except Rejected as error:
            self._do_without(error)
            return
        self._cursor = await self._intake.cursor(PLATFORM, self._account, self._place.name)
        known = self._marks.of(self._place.name, cursor=self._cursor)
        self._at = end if known is None else Position.read(known)
        await self._mark()
        self._begun = True

    def _do_without(self, error: Rejected) -> None:
        if error.passes:
            raise NotConnected(str(error)) from error
        self._archive, self._begun = None, True
        log.warning(
            "%s keeps no archive (%s): what is said there while the gateway is away is lost.",
            self._place.owner,
            error,
            extra={"action": "no_archive"},
        )

    def heard(self, said: Said) -> None:
        """In the order in which it came; nothing here waits."""
        self._heard.put_nowait(said)

    async def run(self) -> None:
        await self._insist(self._take_held)
        await self._insist(self.begin)
        await self._insist(self._fill)
        while True:
            if self._heard.empty():
                # Whatever the archive had was also said to us, by the time that it had answered.
                self._filled.clear()
                await self._mark_seldom()
            said = await self._heard.get()
            position = self._position(said)
            if position is None:
                self._hold(said)
                await self._insist(self._take_held)
            elif position.id not in self._filled:
                await self._insist(partial(self._take, said, position, now=True))

    def _hold(self, said: Said) -> None:
        inbound = self._place.read(said, None, now=True)
        if inbound is not None:
            self._held.add((said, inbound))

    async def _take_held(self) -> None:
        await self._held.hand_over(lambda unkept: self._try(*unkept))

    async def leave(self) -> None:
        """What was looked at need not be again; what nobody else has is not let go."""
        while not self._heard.empty():
            said = self._heard.get_nowait()
            if self._position(said) is None:
                self._hold(said)
        self._held.tell(self._place.owner)
        with suppress(StoreError):  # an older mark does no harm
            await self._mark()

    async def _fill(self) -> None:
        if self._archive is None or self._at is None:
            return
        try:
            async for kept in self._archive.since(self._at):
                await self._take_kept(kept)
        except Rejected as error:
            if error.passes:
                raise NotConnected(str(error)) from error
            log.warning(
                "What was said meanwhile to %s is not to be had: %s",
                self._place.owner,
                error,
                extra={"action": "backlog_refused"},
            )

    async def _take_kept(self, kept: Kept) -> None:
        await self._take(kept.said, kept.position, now=False)
        self._filled.add(kept.position.id)

    async def _take(self, said: Said, position: Position | None, *, now: bool) -> None:
        inbound = self._place.read(said, position, now=now)
        if inbound is not None:
            await self._try(said, inbound)
        self._at = position or self._at

    async def _try(self, said: Said, inbound: Inbound) -> None:
        try:
            await self._hand_over(said, inbound)
        except NotConnected:
            self._failed += 1
            raise
        self._failed = 0

    async def _hand_over(self, said: Said, inbound: Inbound) -> None:
        attached = self._place.attached(said, last_try=self._failed + 1 >= _TRIES)
        if not inbound.text and not attached:
            return
        try:
            accepted = await self._intake.accept(inbound, attached)
        except NotMeant as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "message_not_meant"})
        except NotAllowed as error:
            log.info(
                "Message %s of %s was dropped: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )
        else:
            if inbound.cursor is not None and not accepted.duplicate:
                self._cursor = inbound.cursor.value

    def _position(self, said: Said) -> Position | None:
        name = said.archived.get(self._place.owner)
        if self._archive is None or not name:
            return None
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        return Position(id=name, stamp=said.stamp or now.strftime("%Y-%m-%dT%H:%M:%SZ"))

    async def _mark_seldom(self) -> None:
        if self._clock.monotonic() - self._marked_at >= _SELDOM:
            await self._insist(self._mark)

    async def _mark(self) -> None:
        if self._at is not None:
            mark = Mark(position=str(self._at), cursor=self._cursor)
            await self._marks.move(self._place.name, mark)
            self._marked_at = self._clock.monotonic()

    async def _insist(self, job: Callable[[], Awaitable[None]]) -> None:
        for pause in growing():
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected, OutcomeUnknown) as error:
                log.warning(
                    "Messages of XMPP are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "feed_paused"},
                )
                await asyncio.sleep(pause)
