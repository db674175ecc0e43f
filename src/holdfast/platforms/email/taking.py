"""Taking: one mail is looked at, read, handed to intake, and only then behind us."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from holdfast.core.errors import NotAddressed, NotAllowed
from holdfast.core.messages.attachment import Attachment, AttachmentUnavailable
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.email.guard import LoopLimiter
from holdfast.platforms.email.mail import MailFile, ParsedMail, parse_mail
from holdfast.platforms.email.mailbox import ImapMailbox, MailHead
from holdfast.platforms.email.reading import EmailParser, MailIgnored, VerifiedSender
from holdfast.platforms.email.record import MailboxPosition
from holdfast.platforms.email.threads import ThreadFiles

log = logging.getLogger(__name__)

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
