"""Receives new mails of the folder one by one and passes them to intake. The checkpoint moves only
after that."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from holdfast.core.errors import (
    IntakeClosed,
    NotAddressed,
    NotAllowed,
    StoreError,
    TransientStoreError,
)
from holdfast.core.messages.source import Attachment, AttachmentUnavailable
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.runtime import Clock
from holdfast.platforms.email.client import ImapMailbox, MailHead, MailUnavailable
from holdfast.platforms.email.events import EmailParser, MailIgnored, ThreadFiles, VerifiedSender
from holdfast.platforms.email.mime import MailFile, ParsedMail, parse_mail
from holdfast.platforms.email.state import (
    LoopLimiter,
    MailboxCheckpoint,
    MailboxPosition,
    PoisonMails,
)
from holdfast.platforms.inbound import backoff_delays

log = logging.getLogger(__name__)

_OVERSIZED_READ_BYTES = 256 * 1024  # that are fetched of a mail that is too large

T = TypeVar("T")


class MailProcessor:
    """Processes one mail: checks its sender, fetches and parses it, and passes it to intake."""

    def __init__(
        self,
        mailbox: ImapMailbox,
        parser: EmailParser,
        threads: ThreadFiles,
        limiter: LoopLimiter,
        *,
        intake: Intake,
        max_bytes: int,
        pairing: bool,
    ) -> None:
        self._mailbox = mailbox
        self._parser = parser
        self._threads = threads
        self._limiter = limiter
        self._intake = intake
        self._max_bytes = max_bytes  # of one mail
        self._pairing = pairing

    async def process(self, position: MailboxPosition) -> None:
        """Returns when the mail is durable or skipped. Raises `StoreError` or `IntakeClosed` if it
        cannot be stored at the moment, `MailUnavailable` and `AccountDisconnected`."""
        head = await self._mailbox.fetch_head(position.uid)
        if head is None:
            return
        sender = await self._check_sender(head, position)
        if sender is None:
            return
        source = await self._mailbox.fetch_source(
            position.uid, max_bytes=self._bytes_to_fetch(head)
        )
        mail = (
            None
            if source is None
            else await _parse_in_thread(lambda: parse_mail(source), position.uid)
        )
        if mail is not None:
            await self._accept(head, sender, mail, position)

    async def _check_sender(
        self, head: MailHead, position: MailboxPosition
    ) -> VerifiedSender | None:
        uid, at = position.uid, head.arrived_at or position.at
        try:
            if not head.is_complete:
                raise MailIgnored("it has more headers than any program writes")
            sender = await _parse_in_thread(lambda: self._parser.verify_sender(head.headers), uid)
        except MailIgnored as reason:
            log.info("Mail %d is not answered: %s", uid, reason, extra={"action": "mail_skipped"})
            return None
        if sender is None or not self._limiter.is_over_limit(sender.person.address, at=at):
            return sender
        log.warning(
            "Mail %d is not answered, and stays in its folder: %s sends so much that it "
            "may be a mail loop. The limit is platforms.email.hourly_limit",
            uid,
            sender.person.address,
            extra={"action": "mail_loop_limited"},
        )
        return None

    async def _accept(
        self, head: MailHead, sender: VerifiedSender, mail: ParsedMail, position: MailboxPosition
    ) -> None:
        oversize_note = self._oversize_note(head)
        text = mail.text.rstrip() + oversize_note
        parsed = await _parse_in_thread(
            lambda: self._parser.parse(head.headers, sender, text, cursor=str(position)),
            position.uid,
        )
        if parsed is None or not (parsed.inbound.text.strip() or mail.files):
            return
        attachments = tuple(
            _make_attachment(file, is_whole=not oversize_note) for file in mail.files
        )
        chat = sender.person.address
        is_new = await self._threads.save(chat, parsed.thread_id, parsed.thread_details)
        try:
            accepted = await self._intake.accept(parsed.inbound, attachments)
        except NotAllowed as error:
            _log_dropped(error, chat, position.uid)
            if is_new and not self._pairing:  # a pairing code is sent in this thread
                await self._threads.delete(chat, parsed.thread_id)
        else:
            if not accepted.duplicate:
                self._limiter.record(chat, at=head.arrived_at or position.at)

    def _bytes_to_fetch(self, head: MailHead) -> int:
        return self._max_bytes if head.size <= self._max_bytes else _OVERSIZED_READ_BYTES

    def _oversize_note(self, head: MailHead) -> str:
        if head.size <= self._max_bytes:
            return ""
        size, limit = (f"{each / 2**20:.0f} MB" for each in (head.size, self._max_bytes))
        return f"\n\n[This mail has {size}, and at most {limit} are read: this is its beginning]"


def _log_dropped(error: NotAllowed, chat: str, uid: int) -> None:
    level = logging.DEBUG if isinstance(error, NotAddressed) else logging.INFO
    log.log(level, "Dropped mail %d of %s: %s", uid, chat, error, extra={"action": "mail_dropped"})


async def _parse_in_thread(work: Callable[[], T], uid: int) -> T | None:
    """Runs in a thread: a mail may be large. None if it cannot be parsed: it is skipped."""
    try:
        return await asyncio.to_thread(work)
    except MailIgnored:
        raise
    # A mail has any content, and the parser of the standard library raises undocumented errors. A
    # mail that is not skipped would be retried for ever and block all later ones.
    except Exception:
        log.exception(
            "Mail %d cannot be parsed and is skipped", uid, extra={"action": "mail_invalid"}
        )
        return None


def _make_attachment(file: MailFile, *, is_whole: bool) -> Attachment:
    async def fetch() -> bytes:
        if not is_whole:
            raise AttachmentUnavailable("its mail is too large")
        return file.data

    return Attachment(name=file.name, size=len(file.data) if is_whole else None, fetch=fetch)


class EmailReceiver:
    """The loop over new mails of the folder. Owns how far the folder was processed."""

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
        """The UIDs that wait. The mails that a new mailbox has already are not processed; its
        checkpoint is durable when this returns, so every later mail is."""
        self._validity, next_uid = await self._mailbox.select(folder)
        positions = [
            each for each in (await self._checkpoint.load(), stored_position) if each is not None
        ]
        valid_uids = [each.uid for each in positions if each.validity == self._validity]
        if valid_uids:
            self._uid = max(valid_uids)
            return await self._mailbox.uids_since(self._uid)
        self._uid = next_uid - 1
        if not positions:
            await self._checkpoint.save(self._position_of(self._uid))
            return []
        return await self._uids_after_renumbering(max(each.at for each in positions))

    async def run(self, uids: list[int]) -> None:
        """Until cancelled. Raises if the connection is lost."""
        while True:
            for uid in uids:
                await self._process_until_done(uid)
            await self._save_checkpoint()
            await self._mailbox.wait_for_new_mail(self._idle_seconds)
            uids = await self._mailbox.uids_since(self._uid)

    async def _uids_after_renumbering(self, at: float) -> list[int]:
        """The old UIDs are meaningless. Mails that arrived since about the last checkpoint are
        processed again; intake recognises those it has by their event ids."""
        day = datetime.fromtimestamp(at, UTC).date() - timedelta(days=1)
        log.warning(
            "The mail server has renumbered its mail: processing mails since %s again",
            day,
            extra={"action": "mailbox_renumbered"},
        )
        return await self._mailbox.uids_arrived_since(day)

    async def _process_until_done(self, uid: int) -> None:
        """Retries while the mail cannot be stored."""
        for pause in backoff_delays():
            try:
                await self._process(uid)
                break
            except (StoreError, IntakeClosed) as error:
                log.warning(
                    "Could not process mail: %s; retrying in %.1f s",
                    error,
                    pause,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)
        self._uid = max(uid, self._uid)

    async def _process(self, uid: int) -> None:
        position = self._position_of(uid)
        if self._poison_mails.is_poison(position):
            log.warning(
                "Skipped mail %d: the IMAP server refuses it or closes the connection each "
                "time it is fetched",
                uid,
                extra={"action": "mail_skipped"},
            )
            return
        try:
            await self._processor.process(position)
        except MailUnavailable:
            self._poison_mails.record_failure(position)
            raise

    async def _save_checkpoint(self) -> None:
        if self._saved == (self._validity, self._uid):
            return
        try:
            await self._checkpoint.save(self._position_of(self._uid))
            self._saved = self._validity, self._uid
        except TransientStoreError as error:
            # An older checkpoint does no harm, and the next save is soon.
            log.warning(
                "Could not save the mailbox checkpoint, so some mails may be processed again: %s",
                error,
                extra={"action": "checkpoint_not_saved"},
            )

    def _position_of(self, uid: int) -> MailboxPosition:
        return MailboxPosition(validity=self._validity, uid=uid, at=self._clock.now())
