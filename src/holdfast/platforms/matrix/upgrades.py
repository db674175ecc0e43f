"""Upgrades: a room that another has taken the place of is followed, and stays one chat.

https://spec.matrix.org/latest/client-server-api/#room-upgrades
"""

import logging

from holdfast.core.errors import Refused
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.checkpoint import Awaited, Record
from holdfast.platforms.matrix.paths import in_room, path
from holdfast.platforms.matrix.wire import CREATE, TOMBSTONE, Create, Joined, Json, Nothing

log = logging.getLogger(__name__)


class Upgrades:
    """Keeps nothing; which room has followed which stands in the record. Raises a `SendError` or
    `StoreFailing` where something cannot be done now."""

    def __init__(self, api: ClientApi, record: Record) -> None:
        self._api = api
        self._record = record

    async def look_into(self, room_id: str, joined: Joined) -> None:
        """To be called before what was said there is heard: under which chat that is known is
        settled by then."""
        if room_id in self._record.awaited:
            await self._arrive(room_id, self._record.awaited[room_id])
        for event in (*joined.state.events, *joined.timeline.events):
            if event.get("type") == TOMBSTONE and event.get("state_key") == "":
                await self._follow(room_id, event)

    async def _follow(self, room_id: str, event: Json) -> None:
        """Where we are not let in, whoever invites us brings us there."""
        new, by = event.get("content", {}).get("replacement_room"), event.get("sender")
        if not (isinstance(new, str) and new and isinstance(by, str)) or self._record.knows(new):
            return
        log.info("%s goes on as %s.", room_id, new, extra={"action": "room_upgraded"})
        await self._record.wait_for(new, Awaited(instead_of=room_id, by=by))
        try:
            server = {"server_name": by.partition(":")[2], "via": by.partition(":")[2]}
            await self._api.ask("POST", path("join", new), Nothing, body={}, query=server)
        except Refused as error:
            log.warning(
                "%s goes on as %s, which does not let us in before somebody invites us: %s",
                room_id,
                new,
                error,
                extra={"action": "room_upgraded"},
            )

    async def _arrive(self, room_id: str, awaited: Awaited) -> None:
        """Anybody who may end a room could name any other as the one that follows it: that one
        has to say the same, by the word of the same person."""
        same = await self._is_follower(room_id, awaited)
        if not same:
            log.warning(
                "%s does not say that it follows %s: it is a chat of its own, with a conversation "
                "of its own.",
                room_id,
                awaited.instead_of,
                extra={"action": "room_not_followed"},
            )
        await self._record.arrive(room_id, follows=same)

    async def _is_follower(self, room_id: str, awaited: Awaited) -> bool:
        """A server that knows no `format` gives the content alone, in which older rooms have who
        made them; of others nobody knows, and then it is no follower."""
        where = in_room(room_id, "state", CREATE, "")
        try:
            told = await self._api.ask("GET", where, dict, query={"format": "event"})
        except Refused:
            return False
        event = told if "content" in told else {"content": told, "sender": told.get("creator")}
        before = Create.of(event).predecessor.room_id
        return before == awaited.instead_of and event.get("sender") == awaited.by
