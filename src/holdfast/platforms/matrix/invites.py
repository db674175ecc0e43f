"""Invitations: into which rooms the account goes."""

import logging

from holdfast.core.errors import Refused
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.checkpoint import Record
from holdfast.platforms.matrix.paths import in_room, path
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.wire import MEMBER, Invited, Json, Nothing

log = logging.getLogger(__name__)


class Invites:
    """Keeps nothing. Raises a `SendError` where an invitation cannot be answered now."""

    def __init__(
        self, api: ClientApi, user_id: str, *, settings: MatrixSettings, record: Record
    ) -> None:
        self._api = api
        self._record = record
        self._me = user_id
        self._settings = settings

    async def answer(self, room_id: str, invited: Invited) -> None:
        """Gone into, or declined: whoever was declined can ask again once that has changed."""
        ours = [each for each in invited.invite_state.events if self._to_us(each)]
        if not ours:
            return
        by = str(ours[-1].get("sender", ""))
        welcome = self._welcome(room_id, by, direct=bool(ours[-1]["content"].get("is_direct")))
        log.info(
            "The invitation of %s into %s is %s.",
            by,
            room_id,
            "taken" if welcome else "declined: they are not allowed to",
            extra={"action": "invited"},
        )
        where = path("join", room_id) if welcome else in_room(room_id, "leave")
        try:
            await self._api.ask("POST", where, Nothing, body={})
        except Refused as error:  # taken back meanwhile
            log.info("%s", error, extra={"action": "invite_gone"})

    def _to_us(self, event: Json) -> bool:
        return (
            event.get("type") == MEMBER
            and event.get("state_key") == self._me
            and event.get("content", {}).get("membership") == "invite"
        )

    def _welcome(self, room_id: str, by: str, *, direct: bool) -> bool:
        """Whoever may talk to the agent may take it along, and it goes where the configuration
        names the room. Into a chat of two it goes for anybody where strangers may be paired:
        nowhere else could they be given a code."""
        settings = self._settings
        known = {*settings.allow, *settings.operators}
        if by in known or "*" in settings.allow or room_id in settings.chats:
            return True
        if room_id in self._record.awaited:  # we are in the one that it takes the place of
            return True
        return direct and settings.pairing
