"""The Matrix platform: one account, which hears by syncing and speaks by events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.core.errors import (
    ConnectError,
    ConnectRefused,
    LineLost,
    NotConnected,
    SendError,
    Throttled,
)
from holdfast.core.messages.outbox import Address, Change, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, Formatting, LengthUnit
from holdfast.core.ports.door import Opening
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.matrix.api import BadToken, ClientApi
from holdfast.platforms.matrix.checkpoint import Place, Record
from holdfast.platforms.matrix.hearing import Hearing
from holdfast.platforms.matrix.keys import Keys
from holdfast.platforms.matrix.login import Login
from holdfast.platforms.matrix.paces import USUAL, Paces
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.reading import PLATFORM
from holdfast.platforms.matrix.rooms import Rooms
from holdfast.platforms.matrix.sender import LONGEST, Sending
from holdfast.platforms.matrix.stream import GRACE
from holdfast.platforms.matrix.wire import Whoami
from holdfast.platforms.text.matrix import fits

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import Machine


def capabilities_of(settings: MatrixSettings) -> Capabilities:
    """A server keeps everything, and knows how far we came by the token that we show it; of two
    events of one transaction it makes one."""
    return Capabilities(
        backlog=Backlog.UNTIL_ACKED,
        idempotent_send=True,
        max_length=20_000,
        length_unit=LengthUnit.BYTES,
        formatting=Formatting.HTML,
        edit=True,
        edit_interval=2.0,
        typing=True,
        reactions=True,
        threads=True,
        attachments_in=settings.max_file_mb > 0,
        attachments_out=True,
        alive_within=settings.sync_seconds + 2 * GRACE,
    )


class MatrixPlatform:
    """A door to one account. It owns its line while it is connected, and keeps its device, its
    keys and how far it was heard in its folder."""

    def __init__(
        self, opening: Opening[MatrixSettings], *, limit: float = 20.0, paces: Paces = USUAL
    ) -> None:
        """`limit`: seconds that an answer may take."""
        self.name = PLATFORM
        self.account = opening.account
        self.capabilities = capabilities_of(opening.settings)
        self._opening = opening
        self._paces = paces
        self._api = ClientApi(opening.settings.homeserver, limit=limit)
        self._login = Login(
            self._api,
            account=opening.account,
            settings=opening.settings,
            token=opening.secrets.get("token"),
            password=opening.secrets.get("password"),
            path=opening.folder / "login.json",
        )
        self._sending: Sending | None = None  # while there is a line

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        opening = self._opening
        async with self._api.open(lambda: intake.proven(self.name, self.account)):
            me = await self._entered()
            library = await asyncio.to_thread(_library)
            made = library(
                me,
                folder=opening.folder,
                encryption=opening.settings.encryption,
                new_id=opening.new_id,
            )
            async with made.open() as machine, self._heard(me, machine, intake):
                yield

    @asynccontextmanager
    async def _heard(self, me: Whoami, machine: "Machine", intake: Intake) -> AsyncIterator[None]:
        rooms = Rooms(self._api, machine, user_id=me.user_id)
        keys = Keys(self._api, machine, rooms)
        record = await self._record_of(me)
        hearing = Hearing(
            self._api,
            machine,
            rooms,
            keys,
            record,
            user_id=me.user_id,
            opening=self._opening,
            intake=intake,
            paces=self._paces,
        )
        place = await self._begun(hearing)
        async with asyncio.TaskGroup() as tasks:
            work = self._listen(hearing, place, intake=intake, tasks=tasks)
            listening = tasks.create_task(work, name="sync")
            self._sending = Sending(
                self._api,
                rooms,
                keys,
                user_id=me.user_id,
                new_id=self._opening.new_id,
                room_of=record.room_of,
            )
            try:
                yield
            finally:
                self._sending = None
                listening.cancel()
                await hearing.leave()
                # A task that is cancelled in the instant in which its line breaks may go on in
                # spite of it; with nobody to ask, it does not get far.
                await self._api.hang_up()

    def fits(self, text: str) -> bool:
        return fits(text, limit=LONGEST)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._speaking.send(outbound)

    async def edit(self, change: Change) -> None:
        await self._speaking.edit(change)

    async def typing(self, address: Address) -> None:
        await self._speaking.typing(address)

    async def react(self, address: Address, message_id: str, sign: str | None) -> None:
        await self._speaking.react(address, message_id, sign)

    async def probe(self) -> None:
        try:
            await self._api.whoami()
        except BadToken as error:
            raise self._ended_by(error) from error

    @property
    def _speaking(self) -> Sending:
        if self._sending is None:
            raise NotConnected("the account is not connected to its homeserver; nothing was sent")
        return self._sending

    async def _entered(self) -> Whoami:
        try:
            return await self._login.enter()
        except Throttled:
            raise
        except SendError as error:
            raise LineLost(str(error)) from error

    async def _begun(self, hearing: Hearing) -> Place:
        try:
            return await hearing.begin()
        except SendError as error:
            raise self._ended_by(error) from error

    async def _listen(
        self, hearing: Hearing, place: Place, *, intake: Intake, tasks: asyncio.TaskGroup
    ) -> None:
        """Until the line breaks, which is told to whoever mends lines."""
        try:
            await hearing.run(place, tasks)
        except SendError as error:
            intake.lost(self.name, self.account, self._ended_by(error))

    async def _record_of(self, me: Whoami) -> Record:
        """Of this very account: another one under the same name has other rooms."""
        return await Record.load(self._opening.folder / f"{quote(me.user_id, safe='')}.json")

    def _ended_by(self, error: SendError) -> ConnectError:
        """What a broken line means for the account. With a password, a new token is to be had by
        connecting again."""
        if isinstance(error, BadToken) and not self._login.by_password:
            return self._login.refused(error)
        return LineLost(str(error))


def _library() -> "type[Machine]":
    """In a thread: the import takes half a second, and the loop has others to serve."""
    try:
        from holdfast.platforms.matrix.machine import (  # noqa: PLC0415 - imports matrix-nio
            Machine,
        )
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the library that speaks Matrix is not installed ({error})",
            remedy="pip install 'holdfast[matrix]', then restart the gateway",
        ) from error
    return Machine
