"""History: events that a sync has left out, and single ones that others refer to."""

import logging
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import Refused
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.paths import in_room
from holdfast.platforms.matrix.wire import ENCRYPTED, Json, Message, Page

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import Machine

log = logging.getLogger(__name__)

SAID = ("m.room.message", "m.room.encrypted", "m.sticker")
_MOST = 5000  # events of one gap


class History:
    """Keeps nothing. Raises a `SendError` where there is no answer now."""

    def __init__(self, api: ClientApi, machine: "Machine", *, page: int) -> None:
        self._api = api
        self._events = str(page)  # of one answer
        self._machine = machine

    async def between(self, room_id: str, since: str, until: str) -> list[Json]:
        """What was said in a room after one place and before another, oldest first.

        https://spec.matrix.org/latest/client-server-api/#get_matrixclientv3roomsroomidmessages
        """
        found: list[Json] = []
        place: str | None = until
        while place is not None and len(found) < _MOST:
            page = await self._page(room_id, place, since)
            found += page.chunk
            place = page.end if page.chunk else None
        if place is not None:
            log.warning(
                "More than %d messages were said in %s meanwhile; the older ones are passed over.",
                _MOST,
                room_id,
                extra={"action": "gap_too_long"},
            )
        return found[::-1]

    async def _page(self, room_id: str, place: str, since: str) -> Page:
        query = {
            "dir": "b",
            "from": place,
            "to": since,
            "limit": self._events,
            "filter": msgspec.json.encode({"types": SAID}).decode(),
        }
        try:
            return await self._api.ask("GET", in_room(room_id, "messages"), Page, query=query)
        except Refused as error:
            log.info(
                "What was said in %s meanwhile is not to be had: %s",
                room_id,
                error,
                extra={"action": "history_refused"},
            )
            return Page()

    async def event(self, room_id: str, event_id: str) -> Message | None:
        """None: it is not to be had, or cannot be read."""
        try:
            event = await self._api.ask("GET", in_room(room_id, "event", event_id), dict)
        except Refused:
            return None
        if event.get("type") == ENCRYPTED:
            event = await self._machine.opened(room_id, event) or event
        return read_message(event)


def read_message(event: Json) -> Message | None:
    """None: it makes no sense, and is passed over; asked for again, it would hold up the rest."""
    try:
        return msgspec.convert(event, Message)
    except msgspec.ValidationError as error:
        log.warning(
            "An event of Matrix makes no sense and is passed over: %s",
            error,
            extra={"action": "event_unread"},
        )
        return None
