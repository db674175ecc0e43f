"""Presence: all that one connection consists of, from the welcome to the goodbye."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack

from holdfast.core.errors import ConnectError, LineLost, SendError
from holdfast.core.messages.inbox import Inbound
from holdfast.core.ports.protocols import Clock, Intake, NewId
from holdfast.core.secret import Secret
from holdfast.platforms.held import Held
from holdfast.platforms.irc.channels import Channels
from holdfast.platforms.irc.history import History
from holdfast.platforms.irc.line import Line
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.reading import Reader
from holdfast.platforms.irc.record import Record
from holdfast.platforms.irc.sender import Sending
from holdfast.platforms.irc.spelling import Spelling
from holdfast.platforms.irc.taking import Past, Taking
from holdfast.platforms.irc.users import People

PING = 30.0  # seconds between two signs of life that are asked for


class Presence:
    """Owns what is heard by whom: where we are first, then who is who, then what is said."""

    def __init__(
        self,
        line: Line,
        settings: IrcSettings,
        record: Record | None,
        keys: Mapping[str, Secret],
        *,
        account: str,
        intake: Intake,
        held: Held[Inbound],
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._line = line
        self._settings = settings
        self.spelling = Spelling(line.names, settings.chats)
        people = People(line, settings.people, monotonic=clock.monotonic)
        self._channels = Channels(line, settings.every_channel, keys, joined=self._joined)
        self.sending = Sending(line, people, self._channels)
        reader = Reader(
            line,
            people,
            account=account,
            network=settings.host if record is not None else None,
            new_id=new_id,
            is_ours=self.sending.is_ours,
            spelling=self.spelling,
        )
        past = None if record is None else Past(history=History(line, now=clock.now), record=record)
        self._taking = Taking(reader, people, account=account, intake=intake, past=past, held=held)
        self._ears = ExitStack()
        for ear in (self._channels.hear, people.hear, self._taking.hear):
            self._ears.enter_context(line.heard_by(ear))

    def begin(self, tasks: asyncio.TaskGroup) -> asyncio.Task[LineLost]:
        """The task that listens, which ends when the line does."""
        return tasks.create_task(self._line.listen(), name="irc line")

    async def arrived(self) -> ConnectError | None:
        """Returns when we are in every channel that lets us in; else why we never got there."""
        try:
            # https://ircv3.net/specs/extensions/bot-mode
            if mode := self._line.features.get("BOT"):
                await self._line.say("MODE", self._line.nick, f"+{mode}")
            await self._channels.join()
            await self._line.round_trip()
        except SendError as error:
            return LineLost(str(error))
        return None

    async def take(self) -> None:
        await self._taking.run()

    async def keep(self, ping: float) -> None:
        """Until cancelled: ask for signs of life, and for what we are without."""
        while True:
            await asyncio.sleep(ping)
            try:
                await self._look_after()
            except SendError:
                continue  # whoever listens notices that the line is gone, or silent

    async def round_trip(self) -> None:
        await self._line.round_trip()

    async def leave(self) -> None:
        self._ears.close()
        self._line.part()
        await self._taking.keep_mark()

    async def _look_after(self) -> None:
        await self._line.say("PING", self._line.number())
        if not self._line.is_me(self._settings.nick):
            await self._line.say("NICK", self._settings.nick)  # whoever has it may have gone
        await self._channels.join()
        await self._taking.keep_mark()

    def _joined(self, channel: str) -> None:
        self._taking.joined(channel)  # which is made after those it hears from
