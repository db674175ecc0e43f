"""Presence: all that one connection consists of, from the welcome to the goodbye."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack

from holdfast.core.errors import AccountDisconnected, ConnectError, SendError
from holdfast.core.messages.inbox import Inbound
from holdfast.core.ports.protocols import Clock, IdFactory, Intake
from holdfast.core.secret import Secret
from holdfast.platforms.held import EventBuffer
from holdfast.platforms.irc.channels import ChannelMembership
from holdfast.platforms.irc.history import IrcHistory
from holdfast.platforms.irc.line import IrcClient
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.reading import IrcParser
from holdfast.platforms.irc.record import IrcCheckpoint
from holdfast.platforms.irc.sender import IrcSender
from holdfast.platforms.irc.spelling import ChannelIds
from holdfast.platforms.irc.taking import IrcBacklog, IrcReceiver
from holdfast.platforms.irc.users import UserDirectory

PING_INTERVAL = 30.0  # seconds between two signs of life that are asked for


class IrcConnection:
    """Owns what is heard by whom: where we are first, then who is who, then what is said."""

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
        people = UserDirectory(client, settings.identify_by, monotonic=clock.monotonic)
        self._channels = ChannelMembership(
            client, settings.all_channels, channel_keys, on_joined=self._on_channel_joined
        )
        self.sender = IrcSender(client, people, self._channels)
        reader = IrcParser(
            client,
            people,
            account=account,
            network=settings.host if checkpoint is not None else None,
            new_id=new_id,
            is_ours=self.sender.is_ours,
            channel_ids=self.channel_ids,
        )
        past = (
            None
            if checkpoint is None
            else IrcBacklog(history=IrcHistory(client, now=clock.now), checkpoint=checkpoint)
        )
        self._receiver = IrcReceiver(
            reader, people, account=account, intake=intake, backlog=past, buffer=buffer
        )
        self._subscriptions = ExitStack()
        for ear in (
            self._channels.handle_message,
            people.handle_message,
            self._receiver.handle_message,
        ):
            self._subscriptions.enter_context(client.subscribe(ear))

    def start_listening(self, tasks: asyncio.TaskGroup) -> asyncio.Task[AccountDisconnected]:
        """The task that listens, which ends when the line does."""
        return tasks.create_task(self._client.listen(), name="irc line")

    async def join_channels(self) -> ConnectError | None:
        """Returns when we are in every channel that lets us in; else why we never got there."""
        try:
            # https://ircv3.net/specs/extensions/bot-mode
            if mode := self._client.features.get("BOT"):
                await self._client.send("MODE", self._client.nick, f"+{mode}")
            await self._channels.join_missing()
            await self._client.round_trip()
        except SendError as error:
            return AccountDisconnected(str(error))
        return None

    async def receive(self) -> None:
        await self._receiver.run()

    async def keep_alive(self, ping_interval: float) -> None:
        """Until cancelled: ask for signs of life, and for what we are without."""
        while True:
            await asyncio.sleep(ping_interval)
            try:
                await self._maintain()
            except SendError:
                continue  # whoever listens notices that the line is gone, or silent

    async def round_trip(self) -> None:
        await self._client.round_trip()

    async def close(self) -> None:
        self._subscriptions.close()
        self._client.quit()
        await self._receiver.save_checkpoint()

    async def _maintain(self) -> None:
        await self._client.send("PING", self._client.next_token())
        if not self._client.is_me(self._settings.nick):
            await self._client.send("NICK", self._settings.nick)  # whoever has it may have gone
        await self._channels.join_missing()
        await self._receiver.save_checkpoint()

    def _on_channel_joined(self, channel: str) -> None:
        self._receiver.channel_joined(channel)  # which is made after those it hears from
