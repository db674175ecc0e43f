"""The Slack platform: one app of a workspace, connected by hearing its events."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from holdfast.core.config.settings import table_of
from holdfast.core.errors import ConnectError, ConnectRefused, LineLost, SendError, Throttled
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Change, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, ChatForm, Formatting
from holdfast.core.ports.protocols import Clock, Intake
from holdfast.core.secret import Secret
from holdfast.platforms.slack.api import WebApi
from holdfast.platforms.slack.backlog import Backlog as PastEvents
from holdfast.platforms.slack.checkpoint import Record
from holdfast.platforms.slack.finding import Finding
from holdfast.platforms.slack.people import People
from holdfast.platforms.slack.plugin import SlackSettings
from holdfast.platforms.slack.posted import Posted
from holdfast.platforms.slack.reading import PLATFORM, Reader
from holdfast.platforms.slack.refusals import BadToken, NoScope
from holdfast.platforms.slack.scopes import HISTORY, PAGE, REACT, WRITE, lacking, refused_without
from holdfast.platforms.slack.sending import LONGEST_MARK, Sending
from holdfast.platforms.slack.socket import PING, Socket
from holdfast.platforms.slack.taking import Taking
from holdfast.platforms.slack.wire import Identity
from holdfast.platforms.text.slack import LONGEST, fits

log = logging.getLogger(__name__)

_SIGN_OF_LIFE = 60.0  # seconds between two questions, where events are posted
_RECORD = "heard.json"


def capabilities_of(settings: SlackSettings) -> Capabilities:
    """Slack takes about one message a second in a chat, and has no idempotency key. Whether it can
    be asked for what has arrived depends on what the app may do, and is known once connected."""
    return Capabilities(
        backlog=Backlog.UNTIL_ACKED,
        max_length=LONGEST - LONGEST_MARK,
        formatting=Formatting.MRKDWN,
        edit=True,
        edit_interval=1.5,
        group_edit_interval=3.0,
        buttons=True,
        threads=True,
        attachments_in=settings.max_file_mb > 0,
        attachments_out=True,
        chat_form=ChatForm(pattern=r"[CDGUW][A-Z0-9]{2,30}", example="C0123ABCDEF"),
        alive_within=3 * PING if settings.app_token else 2 * _SIGN_OF_LIFE,
    )


class SlackPlatform:
    """A door to one app. It owns its line while it is connected, and keeps a record of where it was
    heard, and how far, in `folder`."""

    def __init__(
        self,
        secrets: Mapping[str, Secret],
        *,
        account: str,
        settings: SlackSettings,
        folder: Path,
        clock: Clock,
        limit: float = 20.0,
    ) -> None:
        """`limit`: seconds after which a question without an answer has none."""
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._app_token = secrets.get("app_token")
        self._api = WebApi(secrets["token"], base_url=settings.base_url, limit=limit)
        self._sending = Sending(self._api)
        self._finding = Finding(self._api)
        self._posted = Posted(secrets.get("signing_secret"), account=account, clock=clock)

    def routes(self) -> Sequence[web.RouteDef]:
        return self._posted.routes()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        def alive() -> None:
            intake.proven(self.name, self.account)

        def turned_away(error: BadToken) -> None:
            intake.lost(self.name, self.account, self._ended_by(error))

        async with self._api.open(alive, turned_away):
            record = await Record.load(self._folder / _RECORD, now=self._clock.now())
            taking = await self._greeted(intake, record)
            receiving = self._by_socket if self._app_token is not None else self._by_posts
            try:
                async with receiving(taking, PastEvents(self._api, record), intake, alive):
                    yield
            finally:
                await record.leave(self._clock.now())

    def fits(self, text: str) -> bool:
        return fits(text, limit=LONGEST - LONGEST_MARK)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._sending.send(outbound)

    async def edit(self, change: Change) -> None:
        await self._sending.edit(change)

    async def react(self, address: Address, message_id: str, sign: str | None) -> None:
        await self._sending.react(address, message_id, sign)

    async def find(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await self._finding.find(delivery_id, address)

    async def probe(self) -> None:
        try:
            await self._api.ask("auth.test", Identity)
        except BadToken as error:
            raise self._ended_by(error) from error
        self._declare()

    async def _greeted(self, intake: Intake, record: Record) -> Taking:
        """Who we are, and what we may do here."""
        try:
            me = await self._api.ask("auth.test", Identity)
        except Throttled:
            raise
        except SendError as error:
            raise self._ended_by(error) from error
        self._look_into_scopes()
        reader = Reader(me, account=self.account, threads=self._settings.threads)
        most = self._settings.max_file_mb * 2**20
        people = People(self._api)
        return Taking(self._api, reader, people, intake=intake, most=most, record=record)

    def _look_into_scopes(self) -> None:
        self._declare()
        if self._api.scopes and WRITE not in self._api.scopes:
            raise refused_without(WRITE)
        for each in self.capabilities.lacks:
            log.warning("The Slack app lacks %s.", each, extra={"action": "scopes_missing"})
        if not self.capabilities.lookup:
            log.warning(
                "Whether a message to Slack without a receipt has arrived cannot be looked up, and "
                "it may be read twice.",
                extra={"action": "scopes_missing"},
            )

    def _declare(self) -> None:
        scopes = self._api.scopes
        self.capabilities = msgspec.structs.replace(
            self.capabilities,
            lookup=scopes >= HISTORY,
            reactions=REACT in scopes,
            lacks=lacking(scopes),
        )

    @asynccontextmanager
    async def _by_socket(
        self, taking: Taking, missed: PastEvents, intake: Intake, alive: Callable[[], None]
    ) -> AsyncIterator[None]:
        assert self._app_token is not None, "there is a socket only with it"
        socket = Socket(self._api, self._app_token, alive=alive)
        try:
            await self._opened(socket)
            async with asyncio.TaskGroup() as errands:
                tasks = [
                    errands.create_task(self._listen(socket, intake), name="slack socket"),
                    errands.create_task(
                        self._taken(missed, taking, intake, then=socket.take_events),
                        name="slack events",
                    ),
                    errands.create_task(socket.take_orders(taking), name="slack orders"),
                    errands.create_task(socket.ask_for_life(), name="slack pings"),
                ]
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            await socket.close()

    async def _opened(self, socket: Socket) -> None:
        try:
            await socket.open()
        except Throttled:
            raise
        except SendError as error:
            raise self._ended_by(error, key="app_token") from error

    async def _listen(self, socket: Socket, intake: Intake) -> None:
        """Until the line breaks, which is told to whoever mends lines."""
        try:
            await socket.listen()
        except ConnectError as error:
            intake.lost(self.name, self.account, error)
        except SendError as error:
            intake.lost(self.name, self.account, self._ended_by(error, key="app_token"))

    @asynccontextmanager
    async def _by_posts(
        self, taking: Taking, missed: PastEvents, intake: Intake, alive: Callable[[], None]
    ) -> AsyncIterator[None]:
        async def begin(taking: Taking) -> None:
            self._posted.begin(taking)

        try:
            async with asyncio.TaskGroup() as errands:
                tasks = [
                    errands.create_task(self._ask_for_life(intake), name="slack signs of life"),
                    errands.create_task(
                        self._taken(missed, taking, intake, then=begin), name="slack backlog"
                    ),
                ]
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            self._posted.end()

    async def _taken(
        self,
        missed: PastEvents,
        taking: Taking,
        intake: Intake,
        *,
        then: Callable[[Taking], Awaitable[None]],
    ) -> None:
        """What was missed, and only then what is told now: it was said behind that. Slack brings
        again what waits for it meanwhile, and it counts once."""
        try:
            await missed.take(taking, now=self._clock.now())
        except SendError as error:
            intake.lost(self.name, self.account, self._ended_by(error))
            return
        await then(taking)

    async def _ask_for_life(self, intake: Intake) -> None:
        while True:
            await asyncio.sleep(_SIGN_OF_LIFE)
            try:
                await self._api.ask("auth.test", Identity)
            except Throttled:
                continue
            except SendError as error:
                intake.lost(self.name, self.account, self._ended_by(error))
                return

    def _ended_by(self, error: SendError, *, key: str = "token") -> ConnectError:
        """What a broken line means for the account."""
        if isinstance(error, NoScope):
            return refused_without(error.needed)
        if isinstance(error, BadToken):
            where = f"{table_of(self.name, self.account)}.{key}"
            return ConnectRefused(
                f"{error}: it is wrong, was revoked, or its app was removed",
                remedy=f"take the token from {PAGE} and set {where}",
            )
        return LineLost(str(error))
