"""Taking: messages are read and handed to intake, each channel's in its own order."""

import logging
from collections import Counter
from collections.abc import Callable

from holdfast.core.errors import (
    NotAllowed,
    NotConnected,
    NotMeant,
    OutcomeUnknown,
    Refused,
    Throttled,
)
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import ChatType
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.discord.backlog import Backlog
from holdfast.platforms.discord.ears import Ears
from holdfast.platforms.discord.files import attached_to
from holdfast.platforms.discord.order import Order
from holdfast.platforms.discord.places import Place, Places, dm
from holdfast.platforms.discord.reading import PLATFORM, Reader
from holdfast.platforms.discord.record import Record
from holdfast.platforms.discord.wire import Channel, Message

log = logging.getLogger(__name__)

Read = Callable[[Message, Place], Inbound | None]
_TRIES = 4  # at the files of a message


class Taking:
    """Owns what is being taken. What cannot be kept for the moment is tried again, and what was
    said in that channel after it waits: the cursor of a channel never passes over a message."""

    def __init__(
        self,
        ears: Ears,
        reader: Reader,
        places: Places,
        record: Record,
        *,
        intake: Intake,
        order: Order,
    ) -> None:
        self._ears = ears
        self._reader = reader
        self._places = places
        self._record = record
        self._intake = intake
        self._order = order
        self._backlog = Backlog(ears.api)
        # The last message of each channel that had a gap, as far as that is filled: a second try
        # goes on where the first has failed.
        self._filled: dict[str, int] = {}
        self._failed: Counter[str] = Counter()  # tries at the files of messages

    def said(self, message: Message) -> None:
        self._put(message, self._unfilled)

    def revised(self, message: Message) -> None:
        self._put(message, self._reader.revised)

    def missed(self, channel_id: str, place: Place, *, since: int) -> None:
        """Whatever was said there after that, and after what is durable, comes first."""
        self._filled[channel_id] = max(since, self._filled.get(channel_id, 0))

        async def fill() -> None:
            await self._fill(channel_id, place)

        self._order.put(channel_id, fill)

    def _put(self, message: Message, read: Read) -> None:
        if message.author is None or self._reader.is_ours(message):
            return

        async def take() -> None:
            if (place := await self._place(message)) is not None:
                await self._take(message, place, read)

        self._order.put(message.channel_id, take)

    def _unfilled(self, message: Message, place: Place) -> Inbound | None:
        """What was said while the gap before it was being filled was found there already."""
        if int(message.id) <= self._filled.get(message.channel_id, 0):
            return None
        return self._reader.said(message, place)

    async def _fill(self, channel_id: str, place: Place) -> None:
        cursor = await self._intake.cursor(
            PLATFORM, self._ears.account, self._reader.cursor(channel_id)
        )
        after = self._filled[channel_id] = max(self._filled[channel_id], int(cursor or 0))
        try:
            async for message in self._backlog.since(channel_id, after):
                await self._take(message, place, self._reader.said)
                self._filled[channel_id] = int(message.id)
        except Refused as error:
            log.info(
                "What was said in channel %s meanwhile is not to be had: %s",
                channel_id,
                error,
                extra={"action": "backlog_refused"},
            )

    async def _take(self, message: Message, place: Place, read: Read) -> None:
        inbound = read(message, place)
        if inbound is None:
            return
        if place.chat_type is ChatType.DM:
            await self._record.know(message.channel_id)
        try:
            await self._hand_over(message, inbound)
        except NotConnected:
            self._failed[message.id] += 1
            raise
        self._failed.pop(message.id, None)

    async def _hand_over(self, message: Message, inbound: Inbound) -> None:
        last_try = self._failed[message.id] + 1 >= _TRIES
        attached = attached_to(message, self._ears.api, most=self._ears.most, last_try=last_try)
        if not inbound.text.strip() and not attached:
            return
        try:
            await self._intake.accept(inbound, attached)
        except NotMeant as error:
            log.debug("%s: %s", inbound.event_id, error, extra={"action": "message_not_meant"})
        except NotAllowed as error:
            log.info(
                "Message %s of user %s was dropped: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "message_not_allowed"},
            )

    async def _place(self, message: Message) -> Place | None:
        """A thread may be one that this connection was never told of. None: it is gone."""
        if message.guild_id is None:
            return dm(message.channel_id)
        if (place := self._places.known(message.channel_id)) is not None:
            return place
        try:
            path = f"/channels/{message.channel_id}"
            return self._places.learn(await self._ears.api.call("GET", path, Channel))
        except (OutcomeUnknown, Throttled) as error:  # asking again does no harm
            raise NotConnected(str(error)) from error
        except Refused:
            return None
