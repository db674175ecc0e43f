"""Hearing: all that one connection of a bot listens with, put together."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from holdfast.core.errors import AccountDisconnected, ConnectError
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.discord.ears import DiscordReceiverConfig
from holdfast.platforms.discord.events import DiscordEventDispatcher
from holdfast.platforms.discord.order import ChannelQueues
from holdfast.platforms.discord.places import ChannelDirectory
from holdfast.platforms.discord.pressing import DiscordInteractionHandler
from holdfast.platforms.discord.reading import PLATFORM, DiscordParser
from holdfast.platforms.discord.record import DiscordCheckpoint
from holdfast.platforms.discord.taking import DiscordMessageHandler
from holdfast.platforms.discord.wire import DiscordUser


class FrameSource(Protocol):
    """A line, as `line.Line` is one."""

    async def run_until_closed(
        self, *, on_frame: Callable[[str], None], on_disconnect: Callable[[], None]
    ) -> ConnectError: ...


class DiscordReceiver:
    """Owns the tasks that what is heard begins, among those of the connection."""

    def __init__(
        self,
        config: DiscordReceiverConfig,
        me: DiscordUser,
        checkpoint: DiscordCheckpoint,
        *,
        intake: Intake,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._account = config.account
        self._checkpoint = checkpoint
        self._intake = intake
        self._queues = ChannelQueues(tasks)
        self._connected = asyncio.Event()
        self._unstable = asyncio.Event()
        places = ChannelDirectory(me.id)
        reader = DiscordParser(me, account=config.account, roles=places.bot_roles)
        taking = DiscordMessageHandler(
            config, reader, places, checkpoint, intake=intake, queues=self._queues
        )
        self._dispatcher = DiscordEventDispatcher(
            taking,
            DiscordInteractionHandler(config.client, reader, places, checkpoint, intake=intake),
            places,
            checkpoint,
            queues=self._queues,
            on_connected=self._connected.set,
            on_unstable=self._unstable.set,
        )

    async def wait_connected(self, running: asyncio.Task[ConnectError]) -> ConnectError | None:
        """Returns when the line is whole, or why it never was."""
        up = asyncio.ensure_future(self._connected.wait())
        try:
            await asyncio.wait({running, up}, return_when=asyncio.FIRST_COMPLETED)
            return None if up.done() else running.result()
        finally:
            up.cancel()

    async def run_until_closed(self, connection: FrameSource) -> ConnectError:
        """Until the line is gone for good, or never holds: what that means."""
        holding = asyncio.ensure_future(
            connection.run_until_closed(
                on_frame=self._on_frame, on_disconnect=self._dispatcher.on_disconnect
            )
        )
        hopeless = asyncio.ensure_future(self._unstable.wait())
        try:
            await asyncio.wait({holding, hopeless}, return_when=asyncio.FIRST_COMPLETED)
            return (
                holding.result() if holding.done() else AccountDisconnected("the line never holds")
            )
        finally:
            holding.cancel()
            hopeless.cancel()
            await asyncio.wait({holding, hopeless})

    async def stop(self) -> None:
        """Nothing more is taken. What is known of how far everything was looked at is written
        down, so that the next connection need not look again."""
        mark = self._dispatcher.seen_until
        self._queues.stop()
        await self._checkpoint.advance(mark)

    def _on_frame(self, frame: str) -> None:
        """Whatever comes is a sign of life, the answer to a heartbeat above all."""
        self._intake.report_alive(PLATFORM, self._account)
        self._dispatcher.on_frame(frame)
