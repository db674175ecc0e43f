"""The stream of all that happens to an account: asked for piece by piece, from a token on."""

import asyncio

import msgspec

from holdfast.core.errors import Throttled
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.history import SAID
from holdfast.platforms.matrix.patience import Sleep
from holdfast.platforms.matrix.wire import TOMBSTONE, Json

GRACE = 15.0  # seconds that an answer may take beyond the time for which a question is held
_STATES = ("m.room.member", "m.room.encryption", TOMBSTONE)


def _filter(*, states: tuple[str, ...], said: tuple[str, ...], page: int) -> str:
    """https://spec.matrix.org/latest/client-server-api/#filtering"""
    nothing: Json = {"types": []}
    room = {
        "ephemeral": nothing,
        "account_data": nothing,
        "state": {"types": states},
        "timeline": {"types": (*said, *states), "limit": page},
    }
    wanted = {"presence": nothing, "account_data": {"types": ["m.direct"]}, "room": room}
    return msgspec.json.encode(wanted).decode()


_WITHOUT_ROOMS = _filter(states=(), said=(), page=1)


class Stream:
    """Keeps nothing. Raises `NotConnected` for every kind of broken line, and `Refused` where the
    homeserver does not know the token."""

    def __init__(
        self, api: ClientApi, *, hold: int, page: int, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._api = api
        self._usual = _filter(states=_STATES, said=SAID, page=page)
        self._hold = hold  # seconds for which a question with nothing to tell is held
        self._sleep = sleep

    async def newest(self) -> Json:
        """Where it ends now, with no word of what was said before."""
        return await self._ask({"filter": _WITHOUT_ROOMS, "timeout": "0"}, limit=None)

    async def since(self, token: str, *, at_once: bool) -> Json:
        """What comes after that; `at_once`: also where that is nothing."""
        hold = 0 if at_once else self._hold
        query = {"filter": self._usual, "since": token, "timeout": str(hold * 1000)}
        return await self._ask(query, limit=self._hold + GRACE)

    async def _ask(self, query: dict[str, str], *, limit: float | None) -> Json:
        while True:
            try:
                return await self._api.ask("GET", "/sync", dict, query=query, limit=limit)
            except Throttled as error:
                await self._sleep(error.retry_after)
