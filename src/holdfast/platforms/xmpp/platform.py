"""The XMPP platform: one account of a server, connected by being present there."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.config.settings import table_of
from holdfast.core.errors import ConnectError, ConnectRefused, NotConnected, SendError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Change, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.protocols import Clock, Intake, NewId
from holdfast.core.secret import Secret
from holdfast.platforms.held import Held
from holdfast.platforms.text.xmpp import fits
from holdfast.platforms.xmpp.connected import PULSE, Around, Connected
from holdfast.platforms.xmpp.marks import Marks
from holdfast.platforms.xmpp.plugin import XmppSettings
from holdfast.platforms.xmpp.reading import PLATFORM
from holdfast.platforms.xmpp.recent import Recent
from holdfast.platforms.xmpp.sending import LONGEST, LONGEST_MARK
from holdfast.platforms.xmpp.taking import Unkept
from holdfast.platforms.xmpp.trust import trust
from holdfast.platforms.xmpp.web import web

if TYPE_CHECKING:  # the library is imported when a line is opened, and not before
    from holdfast.platforms.xmpp.line import Line

PATIENCE = 20.0  # seconds


def capabilities_of(settings: XmppSettings) -> Capabilities:
    """What the server adds, an archive and a place for files, is known once connected. Each edit
    is a message in archives and on phones, so there are few."""
    return Capabilities(
        backlog=Backlog.HISTORY,
        lookup=True,
        max_length=LONGEST - LONGEST_MARK,
        edit=True,
        edit_interval=3.0,
        group_edit_interval=6.0,
        typing=True,
        reactions=True,
        attachments_in=settings.max_file_mb > 0,
        alive_within=3 * PULSE,
    )


class XmppPlatform:
    """A door to one account. It owns its line while it is connected, and keeps in `folder` how
    far each archive was looked at."""

    def __init__(
        self,
        password: Secret,
        *,
        account: str,
        settings: XmppSettings,
        folder: Path,
        clock: Clock,
        new_id: NewId,
        patience: float = PATIENCE,
        settled: float = 1.0,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._password = password
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._new_id = new_id
        self._patience = patience  # seconds for an answer
        self._settled = settled  # seconds for a message to be in the archive, if it ever will be
        self._held: dict[str, Held[Unkept]] = {}
        self._recent = Recent()  # over all its lines: what is signed may be so on the next
        self._connected: Connected | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        make = await asyncio.to_thread(
            library, self._settings, account=self.account, patience=self._patience
        )
        around = await self._around(intake)
        line = make(self._settings, self._password, resource=self._settings.resource)
        line.alive = lambda: intake.proven(self.name, self.account)
        async with line.opened(), web() as reached:
            connected = Connected(line, reached, around)
            line.heard, line.seen, line.taken = connected.heard, connected.seen, connected.taken
            line.over.add_done_callback(lambda over: connected.lost(over.result()))
            try:
                await connected.arrive()
            except SendError:
                if line.over.done():  # which says more of why
                    raise line.over.result() from None
                raise
            self._look_into(connected)
            async with self._working(connected):
                line.over.add_done_callback(partial(self._gone, around))
                yield

    @asynccontextmanager
    async def _working(self, connected: Connected) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as tasks:
                working = connected.work(tasks)
                self._connected = connected
                try:
                    yield
                finally:
                    self._connected = None
                    for task in working:
                        task.cancel()
        finally:
            await connected.leave()

    async def _around(self, intake: Intake) -> Around:
        def lost(error: ConnectError) -> None:
            intake.lost(self.name, self.account, error)

        # Of this very account: another one under the same name has archives of its own.
        name = blake2b(self._settings.jid.lower().encode(), digest_size=8).hexdigest()
        return Around(
            settings=self._settings,
            account=self.account,
            patience=self._patience,
            settled=self._settled,
            marks=await Marks.load(self._folder / f"{name}.json"),
            held=self._held,
            recent=self._recent,
            intake=intake,
            clock=self._clock,
            new_id=self._new_id,
            lost=lost,
        )

    def _gone(self, around: Around, over: asyncio.Future[ConnectError]) -> None:
        if self._connected is not None:  # else we have left by ourselves
            around.lost(over.result())

    def _look_into(self, connected: Connected) -> None:
        archived = connected.archived
        self.capabilities = msgspec.structs.replace(
            self.capabilities,
            backlog=Backlog.HISTORY if archived else Backlog.NONE,
            lookup=archived,
            attachments_out=connected.sending.uploads is not None,
        )

    def fits(self, text: str) -> bool:
        return fits(text, limit=LONGEST - LONGEST_MARK)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._line.sending.send(outbound)

    async def edit(self, change: Change) -> None:
        await self._line.sending.edit(change)

    async def find(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await self._line.find(delivery_id, address)

    async def typing(self, address: Address) -> None:
        self._line.sending.typing(address)

    async def react(self, address: Address, message_id: str, sign: str | None) -> None:
        self._line.sending.react(address, message_id, sign)

    async def probe(self) -> None:
        await self._line.probe()

    @property
    def _line(self) -> Connected:
        if self._connected is None:
            raise NotConnected("the account is not connected to its server; nothing was sent")
        return self._connected


def library(
    settings: XmppSettings, *, account: str, patience: float = PATIENCE
) -> "Callable[..., Line]":
    """In a thread: the import takes a while, and so does reading whom this machine trusts; the
    loop has others to serve."""
    try:
        from holdfast.platforms.xmpp.line import Line  # noqa: PLC0415 - imports slixmpp
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the library that speaks XMPP is not installed ({error})",
            remedy="pip install 'holdfast[xmpp]', then restart the gateway",
        ) from error
    table = table_of(PLATFORM, account)
    context = trust(settings, table=table)
    return partial(Line, context=context, patience=patience, table=table)
