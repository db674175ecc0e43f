"""History: events that a sync has left out, and single ones that others refer to."""

import logging
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import SendRejected
from holdfast.platforms.matrix.api import MatrixClient
from holdfast.platforms.matrix.paths import room_path
from holdfast.platforms.matrix.wire import ENCRYPTED, Json, MatrixHistoryPage, MatrixMessage

if TYPE_CHECKING:  # imports the library, which is imported when a line is opened
    from holdfast.platforms.matrix.machine import EncryptionMachine

log = logging.getLogger(__name__)

MESSAGE_EVENT_TYPES = ("m.room.message", "m.room.encrypted", "m.sticker")
_MAX_GAP_EVENTS = 5000  # events of one gap


class MatrixHistory:
    """Keeps nothing. Raises a `SendError` where there is no answer now."""

    def __init__(
        self, client: MatrixClient, encryption: "EncryptionMachine", *, page_size: int
    ) -> None:
        self._client = client
        self._page_size = str(page_size)  # of one answer
        self._encryption = encryption

    async def events_between(self, room_id: str, since: str, until: str) -> list[Json]:
        """What was said in a room after one place and before another, oldest first.

        https://spec.matrix.org/latest/client-server-api/#get_matrixclientv3roomsroomidmessages
        """
        found: list[Json] = []
        place: str | None = until
        while place is not None and len(found) < _MAX_GAP_EVENTS:
            page = await self._fetch_page(room_id, place, since)
            found += page.chunk
            place = page.end if page.chunk else None
        if place is not None:
            log.warning(
                "More than %d messages were said in %s meanwhile; the older ones are passed over.",
                _MAX_GAP_EVENTS,
                room_id,
                extra={"action": "history_truncated"},
            )
        return found[::-1]

    async def _fetch_page(self, room_id: str, position: str, since: str) -> MatrixHistoryPage:
        query = {
            "dir": "b",
            "from": position,
            "to": since,
            "limit": self._page_size,
            "filter": msgspec.json.encode({"types": MESSAGE_EVENT_TYPES}).decode(),
        }
        try:
            return await self._client.call_idempotent(
                "GET", room_path(room_id, "messages"), MatrixHistoryPage, query=query
            )
        except SendRejected as error:
            log.info(
                "What was said in %s meanwhile is not to be had: %s",
                room_id,
                error,
                extra={"action": "history_refused"},
            )
            return MatrixHistoryPage()

    async def fetch_event(self, room_id: str, event_id: str) -> MatrixMessage | None:
        """None: it is not to be had, or cannot be read."""
        try:
            event = await self._client.call_idempotent(
                "GET", room_path(room_id, "event", event_id), dict
            )
        except SendRejected:
            return None
        if event.get("type") == ENCRYPTED:
            event = await self._encryption.decrypt(room_id, event) or event
        return parse_message(event)


def parse_message(event: Json) -> MatrixMessage | None:
    """None: it makes no sense, and is passed over; asked for again, it would hold up the rest."""
    try:
        return msgspec.convert(event, MatrixMessage)
    except msgspec.ValidationError as error:
        log.warning(
            "An event of Matrix makes no sense and is passed over: %s",
            error,
            extra={"action": "event_invalid"},
        )
        return None
