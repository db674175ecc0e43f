"""A session with both servers: what there is of an account while it is connected."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from holdfast.core.config.settings import table_of
from holdfast.core.errors import ConnectError, ConnectRefused, LineLost, NotConnected, Refused
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Outbound, Receipt
from holdfast.core.ports.door import Opening
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.email.broken import Broken
from holdfast.platforms.email.composing import compose
from holdfast.platforms.email.guard import Guard
from holdfast.platforms.email.keys import Keys, Password
from holdfast.platforms.email.line import trusted
from holdfast.platforms.email.mailbox import Mailbox, opened
from holdfast.platforms.email.names import digest, name_of
from holdfast.platforms.email.oauth import Tokens
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.platforms.email.reading import PLATFORM, Reader, domain_of
from holdfast.platforms.email.receiving import Receiving
from holdfast.platforms.email.record import Mark, Record
from holdfast.platforms.email.sent import Sent
from holdfast.platforms.email.submitting import NotLetIn, Submitting
from holdfast.platforms.email.taking import Taking
from holdfast.platforms.email.threads import Threads

_ADDRESS = re.compile(r"[!-;=?A-~]+@[!-;=?A-~]+")  # ASCII, without brackets, blanks and another @
_PROBE = 3.0  # seconds: whoever asks waits for it


class Session:
    """Owns the line to the mailbox, and those who ask whether it lives."""

    def __init__(
        self,
        opening: Opening[EmailSettings],
        box: Mailbox,
        *,
        sent: Sent,
        submitting: Submitting,
    ) -> None:
        self._opening = opening
        self._box = box
        self._sent = sent
        self._submitting = submitting
        self._threads = Threads(opening.folder / "threads")
        self._asking: list[asyncio.Future[None]] = []

    @property
    def settles_doubt(self) -> bool:
        return self._sent.settles_doubt

    async def send(self, outbound: Outbound) -> Receipt:
        address, settings = outbound.address, self._opening.settings
        if _ADDRESS.fullmatch(address.chat_id) is None:
            raise Refused(f"{address.chat_id!r} is no address that mail can be sent to")
        name = self._name(outbound.delivery_id, address)
        if outbound.maybe_repeated and await self._has_copy(name, outbound.delivery_id):
            return Receipt(platform_message_id=name)
        thread = None
        if address.thread_id is not None:
            thread = await self._threads.get(address.chat_id, address.thread_id)
        now = self._opening.clock.now()
        mail = await asyncio.to_thread(compose, outbound, thread, settings=settings, at=now)
        await self._submitting.submit(mail.source, to=address.chat_id)
        await self._sent.file(mail)
        return Receipt(platform_message_id=name)

    async def _has_copy(self, name: str, delivery_id: DeliveryId) -> bool:
        """One of ours is made after the mail was taken: if it is there, that was."""
        return self._sent.keeps_ours and await self._sent.has(name, delivery_id)

    async def find(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        name = self._name(delivery_id, address)
        found = await self._sent.has(name, delivery_id)
        return Receipt(platform_message_id=name) if found else None

    def refusal(self, error: NotConnected) -> ConnectRefused | None:
        """What it means for the account; None: nothing that would not pass."""
        return turned_away(error, self._opening.account) if isinstance(error, NotLetIn) else None

    async def probe(self) -> None:
        """The line is asked by whoever listens to it, between two looks."""
        asking = asyncio.get_running_loop().create_future()
        self._asking.append(asking)
        self._box.stir()
        try:
            async with asyncio.timeout(_PROBE):
                await asking
        except TimeoutError:
            raise LineLost(f"the IMAP server has not answered for {_PROBE:.0f} s") from None

    def heard(self) -> None:
        for asking in self._asking:
            if not asking.done():
                asking.set_result(None)
        self._asking.clear()

    def lost(self, error: ConnectError) -> None:
        for asking in self._asking:
            if not asking.done():
                asking.set_exception(error)
        self._asking.clear()

    async def receiving(
        self, intake: Intake, guard: Guard, broken: Broken
    ) -> tuple[Receiving, list[int]]:
        """How what is new is taken, and what waits already."""
        opening, settings = self._opening, self._opening.settings
        reader = Reader(settings, account=opening.account)
        taking = Taking(
            self._box,
            reader,
            self._threads,
            guard,
            intake=intake,
            most=settings.max_mail_mb * 2**20,
            pairing=settings.pairing,
        )
        record = Record(opening.folder / f"{digest(reader.cursor)}.json")
        receiving = Receiving(
            self._box, taking, record, broken, clock=opening.clock, idle=settings.idle_seconds
        )
        await self._threads.tidy(opening.clock.now())
        cursor = await intake.cursor(PLATFORM, opening.account, reader.cursor)
        return receiving, await receiving.begin(settings.folder, Mark.parse(cursor))

    def _name(self, delivery_id: DeliveryId, address: Address) -> str:
        domain = domain_of(self._opening.settings.address)
        return name_of(delivery_id, address.thread_id, domain=domain)


@asynccontextmanager
async def begun(
    opening: Opening[EmailSettings], alive: Callable[[], None], *, keeps: bool = True
) -> AsyncIterator[Session]:
    """Both servers have let us in. Raises a `ConnectError`."""
    settings = opening.settings
    context = await asyncio.to_thread(trusted, settings)
    keys = keys_of(opening, context, keeps=keeps)

    def open_box() -> AbstractAsyncContextManager[Mailbox]:
        return opened(settings, keys, context)

    async with opened(settings, keys, context, alive) as box:
        submitting = await _greeted(opening, Submitting(settings, keys, context))
        sent = await Sent.of(box, open_box, copies=settings.copies)
        yield Session(opening, box, sent=sent, submitting=submitting)


def keys_of(
    opening: Opening[EmailSettings], context: ssl.SSLContext | None, *, keeps: bool
) -> Keys:
    """`keeps`: a refresh token that follows another is kept."""
    if not opening.settings.token_url:
        return Password(opening.secrets["password"])
    return Tokens(opening, context, file=opening.folder / "tokens.json" if keeps else None)


async def _greeted(opening: Opening[EmailSettings], submitting: Submitting) -> Submitting:
    try:
        await submitting.greet()
    except NotLetIn as error:
        raise turned_away(error, opening.account) from error
    except NotConnected as error:
        raise LineLost(str(error)) from error
    return submitting


def turned_away(error: NotLetIn, account: str) -> ConnectRefused:
    if error.remedy:
        return ConnectRefused(str(error), remedy=error.remedy)
    return ConnectRefused(
        f"{error}: the password is not taken",
        remedy=f"set {table_of(PLATFORM, account)}.password; where the server knows this machine "
        "without one, smtp_login = false",
    )
