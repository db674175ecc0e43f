"""The Discord platform: one bot, which hears over the gateway and speaks over REST."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.errors import ConnectError, ConnectRefused, SendError
from holdfast.core.messages.outbox import Address, Change, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, ChatForm, Formatting
from holdfast.core.ports.protocols import Clock, Intake
from holdfast.core.secret import Secret
from holdfast.platforms.discord.client import BadToken, RestApi
from holdfast.platforms.discord.ears import Ears
from holdfast.platforms.discord.hearing import Hearing
from holdfast.platforms.discord.plugin import NEW_TOKEN, DiscordSettings
from holdfast.platforms.discord.reading import PLATFORM
from holdfast.platforms.discord.record import Record
from holdfast.platforms.discord.sender import Sending
from holdfast.platforms.discord.slash_commands import slash_commands
from holdfast.platforms.discord.snowflakes import at
from holdfast.platforms.discord.wire import User
from holdfast.platforms.text.discord import LONGEST, fits

if TYPE_CHECKING:  # the library is imported when a line is opened, and not before
    from holdfast.platforms.discord.connection import Line

log = logging.getLogger(__name__)


def capabilities_of(settings: DiscordSettings) -> Capabilities:
    """Discord takes about five messages in five seconds in a channel, edits among them; its
    heartbeat is answered every 41 seconds."""
    return Capabilities(
        backlog=Backlog.HISTORY,
        idempotent_send=True,
        max_length=LONGEST,
        formatting=Formatting.MARKDOWN,
        edit=True,
        edit_interval=1.5,
        typing=True,
        buttons=True,
        reactions=True,
        threads=True,
        attachments_in=settings.max_file_mb > 0,
        attachments_out=True,
        chat_form=ChatForm(pattern=r"[0-9]{1,20}", example="1234567890123456789"),
        alive_within=120.0,
    )


class DiscordPlatform:
    """A door to one bot. It owns its line while it is connected, and keeps a record of how far it
    was heard in `folder`."""

    def __init__(
        self,
        token: Secret,
        *,
        account: str,
        settings: DiscordSettings,
        folder: Path,
        clock: Clock,
        limit: float = 20.0,
    ) -> None:
        """`limit`: seconds after which a question without an answer has none."""
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._token = token
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._api = RestApi(token, limit=limit)
        most = settings.max_file_mb * 2**20
        self._ears = Ears(api=self._api, account=account, most=most)
        self._sending = Sending(self._api)

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        base_url, line = await asyncio.to_thread(library, self._settings)
        async with (
            self._api.open(base_url, lambda: intake.proven(self.name, self.account)),
            line.logged_in(self._token) as (me, application),
        ):
            record = await self._record_of(me)
            async with asyncio.TaskGroup() as tasks:
                hearing = Hearing(self._ears, me, record, intake=intake, tasks=tasks)
                work = [tasks.create_task(hearing.hold(line), name="gateway")]
                try:
                    ended = await hearing.begun(work[0])
                    if ended is None:
                        work[0].add_done_callback(partial(self._gone, intake))
                        work += self._errands(application, tasks)
                        yield
                finally:
                    for task in work:
                        task.cancel()
                    await hearing.leave()
            if ended is not None:  # raised within, the group would hide it
                raise ended

    def fits(self, text: str) -> bool:
        return fits(text)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._sending.send(outbound)

    async def edit(self, change: Change) -> None:
        await self._sending.edit(change)

    async def typing(self, address: Address) -> None:
        await self._sending.typing(address)

    async def react(self, address: Address, message_id: str, sign: str | None) -> None:
        await self._sending.react(address, message_id, sign)

    async def probe(self) -> None:
        try:
            await self._api.call("GET", "/users/@me", User)
        except BadToken as error:
            raise ConnectRefused(str(error), remedy=NEW_TOKEN) from error

    def _gone(self, intake: Intake, holding: asyncio.Task[ConnectError]) -> None:
        if not holding.cancelled() and holding.exception() is None:
            intake.lost(self.name, self.account, holding.result())

    async def _record_of(self, me: User) -> Record:
        """Of this very bot: another one under the same name has chats of its own."""
        beginning = at(self._clock.now())
        return await Record.load(self._folder / f"{me.id}.json", beginning=beginning)

    def _errands(self, application: str, tasks: asyncio.TaskGroup) -> Sequence[asyncio.Task[Any]]:
        if not self._settings.menu:
            return ()
        return (tasks.create_task(self._show_menu(application), name="menu"),)

    async def _show_menu(self, application: str) -> None:
        path = f"/applications/{application}/commands"
        try:
            await self._api.call("PUT", path, msgspec.Raw, body=slash_commands())
        except SendError as error:
            # A bot without a menu answers as well as one with it.
            log.warning("The menu could not be set: %s", error, extra={"action": "menu_unset"})


def library(settings: DiscordSettings) -> "tuple[str, Line]":
    """In a thread: the import takes half a second, and the loop has others to serve."""
    try:
        from holdfast.platforms.discord.connection import Line, base_url
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the library that speaks with Discord is not installed ({error})",
            remedy="pip install 'holdfast[discord]', then restart the gateway",
        ) from error
    return base_url(), Line(content=settings.message_content)
