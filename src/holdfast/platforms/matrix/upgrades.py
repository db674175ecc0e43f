"""Upgrades: a room that another has taken the place of is followed, and stays one chat.

https://spec.matrix.org/latest/client-server-api/#room-upgrades
"""

import logging

from holdfast.core.errors import SendRejected
from holdfast.platforms.matrix.api import MatrixClient
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, PendingUpgrade
from holdfast.platforms.matrix.paths import api_path, room_path
from holdfast.platforms.matrix.wire import (
    CREATE,
    TOMBSTONE,
    JoinedRoom,
    Json,
    MatrixEmptyResponse,
    RoomCreate,
)

log = logging.getLogger(__name__)


class RoomUpgrades:
    """Keeps nothing; which room has followed which stands in the record. Raises a `SendError` or
    `TransientStoreError` where something cannot be done now."""

    def __init__(self, client: MatrixClient, checkpoint: MatrixCheckpoint) -> None:
        self._client = client
        self._checkpoint = checkpoint

    async def handle_room(self, room_id: str, joined: JoinedRoom) -> None:
        """To be called before what was said there is heard: under which chat that is known is
        settled by then."""
        if room_id in self._checkpoint.pending_upgrades:
            await self._complete(room_id, self._checkpoint.pending_upgrades[room_id])
        for event in (*joined.state.events, *joined.timeline.events):
            if event.get("type") == TOMBSTONE and event.get("state_key") == "":
                await self._join_successor(room_id, event)

    async def _join_successor(self, room_id: str, event: Json) -> None:
        """Where we are not let in, whoever invites us brings us there."""
        new, by = event.get("content", {}).get("replacement_room"), event.get("sender")
        if not (
            isinstance(new, str) and new and isinstance(by, str)
        ) or self._checkpoint.is_successor(new):
            return
        log.info("%s goes on as %s.", room_id, new, extra={"action": "room_upgraded"})
        await self._checkpoint.add_pending_upgrade(new, PendingUpgrade(instead_of=room_id, by=by))
        try:
            server = {"server_name": by.partition(":")[2], "via": by.partition(":")[2]}
            await self._client.call_idempotent(
                "POST", api_path("join", new), MatrixEmptyResponse, body={}, query=server
            )
        except SendRejected as error:
            log.warning(
                "%s goes on as %s, which does not let us in before somebody invites us: %s",
                room_id,
                new,
                error,
                extra={"action": "room_upgraded"},
            )

    async def _complete(self, room_id: str, upgrade: PendingUpgrade) -> None:
        """Anybody who may end a room could name any other as the one that follows it: that one
        has to say the same, by the word of the same person."""
        same = await self._is_successor(room_id, upgrade)
        if not same:
            log.warning(
                "%s does not say that it follows %s: it is a chat of its own, with a conversation "
                "of its own.",
                room_id,
                upgrade.instead_of,
                extra={"action": "room_upgrade_unconfirmed"},
            )
        await self._checkpoint.complete_upgrade(room_id, is_successor=same)

    async def _is_successor(self, room_id: str, upgrade: PendingUpgrade) -> bool:
        """A server that knows no `format` gives the content alone, in which older rooms have who
        made them; of others nobody knows, and then it is no follower."""
        where = room_path(room_id, "state", CREATE, "")
        try:
            told = await self._client.call_idempotent("GET", where, dict, query={"format": "event"})
        except SendRejected:
            return False
        event = told if "content" in told else {"content": told, "sender": told.get("creator")}
        before = RoomCreate.from_event(event).predecessor.room_id
        return before == upgrade.instead_of and event.get("sender") == upgrade.by
