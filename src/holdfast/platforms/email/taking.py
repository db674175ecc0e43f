"""Taking: one mail is looked at, read, handed to intake, and only then behind us."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from holdfast.core.errors import NotAllowed, NotMeant
from holdfast.core.messages.attachment import Attachment, NoAttachment
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.email.guard import Guard
from holdfast.platforms.email.mail import File, Mail, read_mail
from holdfast.platforms.email.mailbox import Head, Mailbox
from holdfast.platforms.email.reading import NotAnswered, Reader, Sender
from holdfast.platforms.email.record import Mark
from holdfast.platforms.email.threads import Threads

log = logging.getLogger(__name__)

_BEGINNING = 256 * 1024  # bytes that are read of a mail that is too large

T = TypeVar("T")


class Taking:
    """Keeps nothing itself."""

    def __init__(
        self,
        box: Mailbox,
        reader: Reader,
        threads: Threads,
        guard: Guard,
        *,
        intake: Intake,
        most: int,
        pairing: bool,
    ) -> None:
        self._box = box
        self._reader = reader
        self._threads = threads
        self._guard = guard
        self._intake = intake
        self._most = most  # bytes of one mail
        self._pairing = pairing

    async def take(self, mark: Mark) -> None:
        """Returns when it is durable, or nothing to keep. Raises `StoreError` or `IntakeClosed`
        where it can be neither for the moment, `NotGiven` and `LineLost`."""
        head = await self._box.head(mark.uid)
        if head is None:
            return
        sender = await self._looked_at(head, mark)
        if sender is None:
            return
        source = await self._box.source(mark.uid, most=self._taken_of(head))
        mail = None if source is None else await _read(lambda: read_mail(source), mark.uid)
        if mail is not None:
            await self._hand_over(head, sender, mail, mark)

    async def _looked_at(self, head: Head, mark: Mark) -> Sender | None:
        uid, at = mark.uid, head.arrived or mark.at
        try:
            if not head.whole:
                raise NotAnswered("it has more headers than any program writes")
            sender = await _read(lambda: self._reader.sender(head.headers), uid)
        except NotAnswered as why:
            log.info("Mail %d is not answered: %s.", uid, why, extra={"action": "mail_passed"})
            return None
        if sender is None or not self._guard.is_enough(sender.person.address, at=at):
            return sender
        log.warning(
            "%s writes so much that it may be a program which answers us: mail %d is not answered, "
            "and stays where it is. platforms.email.hourly says how much is too much.",
            sender.person.address,
            uid,
            extra={"action": "mail_loop"},
        )
        return None

    async def _hand_over(self, head: Head, sender: Sender, mail: Mail, mark: Mark) -> None:
        cut = self._too_large(head)
        text = mail.text.rstrip() + cut
        letter = await _read(
            lambda: self._reader.letter(head.headers, sender, text, cursor=str(mark)), mark.uid
        )
        if letter is None or not (letter.inbound.text.strip() or mail.files):
            return
        attached = tuple(_attachment(file, whole=not cut) for file in mail.files)
        chat = sender.person.address
        fresh = await self._threads.keep(chat, letter.thread, letter.known)
        try:
            accepted = await self._intake.accept(letter.inbound, attached)
        except NotAllowed as error:
            _tell(error, chat, mark.uid)
            if fresh and not self._pairing:  # whoever gets a code gets it in this thread
                await self._threads.forget(chat, letter.thread)
        else:
            if not accepted.duplicate:
                self._guard.taken(chat, at=head.arrived or mark.at)

    def _taken_of(self, head: Head) -> int:
        return self._most if head.size <= self._most else _BEGINNING

    def _too_large(self, head: Head) -> str:
        if head.size <= self._most:
            return ""
        size, most = (f"{each / 2**20:.0f} MB" for each in (head.size, self._most))
        return f"\n\n[This mail has {size}, and at most {most} are read: this is its beginning]"


def _tell(error: NotAllowed, chat: str, uid: int) -> None:
    level = logging.DEBUG if isinstance(error, NotMeant) else logging.INFO
    log.log(level, "Mail %d of %s was dropped: %s", uid, chat, error, extra={"action": "mail_left"})


async def _read(work: Callable[[], T], uid: int) -> T | None:
    """In a thread: a mail may be large. None: it cannot be read, and is passed over."""
    try:
        return await asyncio.to_thread(work)
    except NotAnswered:
        raise
    # Anybody can send anything, and the library that takes mails apart fails in ways that it does
    # not name. One that is not passed over would come back for ever and hold up the rest.
    except Exception:
        log.exception(
            "Mail %d makes no sense and is passed over.", uid, extra={"action": "mail_unread"}
        )
        return None


def _attachment(file: File, *, whole: bool) -> Attachment:
    async def fetch() -> bytes:
        if not whole:
            raise NoAttachment("the mail that it came with is too large")
        return file.data

    return Attachment(name=file.name, size=len(file.data) if whole else None, fetch=fetch)
