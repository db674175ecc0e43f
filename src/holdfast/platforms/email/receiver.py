"""Receives new mail of the folder, one by one, and hands it to intake; the checkpoint moves only after that."""

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


# MERGED holdfast.platforms.email.taking: Taking: one mail is looked at, read, handed to intake, and only then behind us.
_OVERSIZED_READ_BYTES = 256 * 1024  # bytes that are read of a mail that is too large

T = TypeVar("T")


class MailProcessor:
    """Keeps nothing itself."""

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
        self._max_bytes = max_bytes  # bytes of one mail
        self._pairing = pairing

    async def process(self, position: MailboxPosition) -> None:
        """Returns when it is durable, or nothing to keep. Raises `StoreError` or `IntakeClosed`
        where it can be neither for the moment, `MailUnavailable` and `AccountDisconnected`."""
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
        except MailIgnored as why:
            log.info("Mail %d is not answered: %s.", uid, why, extra={"action": "mail_skipped"})
            return None
        if sender is None or not self._limiter.is_over_limit(sender.person.address, at=at):
            return sender
        log.warning(
            "%s writes so much that it may be a program which answers us: mail %d is not answered, "
            "and stays where it is. platforms.email.hourly says how much is too much.",
            sender.person.address,
            uid,
            extra={"action": "mail_loop_limited"},
        )
        return None

    async def _accept(
        self, head: MailHead, sender: VerifiedSender, mail: ParsedMail, position: MailboxPosition
    ) -> None:
        cut = self._oversize_note(head)
        text = mail.text.rstrip() + cut
        letter = await _parse_in_thread(
            lambda: self._parser.parse(head.headers, sender, text, cursor=str(position)),
            position.uid,
        )
        if letter is None or not (letter.inbound.text.strip() or mail.files):
            return
        attached = tuple(_make_attachment(file, is_whole=not cut) for file in mail.files)
        chat = sender.person.address
        fresh = await self._threads.save(chat, letter.thread_id, letter.thread_details)
        try:
            accepted = await self._intake.accept(letter.inbound, attached)
        except NotAllowed as error:
            _log_dropped(error, chat, position.uid)
            if fresh and not self._pairing:  # whoever gets a code gets it in this thread
                await self._threads.delete(chat, letter.thread_id)
        else:
            if not accepted.duplicate:
                self._limiter.record(chat, at=head.arrived_at or position.at)

    def _bytes_to_fetch(self, head: MailHead) -> int:
        return self._max_bytes if head.size <= self._max_bytes else _OVERSIZED_READ_BYTES

    def _oversize_note(self, head: MailHead) -> str:
        if head.size <= self._max_bytes:
            return ""
        size, most = (f"{each / 2**20:.0f} MB" for each in (head.size, self._max_bytes))
        return f"\n\n[This mail has {size}, and at most {most} are read: this is its beginning]"


def _log_dropped(error: NotAllowed, chat: str, uid: int) -> None:
    level = logging.DEBUG if isinstance(error, NotAddressed) else logging.INFO
    log.log(
        level, "Mail %d of %s was dropped: %s", uid, chat, error, extra={"action": "mail_dropped"}
    )


async def _parse_in_thread(work: Callable[[], T], uid: int) -> T | None:
    """In a thread: a mail may be large. None: it cannot be read, and is passed over."""
    try:
        return await asyncio.to_thread(work)
    except MailIgnored:
        raise
    # Anybody can send anything, and the library that takes mails apart fails in ways that it does
    # not name. One that is not passed over would come back for ever and hold up the rest.
    except Exception:
        log.exception(
            "Mail %d makes no sense and is passed over.", uid, extra={"action": "mail_invalid"}
        )
        return None


def _make_attachment(file: MailFile, *, is_whole: bool) -> Attachment:
    async def fetch() -> bytes:
        if not is_whole:
            raise AttachmentUnavailable("the mail that it came with is too large")
        return file.data

    return Attachment(name=file.name, size=len(file.data) if is_whole else None, fetch=fetch)


# MERGED holdfast.platforms.email.receiving: Receiving: what is new in the folder, from where it was left, mail by mail.
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
