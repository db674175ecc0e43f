"""Receiving: what is new in the folder, from where it was left, mail by mail."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from holdfast.core.errors import IntakeClosed, StoreError, TransientStoreError
from holdfast.core.ports.protocols import Clock
from holdfast.platforms.email.broken import PoisonMails
from holdfast.platforms.email.mailbox import ImapMailbox, MailUnavailable
from holdfast.platforms.email.record import MailboxCheckpoint, MailboxPosition
from holdfast.platforms.email.taking import MailProcessor
from holdfast.platforms.pauses import backoff_delays

log = logging.getLogger(__name__)


class EmailReceiver:
    """Owns how far the folder was looked through."""

    def __init__(
        self,
        mailbox: ImapMailbox,
        processor: MailProcessor,
        checkpoint: MailboxCheckpoint,
        poison_mails: PoisonMails,
        *,
        clock: Clock,
        idle_seconds: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._mailbox = mailbox
        self._processor = processor
        self._checkpoint = checkpoint
        self._poison_mails = poison_mails
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._sleep = sleep
        self._validity = self._uid = 0
        self._saved: tuple[int, int] | None = None

    async def start(self, folder: str, stored_position: MailboxPosition | None) -> list[int]:
        """What waits there. A mailbox that nobody has looked at before has nothing new in it, and
        that is durable when this returns: what comes from now on is."""
        self._validity, following = await self._mailbox.select(folder)
        left = [
            each for each in (await self._checkpoint.load(), stored_position) if each is not None
        ]
        here = [each.uid for each in left if each.validity == self._validity]
        if here:
            self._uid = max(here)
            return await self._mailbox.uids_since(self._uid)
        self._uid = following - 1
        if not left:
            await self._checkpoint.save(self._position_of(self._uid))
            return []
        return await self._uids_after_renumbering(max(each.at for each in left))

    async def run(self, uids: list[int]) -> None:
        """Until it is cancelled, or the line breaks, which is raised."""
        while True:
            for uid in uids:
                await self._process_until_done(uid)
            await self._save_checkpoint()
            await self._mailbox.wait_for_news(self._idle_seconds)
            uids = await self._mailbox.uids_since(self._uid)

    async def _uids_after_renumbering(self, at: float) -> list[int]:
        """The numbers say nothing any more. What has arrived since about the last look is looked
        at again, and what was taken then is known by what its headers say."""
        day = datetime.fromtimestamp(at, UTC).date() - timedelta(days=1)
        log.warning(
            "The mail server numbers its mail anew: what has arrived since %s is looked at again.",
            day,
            extra={"action": "mailbox_renumbered"},
        )
        return await self._mailbox.uids_arrived_since(day)

    async def _process_until_done(self, uid: int) -> None:
        """Until it is behind us: what cannot be kept is waited for."""
        for pause in backoff_delays():
            try:
                await self._process(uid)
                break
            except (StoreError, IntakeClosed) as error:
                log.warning(
                    "Mail is not taken: %s. The next try is in %.1f s.",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)
        self._uid = max(uid, self._uid)

    async def _process(self, uid: int) -> None:
        mark = self._position_of(uid)
        if self._poison_mails.is_poison(mark):
            log.warning(
                "Mail %d is passed over: the IMAP server ends every line in which it is asked for.",
                uid,
                extra={"action": "mail_skipped"},
            )
            return
        try:
            await self._processor.process(mark)
        except MailUnavailable:
            self._poison_mails.record_failure(mark)
            raise

    async def _save_checkpoint(self) -> None:
        if self._saved == (self._validity, self._uid):
            return
        try:
            await self._checkpoint.save(self._position_of(self._uid))
            self._saved = self._validity, self._uid
        except TransientStoreError as error:
            # An older mark does no harm, and the next one is not far.
            log.warning("%s", error, extra={"action": "checkpoint_not_saved"})

    def _position_of(self, uid: int) -> MailboxPosition:
        return MailboxPosition(validity=self._validity, uid=uid, at=self._clock.now())
