"""The Telegram platform: one bot, connected by getting its updates, polled or posted."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from holdfast.core.config.settings import Answers
from holdfast.core.errors import (
    AccountHeld,
    ConnectError,
    ConnectRefused,
    LineLost,
    SendError,
    Throttled,
)
from holdfast.core.messages.outbox import Address, Change, Outbound, Receipt
from holdfast.core.people.commands import menu
from holdfast.core.ports.capabilities import Backlog, Capabilities, ChatForm, LengthUnit
from holdfast.core.ports.protocols import Intake
from holdfast.core.secret import Secret
from holdfast.platforms.telegram.client import BadToken, BotApi, Held, Hooked
from holdfast.platforms.telegram.plugin import TelegramSettings
from holdfast.platforms.telegram.polling import GRACE, Polling
from holdfast.platforms.telegram.reading import PLATFORM, Reader
from holdfast.platforms.telegram.sending import LONGEST_MARK, Sending
from holdfast.platforms.telegram.taking import Taking
from holdfast.platforms.telegram.webhook import SIGN_OF_LIFE, Webhook
from holdfast.platforms.telegram.wire import User
from holdfast.platforms.text.telegram import fits

log = logging.getLogger(__name__)

_LONGEST = 4096  # UTF-16 units of one message
_LARGEST = 50 * 1024 * 1024  # bytes of one file from a bot
_LONGEST_HELP = 256  # characters of a line in the menu


def capabilities_of(settings: TelegramSettings) -> Capabilities:
    """Telegram keeps updates for a day, takes about one message a second in a chat and twenty a
    minute in a group, and has no idempotency key."""
    polled = settings.poll_seconds + 2 * GRACE
    return Capabilities(
        backlog=Backlog.UNTIL_ACKED,
        max_length=_LONGEST - LONGEST_MARK,
        length_unit=LengthUnit.UTF16,
        settle=0.8,
        edit=True,
        edit_interval=1.5,
        group_edit_interval=4.0,
        typing=True,
        buttons=True,
        reactions=True,
        threads=True,
        attachments_in=settings.max_file_mb > 0,
        attachments_out=True,
        max_file=_LARGEST,
        chat_form=ChatForm(pattern=r"-?[0-9]{1,20}|@[A-Za-z0-9_]{4,32}", example="12345"),
        alive_within=2 * SIGN_OF_LIFE if settings.webhook else polled,
    )


class TelegramPlatform:
    """A door to one bot. It owns its line while it is connected, and keeps nothing else."""

    def __init__(
        self, token: Secret, *, account: str, settings: TelegramSettings, limit: float = 20.0
    ) -> None:
        """`limit`: seconds after which a question without an answer has none."""
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._settings = settings
        self._api = BotApi(token, base_url=settings.base_url, limit=limit)
        self._sending = Sending(self._api)
        self._webhook = Webhook(self._api, token, account=account, address=settings.webhook)

    def routes(self) -> Sequence[web.RouteDef]:
        return self._webhook.routes()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        async with self._api.open(lambda: intake.proven(self.name, self.account)):
            me = await self._greeted()
            async with asyncio.TaskGroup() as errands:
                tasks = [errands.create_task(self._receive(me, intake, errands), name="updates")]
                if self._settings.menu:
                    tasks.append(errands.create_task(self._show_menu(), name="menu"))
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()

    def fits(self, text: str) -> bool:
        return fits(text, limit=_LONGEST - LONGEST_MARK)

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
            await self._api.call("getMe", User)
        except BadToken as error:
            raise self._ended_by(error) from error

    async def _greeted(self) -> User:
        """Who we are. With a webhook, Telegram knows from now on where to post."""
        try:
            me = await self._api.call("getMe", User)
            if self._settings.webhook:
                await self._webhook.set()
            self._look_into_privacy(me)
            return me
        except Throttled:
            raise
        except SendError as error:
            raise self._ended_by(error) from error

    def _look_into_privacy(self, me: User) -> None:
        everything = [
            chat for chat, each in self._settings.chats.items() if each.answers is Answers.ALL
        ]
        if everything and not me.can_read_all_group_messages:
            log.warning(
                "@%s is to answer all that is said in %s, and Telegram gives it only commands and "
                "replies there: say /setprivacy to @BotFather and choose Disable, then remove it "
                "from the group and add it again, or make it an administrator.",
                me.username,
                ", ".join(everything),
                extra={"action": "privacy_mode"},
            )

    async def _receive(self, me: User, intake: Intake, errands: asyncio.TaskGroup) -> None:
        """Until the line breaks, which is told to whoever mends lines."""
        reader = Reader(me, account=self.account)
        most = self._settings.max_file_mb * 2**20
        taking = Taking(self._api, reader, intake=intake, most=most, errands=errands)
        try:
            if self._settings.webhook:
                await self._webhook.hold(taking)
            else:
                await self._poll(reader, taking, intake)
        except SendError as error:
            intake.lost(self.name, self.account, self._ended_by(error))
        finally:
            taking.leave()

    async def _poll(self, reader: Reader, taking: Taking, intake: Intake) -> None:
        polling = Polling(self._api, taking, hold=self._settings.poll_seconds)
        cursor = await intake.cursor(self.name, self.account, reader.cursor)
        try:
            await polling.run(cursor)
        except Hooked:
            await self._webhook.take_down()
            await polling.run(cursor)

    async def _show_menu(self) -> None:
        commands = [
            {"command": each.name, "description": each.help[:_LONGEST_HELP]} for each in menu()
        ]
        try:
            await self._api.call("setMyCommands", bool, commands=commands)
        except SendError as error:
            # A bot without a menu answers as well as one with it.
            log.warning("The menu could not be set: %s", error, extra={"action": "menu_unset"})

    def _ended_by(self, error: SendError) -> ConnectError:
        """What a broken line means for the account."""
        if isinstance(error, BadToken):
            key = "token" if self.account == "default" else f"accounts.{self.account}.token"
            return ConnectRefused(
                f"{error}: the token is wrong, or was revoked",
                remedy=f"ask @BotFather for the token (/mybots) and set platforms.telegram.{key}",
            )
        if isinstance(error, Held):
            return AccountHeld(
                f"somebody else receives the messages of this bot ({error}). Stop it there, or "
                "give this gateway a bot of its own: what the other one gets never comes here",
                holder=error.holder,
            )
        return LineLost(str(error))
