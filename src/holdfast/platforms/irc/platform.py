"""The IRC platform: one nick on one network, its connection, and the check of its credentials."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.core.errors import AccountDisconnected, ConnectError, NotConnected, SendError
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.outbox import Address, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, LengthUnit
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import AccountIdentity, PluginContext
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.secrets import Secret
from holdfast.core.text.splitting import message_length
from holdfast.platforms.inbound import EventBuffer
from holdfast.platforms.irc.channels import ChannelMembership
from holdfast.platforms.irc.client import (
    RESPONSE_TIMEOUT,
    FloodLimiter,
    IrcClient,
    IrcRegistration,
    IrcSocket,
    ServerWelcome,
    open_socket,
)
from holdfast.platforms.irc.events import ChannelIds, IrcNames, format_line
from holdfast.platforms.irc.history import (
    REQUIRED_CAPABILITIES,
    IrcCheckpoint,
    IrcHistory,
    format_timestamp,
)
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.receiver import PLATFORM, IrcBacklog, IrcParser, IrcReceiver
from holdfast.platforms.irc.sender import IrcSender
from holdfast.platforms.irc.users import UserDirectory
from holdfast.platforms.text.irc import render

PING_INTERVAL = 30.0  # seconds between two PINGs
_MAX_BYTES = 2000  # of a message, which is several lines
_MAX_LINES = 8  # of a message: after an unknown outcome it is sent again as a whole
_MIN_TEXT_BYTES = 340  # of a line, left for the text with the longest names

# Before a server has said what it can do. A line is accepted once the server has echoed it or
# answered a PING behind it. Without either the outcome is unknown, and it cannot be looked up.
CAPABILITIES = Capabilities(
    backlog=Backlog.NONE,
    max_length=_MAX_BYTES,
    length_unit=LengthUnit.BYTES,
    heartbeat_interval=3 * PING_INTERVAL,
)


class IrcConnection:
    """All parts of one connection, after registration. They handle each message in order: first the
    channel membership, then the users, then the receiver."""

    def __init__(
        self,
        client: IrcClient,
        settings: IrcSettings,
        checkpoint: IrcCheckpoint | None,
        channel_keys: Mapping[str, Secret],
        *,
        account: str,
        intake: Intake,
        buffer: EventBuffer[Inbound],
        clock: Clock,
        new_id: IdFactory,
    ) -> None:
        self._client = client
        self._settings = settings
        self.channel_ids = ChannelIds(client.names, settings.chats)
        users = UserDirectory(client, settings.identify_by, monotonic=clock.monotonic)
        self._channels = ChannelMembership(
            client, settings.all_channels, channel_keys, on_joined=self._on_channel_joined
        )
        self.sender = IrcSender(client, users, self._channels)
        parser = IrcParser(
            client,
            users,
            account=account,
            network=settings.host if checkpoint is not None else None,
            new_id=new_id,
            is_ours=self.sender.is_ours,
            channel_ids=self.channel_ids,
        )
        backlog = (
            None
            if checkpoint is None
            else IrcBacklog(history=IrcHistory(client, now=clock.now), checkpoint=checkpoint)
        )
        self._receiver = IrcReceiver(
            parser, users, account=account, intake=intake, backlog=backlog, buffer=buffer
        )
        self._subscriptions = ExitStack()
        for listener in (
            self._channels.handle_message,
            users.handle_message,
            self._receiver.handle_message,
        ):
            self._subscriptions.enter_context(client.subscribe(listener))

    def start_listening(self, tasks: asyncio.TaskGroup) -> asyncio.Task[AccountDisconnected]:
        """The listening task, which ends when the connection is lost."""
        return tasks.create_task(self._client.listen(), name="irc connection")

    async def join_channels(self) -> ConnectError | None:
        """Returns None once all channels that accept us are joined, else why we disconnected."""
        try:
            # https://ircv3.net/specs/extensions/bot-mode
            if mode := self._client.features.get("BOT"):
                await self._client.send("MODE", self._client.nick, f"+{mode}")
            await self._channels.join_missing()
            await self._client.round_trip()
        except SendError as error:
            return AccountDisconnected("{error}", error=error)
        return None

    async def receive(self) -> None:
        await self._receiver.run()

    async def keep_alive(self, ping_interval: float) -> None:
        """Until cancelled: sends PINGs, and tries to get the nick and channels that are missing."""
        while True:
            await asyncio.sleep(ping_interval)
            try:
                await self._maintain()
            except SendError:
                continue  # the listening task, or the heartbeat, notices a lost connection

    async def round_trip(self) -> None:
        await self._client.round_trip()

    async def close(self) -> None:
        self._subscriptions.close()
        self._client.quit()
        await self._receiver.save_checkpoint()

    async def _maintain(self) -> None:
        await self._client.send("PING", self._client.next_token())
        if not self._client.is_me(self._settings.nick):
            await self._client.send("NICK", self._settings.nick)  # its holder may have left
        await self._channels.join_missing()
        await self._receiver.save_checkpoint()

    def _on_channel_joined(self, channel: str) -> None:
        self._receiver.channel_joined(channel)  # the receiver is created after the membership


class IrcPlatform:
    """One nick on one network. Owns its connection and, if the network has a history, a checkpoint
    file in `folder`."""

    def __init__(
        self,
        secrets: Mapping[str, Secret],
        *,
        account: str,
        settings: IrcSettings,
        folder: Path,
        clock: Clock,
        new_id: IdFactory,
        ping_interval: float = PING_INTERVAL,
        timeout: float = RESPONSE_TIMEOUT,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        self.capabilities = CAPABILITIES
        self._secrets = secrets
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._new_id = new_id
        self._ping_interval = ping_interval
        self._timeout = timeout
        self._buffer = EventBuffer[Inbound]()
        # What is the same on every network; the rest is known once connected.
        self._channel_ids = ChannelIds(IrcNames({"CASEMAPPING": "ascii"}), settings.chats)
        self._connection: IrcConnection | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        async with open_socket(
            self._settings, lambda: intake.report_alive(self.name, self.account)
        ) as socket:
            connection = await self._register(socket, intake)
            async with asyncio.TaskGroup() as tasks:
                listening = connection.start_listening(tasks)
                work: list[asyncio.Task[Any]] = [listening]
                try:
                    ended = await connection.join_channels()
                    if ended is None:
                        listening.add_done_callback(partial(self._handle_end, intake))
                        work.append(tasks.create_task(connection.receive(), name="irc messages"))
                        work.append(
                            tasks.create_task(
                                connection.keep_alive(self._ping_interval), name="irc keepalive"
                            )
                        )
                        self._connection = connection
                        yield
                finally:
                    self._connection = None
                    for task in work:
                        task.cancel()
                    await connection.close()
                    self._buffer.log_pending(f"{self._settings.nick} on {self._settings.host}")
            if ended is not None:  # raised inside, it would be in an exception group
                raise ended

    def fits(self, text: str) -> bool:
        short = message_length(text, LengthUnit.BYTES) <= _MAX_BYTES
        return short and len(render(text, limit=_MIN_TEXT_BYTES)) <= _MAX_LINES

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._active_connection().sender.send(outbound)

    async def show_typing(self, address: Address) -> None:
        await self._active_connection().sender.show_typing(address)

    async def probe(self) -> None:
        await self._active_connection().round_trip()

    def normalise_chat_id(self, chat: str) -> str:
        return self._channel_ids.normalise(chat)

    def _active_connection(self) -> IrcConnection:
        if self._connection is None:
            raise NotConnected("there is no connection to {host}", host=self._settings.host)
        return self._connection

    async def _register(self, socket: IrcSocket, intake: Intake) -> IrcConnection:
        registration = IrcRegistration(socket, self._settings, self._secrets, account=self.account)
        welcome = await registration.register()
        self.capabilities = capabilities_of(welcome)
        limiter = FloodLimiter(
            burst=self._settings.burst,
            seconds_per_line=self._settings.line_seconds,
            monotonic=self._clock.monotonic,
        )
        connection = IrcConnection(
            IrcClient(socket, welcome, limiter, timeout=self._timeout),
            self._settings,
            await self._load_checkpoint(welcome),
            self._channel_keys(),
            account=self.account,
            intake=intake,
            buffer=self._buffer,
            clock=self._clock,
            new_id=self._new_id,
        )
        self._channel_ids = connection.channel_ids
        return connection

    def _channel_keys(self) -> Mapping[str, Secret]:
        keys = {channel: f"locked.{channel}.key" for channel in self._settings.locked}
        return {
            channel: self._secrets[key] for channel, key in keys.items() if key in self._secrets
        }

    async def _load_checkpoint(self, welcome: ServerWelcome) -> IrcCheckpoint | None:
        if not welcome.capabilities >= REQUIRED_CAPABILITIES:
            return None
        path = self._folder / f"{quote(self._settings.host, safe='')}.json"
        return await IrcCheckpoint.load(
            path, initial=welcome.server_time or format_timestamp(self._clock.now())
        )

    def _handle_end(self, intake: Intake, listening: asyncio.Task[AccountDisconnected]) -> None:
        if not listening.cancelled() and listening.exception() is None:
            intake.report_lost(self.name, self.account, listening.result())


def capabilities_of(welcome: ServerWelcome) -> Capabilities:
    """`CAPABILITIES` with what this server supports."""
    history = welcome.capabilities >= REQUIRED_CAPABILITIES
    return msgspec.structs.replace(
        CAPABILITIES,
        backlog=Backlog.HISTORY if history else Backlog.NONE,
        typing="message-tags" in welcome.capabilities and not _is_tag_denied(welcome, "typing"),
    )


def _is_tag_denied(welcome: ServerWelcome, tag: str) -> bool:
    """https://ircv3.net/specs/extensions/message-tags: tags that the server does not relay."""
    denied = welcome.features.get("CLIENTTAGDENY", "").split(",")
    return tag in denied or ("*" in denied and f"-{tag}" not in denied)


async def check_account(context: PluginContext[IrcSettings]) -> AccountIdentity:
    """Registers and quits, without joining a channel."""
    settings = context.settings
    async with open_socket(settings, lambda: None) as socket:
        registration = IrcRegistration(socket, settings, context.secrets, account=context.account)
        welcome = await registration.register()
        socket.write(format_line("QUIT", "until later"))
    return AccountIdentity(name=f"{welcome.nick} on {settings.host}")
