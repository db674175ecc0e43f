"""Events: what comes over the gateway, given to whom it concerns."""

import logging
from collections.abc import Callable, Mapping

import msgspec

from holdfast.core.deep_json import decode
from holdfast.platforms.discord.order import Order
from holdfast.platforms.discord.places import Places, dm, place_in_server
from holdfast.platforms.discord.pressing import Pressing
from holdfast.platforms.discord.record import Record
from holdfast.platforms.discord.snowflakes import at, earlier
from holdfast.platforms.discord.taking import Taking
from holdfast.platforms.discord.wire import (
    Channel,
    Frame,
    Guild,
    Interaction,
    Message,
    Ready,
    ThreadList,
)

log = logging.getLogger(__name__)

_LATE = 60.0  # seconds that a message may take to us, at the most, while the line is whole
_BREAKS = 3  # in a row, after which a line had better be made anew, and later
_SELDOM = 300.0  # seconds between two marks of how far everything was looked at


class Events:
    """Owns whether the line is whole, and how far it was heard. `up` is told each time it is,
    `down` where it had better be made anew."""

    def __init__(
        self,
        taking: Taking,
        pressing: Pressing,
        places: Places,
        record: Record,
        *,
        order: Order,
        up: Callable[[], None],
        down: Callable[[], None],
    ) -> None:
        self._taking = taking
        self._pressing = pressing
        self._places = places
        self._record = record
        self._order = order
        self._up = up
        self._down = down
        self._whole = False
        self._breaks = 0  # since it was whole
        self._untold: set[str] = set()  # servers that are there, and were not told yet
        self._newest = 0  # of the messages that came
        self._by_name: Mapping[str, Callable[[msgspec.Raw], None]] = {
            "READY": self._ready,
            "RESUMED": self._resumed,
            "GUILD_CREATE": self._guild,
            "GUILD_DELETE": self._guild_gone,
            "CHANNEL_CREATE": self._channel,
            "CHANNEL_DELETE": self._gone,
            "THREAD_CREATE": self._channel,
            "THREAD_UPDATE": self._channel,
            "THREAD_LIST_SYNC": self._threads,
            "THREAD_DELETE": self._gone,
            "MESSAGE_CREATE": self._said,
            "MESSAGE_UPDATE": self._revised,
            "INTERACTION_CREATE": self._pressed,
        }

    def heard(self, raw: str) -> None:
        """In the order in which it came; nothing here waits."""
        try:
            frame = decode(raw, type=Frame)
            if frame.t is not None and frame.t in self._by_name:
                self._by_name[frame.t](frame.d)
        except msgspec.MsgspecError as error:
            log.warning(
                "An event of Discord makes no sense and is passed over: %s",
                error,
                extra={"action": "event_unread"},
            )
        if earlier(self.mark, seconds=_SELDOM) >= self._record.until:
            self._order.aside(self._record.move(self.mark))

    def broken(self) -> None:
        """Until the line is whole again, nobody knows what was said meanwhile. The library takes
        it up again at once, however often: one that never holds is given up."""
        self._whole = False
        self._breaks += 1
        if self._breaks >= _BREAKS:
            self._down()

    @property
    def mark(self) -> int:
        """Everything before it was looked at; where that is not known, what was known before."""
        if not self._whole or self._untold or not self._order.idle:
            return self._record.until
        return max(self._record.until, earlier(self._newest, seconds=_LATE))

    def _ready(self, raw: msgspec.Raw) -> None:
        """A new session: what came before it is not told. Servers are told one by one, after."""
        self._untold = {guild.id for guild in decode(raw, type=Ready).guilds}
        for channel_id in self._record.dms:
            self._taking.missed(channel_id, dm(channel_id), since=self._record.until)
        self._resumed(raw)

    def _resumed(self, raw: msgspec.Raw) -> None:
        """Whatever was missed has been told by now, or is being asked for."""
        self._whole = True
        self._breaks = 0
        self._up()

    def _guild(self, raw: msgspec.Raw) -> None:
        guild = decode(raw, type=Guild)
        joined = at(guild.joined_at.timestamp()) if guild.joined_at else 0
        since = max(self._record.until, joined)
        self._untold.discard(guild.id)
        for channel in self._places.learn_guild(guild):
            if int(channel.last_message_id or 0) > since:
                self._taking.missed(channel.id, place_in_server(channel), since=since)

    def _guild_gone(self, raw: msgspec.Raw) -> None:
        guild = decode(raw, type=Guild)
        if guild.unavailable:  # it comes back, and has to be looked at then
            self._untold.add(guild.id)
        else:
            self._untold.discard(guild.id)

    def _channel(self, raw: msgspec.Raw) -> None:
        channel = decode(raw, type=Channel)
        if channel.guild_id is not None:
            self._places.learn(channel)

    def _threads(self, raw: msgspec.Raw) -> None:
        for channel in decode(raw, type=ThreadList).threads:
            self._places.learn(channel)

    def _gone(self, raw: msgspec.Raw) -> None:
        self._places.forget(decode(raw, type=Channel).id)

    def _said(self, raw: msgspec.Raw) -> None:
        message = decode(raw, type=Message)
        self._newest = max(self._newest, int(message.id))
        self._taking.said(message)

    def _revised(self, raw: msgspec.Raw) -> None:
        self._taking.revised(decode(raw, type=Message))

    def _pressed(self, raw: msgspec.Raw) -> None:
        interaction = decode(raw, type=Interaction)
        self._order.aside(self._pressing.take(interaction))
