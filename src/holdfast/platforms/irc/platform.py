"""The IRC platform: one nick on one network, which hears and speaks over one connection."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.core.errors import LineLost, NotConnected
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.outbox import Address, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, LengthUnit
from holdfast.core.ports.protocols import Clock, Intake, NewId
from holdfast.core.secret import Secret
from holdfast.core.text.length import length
from holdfast.platforms.held import Held
from holdfast.platforms.irc.greeting import Greeting, Welcome
from holdfast.platforms.irc.history import NEEDED, stamp
from holdfast.platforms.irc.line import PATIENCE, Line
from holdfast.platforms.irc.link import Link, linked
from holdfast.platforms.irc.names import Names
from holdfast.platforms.irc.pacing import Pace
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.presence import PING, Presence
from holdfast.platforms.irc.reading import PLATFORM
from holdfast.platforms.irc.record import Record
from holdfast.platforms.irc.spelling import Spelling
from holdfast.platforms.text.irc import render

_LONGEST = 2000  # bytes of a message, which is several lines
_LINES = 8  # of a message: what is in doubt is sent again as a whole
_ROOM = 340  # bytes of a line that are left behind the longest names there are

# What is known before a server has said what it can do. A line is taken when the server has echoed
# it, or answered a PING behind it; one of which neither is known is in doubt, and nobody can be
# asked for it.
CAPABILITIES = Capabilities(
    backlog=Backlog.NONE,
    max_length=_LONGEST,
    length_unit=LengthUnit.BYTES,
    alive_within=3 * PING,
)


class IrcPlatform:
    """A door to one nick. It owns its connection, and, where the network has a history, a record
    of how far that was looked at in `folder`."""

    def __init__(
        self,
        secrets: Mapping[str, Secret],
        *,
        account: str,
        settings: IrcSettings,
        folder: Path,
        clock: Clock,
        new_id: NewId,
        ping: float = PING,
        patience: float = PATIENCE,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        self.capabilities = CAPABILITIES
        self._secrets = secrets
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._new_id = new_id
        self._ping = ping
        self._patience = patience
        self._held = Held[Inbound]()
        # What is one sign on every network; the rest is known once there is a line.
        self._spelling = Spelling(Names({"CASEMAPPING": "ascii"}), settings.chats)
        self._presence: Presence | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        async with linked(self._settings, lambda: intake.proven(self.name, self.account)) as link:
            presence = await self._greeted(link, intake)
            async with asyncio.TaskGroup() as tasks:
                listening = presence.begin(tasks)
                work: list[asyncio.Task[Any]] = [listening]
                try:
                    ended = await presence.arrived()
                    if ended is None:
                        listening.add_done_callback(partial(self._gone, intake))
                        work.append(tasks.create_task(presence.take(), name="irc messages"))
                        work.append(
                            tasks.create_task(presence.keep(self._ping), name="irc signs of life")
                        )
                        self._presence = presence
                        yield
                finally:
                    self._presence = None
                    for task in work:
                        task.cancel()
                    await presence.leave()
                    self._held.tell(f"{self._settings.nick} on {self._settings.host}")
            if ended is not None:  # raised within, the group would hide it
                raise ended

    def fits(self, text: str) -> bool:
        short = length(text, LengthUnit.BYTES) <= _LONGEST
        return short and len(render(text, limit=_ROOM)) <= _LINES

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._there().sending.send(outbound)

    async def typing(self, address: Address) -> None:
        await self._there().sending.typing(address)

    async def probe(self) -> None:
        await self._there().round_trip()

    def spelled(self, chat: str) -> str:
        return self._spelling.of(chat)

    def _there(self) -> Presence:
        if self._presence is None:
            raise NotConnected(f"there is no connection to {self._settings.host}")
        return self._presence

    async def _greeted(self, link: Link, intake: Intake) -> Presence:
        greeting = Greeting(link, self._settings, self._secrets, account=self.account)
        welcome = await greeting.welcomed()
        self.capabilities = capabilities_of(welcome)
        pace = Pace(
            burst=self._settings.burst,
            seconds=self._settings.line_seconds,
            monotonic=self._clock.monotonic,
        )
        presence = Presence(
            Line(link, welcome, pace, patience=self._patience),
            self._settings,
            await self._record(welcome),
            self._keys(),
            account=self.account,
            intake=intake,
            held=self._held,
            clock=self._clock,
            new_id=self._new_id,
        )
        self._spelling = presence.spelling
        return presence

    def _keys(self) -> Mapping[str, Secret]:
        named = {channel: f"locked.{channel}.key" for channel in self._settings.locked}
        return {
            channel: self._secrets[key] for channel, key in named.items() if key in self._secrets
        }

    async def _record(self, welcome: Welcome) -> Record | None:
        if not welcome.enabled >= NEEDED:
            return None
        path = self._folder / f"{quote(self._settings.host, safe='')}.json"
        return await Record.load(path, beginning=welcome.at or stamp(self._clock.now()))

    def _gone(self, intake: Intake, listening: asyncio.Task[LineLost]) -> None:
        if not listening.cancelled() and listening.exception() is None:
            intake.lost(self.name, self.account, listening.result())


def capabilities_of(welcome: Welcome) -> Capabilities:
    """What this server can do besides."""
    history = welcome.enabled >= NEEDED
    return msgspec.structs.replace(
        CAPABILITIES,
        backlog=Backlog.HISTORY if history else Backlog.NONE,
        typing="message-tags" in welcome.enabled and not _denied(welcome, "typing"),
    )


def _denied(welcome: Welcome, tag: str) -> bool:
    """https://ircv3.net/specs/extensions/message-tags: what clients may not say to each other."""
    denied = welcome.features.get("CLIENTTAGDENY", "").split(",")
    return tag in denied or ("*" in denied and f"-{tag}" not in denied)
