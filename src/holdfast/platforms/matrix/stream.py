"""The stream of all that happens to an account: asked for piece by piece, from a token on."""

import asyncio

import msgspec

from holdfast.core.errors import Throttled
from holdfast.platforms.matrix.api import MatrixClient
from holdfast.platforms.matrix.history import MESSAGE_EVENT_TYPES
from holdfast.platforms.matrix.patience import Sleep
from holdfast.platforms.matrix.wire import TOMBSTONE, Json

RESPONSE_GRACE = (
    15.0  # seconds that an answer may take beyond the time for which a question is held
)
_STATE_EVENT_TYPES = ("m.room.member", "m.room.encryption", TOMBSTONE)


def _sync_filter(
    *, state_types: tuple[str, ...], message_types: tuple[str, ...], page_size: int
) -> str:
    """https://spec.matrix.org/latest/client-server-api/#filtering"""
    nothing: Json = {"types": []}
    room = {
        "ephemeral": nothing,
        "account_data": nothing,
        "state": {"types": state_types},
        "timeline": {"types": (*message_types, *state_types), "limit": page_size},
    }
    wanted = {"presence": nothing, "account_data": {"types": ["m.direct"]}, "room": room}
    return msgspec.json.encode(wanted).decode()


_NO_ROOMS_FILTER = _sync_filter(state_types=(), message_types=(), page_size=1)


class SyncStream:
    """Keeps nothing. Raises `NotConnected` for every kind of broken line, and `Refused` where the
    homeserver does not know the token."""

    def __init__(
        self,
        client: MatrixClient,
        *,
        long_poll_seconds: int,
        page_size: int,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._default_filter = _sync_filter(
            state_types=_STATE_EVENT_TYPES, message_types=MESSAGE_EVENT_TYPES, page_size=page_size
        )
        self._long_poll_seconds = (
            long_poll_seconds  # seconds for which a question with nothing to tell is held
        )
        self._sleep = sleep

    async def newest(self) -> Json:
        """Where it ends now, with no word of what was said before."""
        return await self._request({"filter": _NO_ROOMS_FILTER, "timeout": "0"}, limit=None)

    async def since(self, token: str, *, immediately: bool) -> Json:
        """What comes after that; `at_once`: also where that is nothing."""
        hold = 0 if immediately else self._long_poll_seconds
        query = {"filter": self._default_filter, "since": token, "timeout": str(hold * 1000)}
        return await self._request(query, limit=self._long_poll_seconds + RESPONSE_GRACE)

    async def _request(self, query: dict[str, str], *, limit: float | None) -> Json:
        while True:
            try:
                return await self._client.call_idempotent(
                    "GET", "/sync", dict, query=query, limit=limit
                )
            except Throttled as error:
                await self._sleep(error.retry_after)
