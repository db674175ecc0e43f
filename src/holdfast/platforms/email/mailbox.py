"""A mailbox: one connection to an IMAP server, asked from the event loop."""

import asyncio
import imaplib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import date
from email.message import Message
from email.parser import BytesHeaderParser
from time import mktime
from typing import TypeVar

import msgspec
from imap_tools import BaseMailBox, MailboxFolderSelectError

from holdfast.core.errors import ConnectRefused, LineLost
from holdfast.platforms.email.idling import begin_idle, end_idle, looked_for
from holdfast.platforms.email.keys import Keys
from holdfast.platforms.email.line import BROKEN, Box, hang_up, log_in, reached
from holdfast.platforms.email.plugin import EmailSettings

_WITHOUT_IDLE = 60.0  # seconds between two looks at a server that says nothing by itself
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SENT = ("Sent", "INBOX.Sent", "Sent Items", "Sent Messages")
_MOST_HEADERS = 128 * 1024  # bytes that are asked for: anybody may send megabytes of them
_SIZE = re.compile(rb"RFC822\.SIZE (\d+)")

T = TypeVar("T")


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a mail before it is fetched."""

    headers: Message
    whole: bool  # whether those are all of its headers
    size: int  # bytes of the whole
    arrived: float | None  # by the clock of the server


class NotGiven(LineLost):
    """The server says no to one mail, or hangs up over it: it may be broken there, and would end
    every line in which it is asked for."""


class Mailbox:
    """Owns one line. Its calls are for one task; `stir` may be called by another."""

    def __init__(self, box: BaseMailBox, alive: Callable[[], None]) -> None:
        self._box = box
        self._alive = alive  # told of each answer
        self._stirred = asyncio.Event()
        self._idles = "IDLE" in box.client.capabilities

    @property
    def abilities(self) -> tuple[str, ...]:
        return tuple(self._box.client.capabilities)

    async def select(self, folder: str) -> tuple[int, int]:
        """Its UIDVALIDITY, and the UID that the next mail will have. Nothing in it is changed by
        us: what is read and what is not is the business of people."""

        def ask(box: BaseMailBox) -> tuple[int, int]:
            box.folder.set(folder, readonly=True)
            status = box.folder.status(folder, ["UIDVALIDITY", "UIDNEXT"])
            return status["UIDVALIDITY"], status["UIDNEXT"]

        try:
            return await self._ask(ask)
        except MailboxFolderSelectError as error:
            raise ConnectRefused(
                f"there is no folder {folder!r}: {error}",
                remedy="set platforms.email.folder to one that is there",
            ) from error

    async def since(self, uid: int) -> list[int]:
        """Those behind that one, oldest first. A range that ends in a star has the last mail in
        it, whatever its number."""
        found = await self._ask(lambda box: looked_for(box, f"UID {uid + 1}:*"))
        return sorted(number for each in found if (number := int(each)) > uid)

    async def arrived_since(self, day: date) -> list[int]:
        said = f"{day.day:02}-{_MONTHS[day.month - 1]}-{day.year}"
        found = await self._ask(lambda box: looked_for(box, f"SINCE {said}"))
        return sorted(map(int, found))

    async def head(self, uid: int) -> Head | None:
        """None: somebody has taken it away meanwhile."""
        asked = f"BODY.PEEK[HEADER]<0.{_MOST_HEADERS}>"
        found = await self._fetch(uid, f"(INTERNALDATE RFC822.SIZE {asked})")
        return None if found is None else await asyncio.to_thread(_head, *found)

    async def source(self, uid: int, *, most: int) -> bytes | None:
        """Its first so many bytes. Not marked as read by that."""
        found = await self._fetch(uid, f"(BODY.PEEK[]<0.{most}>)")
        return None if found is None else found[1]

    async def wait(self, seconds: float) -> None:
        """Returns when there may be something new, or after that time, or when it was stirred; in
        each case it has had a round trip."""
        if not self._idles:
            await self._quiet(min(seconds, _WITHOUT_IDLE), None)
            await self._ask(lambda box: box.client.noop())
            return
        tag, news = await self._ask(begin_idle)
        if not news:
            await self._quiet(seconds, self._box.client.sock.fileno())
        await self._ask(lambda box: end_idle(box, tag))

    def stir(self) -> None:
        self._stirred.set()

    async def sent_folder(self) -> str | None:
        """https://www.rfc-editor.org/rfc/rfc6154: the folder that the server calls so; an older one
        has only a name for it."""
        folders = await self._ask(lambda box: box.folder.list())
        marked = [each.name for each in folders if r"\Sent" in each.flags]
        named = [each.name for each in folders if each.name in _SENT]
        return next(iter((*marked, *named)), None)

    async def holds(self, header: str, value: str) -> bool:
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        criteria = f'HEADER {header} "{quoted}"'
        return bool(await self._ask(lambda box: box.uids(criteria, charset=None)))

    async def append(self, folder: str, source: bytes) -> None:
        await self._ask(lambda box: box.append(source, folder, flag_set=[r"\Seen"]))

    async def _fetch(self, uid: int, what: str) -> tuple[bytes, bytes] | None:
        """What the server says around the bytes, and those."""

        def ask(box: BaseMailBox) -> tuple[bytes, bytes] | None:
            status, data = box.client.uid("FETCH", str(uid), what)
            if status != "OK":
                raise NotGiven(f"the IMAP server does not give mail {uid}: {data!r}")
            literal = next((each for each in data if isinstance(each, tuple)), None)
            if literal is None:
                return None
            rest = b" ".join(each for each in data if isinstance(each, bytes))
            return literal[0] + b" " + rest, literal[1]

        try:
            return await self._ask(ask)
        except LineLost as error:
            if "BYE" in self._box.client.untagged_responses:
                raise NotGiven(str(error)) from error
            raise

    async def _quiet(self, seconds: float, descriptor: int | None) -> None:
        loop = asyncio.get_running_loop()
        if descriptor is not None:
            loop.add_reader(descriptor, self.stir)
        try:
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        except TimeoutError:
            pass
        finally:
            if descriptor is not None:
                loop.remove_reader(descriptor)
            self._stirred.clear()

    async def _ask(self, work: Callable[[BaseMailBox], T]) -> T:
        try:
            answer = await asyncio.to_thread(work, self._box)
        except MailboxFolderSelectError:
            raise
        except BROKEN as error:
            raise LineLost(f"the IMAP server: {_told(error)}") from error
        self._alive()
        return answer


@asynccontextmanager
async def opened(
    settings: EmailSettings,
    keys: Keys,
    context: ssl.SSLContext | None,
    alive: Callable[[], None] = lambda: None,
) -> AsyncIterator[Mailbox]:
    """Logged in, and nothing selected. Raises a `ConnectError`."""
    key = await keys.key()
    sock = await reached(settings.imap_host, settings.port_of_imap())

    def enter() -> BaseMailBox:
        box = Box(sock, settings, context)
        try:
            log_in(box, settings, key)
        except BaseException:
            hang_up(box.client)
            raise
        return box

    # A thread that waits for the server is woken by the end of the line. A socket with TLS on it
    # takes no such word from outside that thread, so it is said to a second one of the same line.
    with sock, sock.dup() as line:
        try:
            box = await asyncio.to_thread(enter)
        except BROKEN as error:
            raise LineLost(f"{settings.imap_host}: {_told(error)}") from error
        except ConnectRefused as error:
            if keys.refused(key):
                raise
            raise LineLost(str(error)) from error
        except asyncio.CancelledError:
            _end(line)
            raise
        try:
            yield Mailbox(box, alive)
        finally:
            _end(line)
            hang_up(box.client)


def _head(about: bytes, headers: bytes) -> Head:
    """In a thread: so many headers are read for a while."""
    size, arrived = _SIZE.search(about), imaplib.Internaldate2tuple(about)
    return Head(
        headers=BytesHeaderParser().parsebytes(headers),
        whole=len(headers) < _MOST_HEADERS,
        size=int(size[1]) if size else 0,
        arrived=mktime(arrived) if arrived else None,
    )


def _end(line: socket.socket) -> None:
    with suppress(OSError):  # it may have ended by itself
        line.shutdown(socket.SHUT_RDWR)


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__
