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
    NotAddressed,
    NotAllowed,
    NotConnected,
    OutcomeUnknown,
    StoreError,
)
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.inbox import Inbound
from holdfast.core.ports.protocols import Clock, Intake
from holdfast.platforms.held import EventBuffer
from holdfast.platforms.pauses import backoff_delays
from holdfast.platforms.xmpp.archive import ArchivedMessage, ArchivePosition, MessageArchive
from holdfast.platforms.xmpp.marks import ArchiveCheckpoint, ArchiveCheckpoints
from holdfast.platforms.xmpp.reading import PLATFORM
from holdfast.platforms.xmpp.stanza import XmppMessage
from holdfast.platforms.xmpp.wire import StanzaRejected

log = logging.getLogger(__name__)

_MAX_FILE_ATTEMPTS = 4  # at the file of a message
_SAVE_INTERVAL_SECONDS = 60.0  # seconds between two writings of a mark


class MessageOrigin(Protocol):
    """Where something is said: the chats of two, which have one archive, or a room."""

    cursor_name: str  # of its cursor
    archive_owner: str  # by whose word a message has its id in the archive

    def parse(
        self, message: XmppMessage, position: ArchivePosition | None, *, is_live: bool
    ) -> Inbound | None:
        """None: there is nothing in it for us. `now`: it is being said, and was not archived."""
        ...

    def attachments_of(
        self, message: XmppMessage, *, last_attempt: bool
    ) -> Sequence[Attachment]: ...


UnarchivedMessage = tuple[XmppMessage, Inbound]
"""What was said where no archive has it, as it was read when it was heard: who was called by a name
in a room then need not be who has that name later."""


class XmppReceiver:
    """Owns what waits to be taken of one place, and how far it was looked at. What cannot be kept
    for the moment is tried again, and what was said after it waits. Where there is no archive,
    nobody brings it again: it is the door's then (`held`), and tried on line after line."""

    def __init__(
        self,
        origin: MessageOrigin,
        archive: MessageArchive,
        *,
        account: str,
        checkpoints: ArchiveCheckpoints,
        intake: Intake,
        buffer: EventBuffer[UnarchivedMessage],
        clock: Clock,
    ) -> None:
        self._origin = origin
        self._archive: MessageArchive | None = archive
        self._started = False
        self._account = account
        self._checkpoints = checkpoints
        self._intake = intake
        self._buffer = buffer
        self._clock = clock
        self._queue: asyncio.Queue[XmppMessage] = asyncio.Queue()
        self._reached: ArchivePosition | None = None  # everything up to here was looked at
        self._cursor: str | None = None
        self._caught_up_ids: set[str] = set()
        self._file_failures = 0  # tries at the file of the message in hand
        self._saved_at = clock.monotonic()

    @property
    def archive(self) -> MessageArchive | None:
        """None: nothing that was said there can be looked up. Raises `NotConnected` where that is
        not known yet."""
        if not self._started:
            raise NotConnected(f"the archive of {self._origin.archive_owner} has not answered yet")
        return self._archive

    async def start(self) -> None:
        """Where to go on is known when this returns: for who is new here, behind everything. A
        server that was asked for its archive does not bring what it has there a second time."""
        if self._started or self._archive is None:
            return
        try:
            end = await self._archive.end_position()
        except StanzaRejected as error:
            self._disable_archive(error)
            return
        self._cursor = await self._intake.cursor(PLATFORM, self._account, self._origin.cursor_name)
        known = self._checkpoints.position_for(self._origin.cursor_name, cursor=self._cursor)
        self._reached = end if known is None else ArchivePosition.parse(known)
        await self._save_checkpoint()
        self._started = True

    def _disable_archive(self, error: StanzaRejected) -> None:
        if error.is_temporary:
            raise NotConnected(str(error)) from error
        self._archive, self._started = None, True
        log.warning(
            "%s keeps no archive (%s): what is said there while the gateway is away is lost.",
            self._origin.archive_owner,
            error,
            extra={"action": "archive_missing"},
        )

    def enqueue(self, message: XmppMessage) -> None:
        """In the order in which it came; nothing here waits."""
        self._queue.put_nowait(message)

    async def run(self) -> None:
        await self._retry(self._drain_buffer)
        await self._retry(self.start)
        await self._retry(self._catch_up)
        while True:
            if self._queue.empty():
                # Whatever the archive had was also said to us, by the time that it had answered.
                self._caught_up_ids.clear()
                await self._save_checkpoint_if_due()
            said = await self._queue.get()
            position = self._position_of(said)
            if position is None:
                self._buffer_unarchived(said)
                await self._retry(self._drain_buffer)
            elif position.id not in self._caught_up_ids:
                await self._retry(partial(self._handle, said, position, is_live=True))

    def _buffer_unarchived(self, message: XmppMessage) -> None:
        inbound = self._origin.parse(message, None, is_live=True)
        if inbound is not None:
            self._buffer.add((message, inbound))

    async def _drain_buffer(self) -> None:
        await self._buffer.drain(lambda unkept: self._submit_counting_failures(*unkept))

    async def stop(self) -> None:
        """What was looked at need not be again; what nobody else has is not let go."""
        while not self._queue.empty():
            said = self._queue.get_nowait()
            if self._position_of(said) is None:
                self._buffer_unarchived(said)
        self._buffer.log_pending(self._origin.archive_owner)
        with suppress(StoreError):  # an older mark does no harm
            await self._save_checkpoint()

    async def _catch_up(self) -> None:
        if self._archive is None or self._reached is None:
            return
        try:
            async for kept in self._archive.messages_since(self._reached):
                await self._handle_archived(kept)
        except StanzaRejected as error:
            if error.is_temporary:
                raise NotConnected(str(error)) from error
            log.warning(
                "What was said meanwhile to %s is not to be had: %s",
                self._origin.archive_owner,
                error,
                extra={"action": "history_refused"},
            )

    async def _handle_archived(self, archived: ArchivedMessage) -> None:
        await self._handle(archived.message, archived.position, is_live=False)
        self._caught_up_ids.add(archived.position.id)

    async def _handle(
        self, message: XmppMessage, position: ArchivePosition | None, *, is_live: bool
    ) -> None:
        inbound = self._origin.parse(message, position, is_live=is_live)
        if inbound is not None:
            await self._submit_counting_failures(message, inbound)
        self._reached = position or self._reached

    async def _submit_counting_failures(self, message: XmppMessage, inbound: Inbound) -> None:
        try:
            await self._accept(message, inbound)
        except NotConnected:
            self._file_failures += 1
            raise
        self._file_failures = 0

    async def _accept(self, message: XmppMessage, inbound: Inbound) -> None:
        attached = self._origin.attachments_of(
            message, last_attempt=self._file_failures + 1 >= _MAX_FILE_ATTEMPTS
        )
        if not inbound.text and not attached:
            return
        try:
            accepted = await self._intake.accept(inbound, attached)
        except NotAddressed as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "message_ignored"})
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

    def _position_of(self, message: XmppMessage) -> ArchivePosition | None:
        name = message.archive_ids.get(self._origin.archive_owner)
        if self._archive is None or not name:
            return None
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        return ArchivePosition(
            id=name, timestamp=message.timestamp or now.strftime("%Y-%m-%dT%H:%M:%SZ")
        )

    async def _save_checkpoint_if_due(self) -> None:
        if self._clock.monotonic() - self._saved_at >= _SAVE_INTERVAL_SECONDS:
            await self._retry(self._save_checkpoint)

    async def _save_checkpoint(self) -> None:
        if self._reached is not None:
            mark = ArchiveCheckpoint(position=str(self._reached), cursor=self._cursor)
            await self._checkpoints.save(self._origin.cursor_name, mark)
            self._saved_at = self._clock.monotonic()

    async def _retry(self, job: Callable[[], Awaitable[None]]) -> None:
        for pause in backoff_delays():
            try:
                return await job()
            except (StoreError, IntakeClosed, NotConnected, OutcomeUnknown) as error:
                log.warning(
                    "Messages of XMPP are not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await asyncio.sleep(pause)
