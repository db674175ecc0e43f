"""Invitations: into which rooms the account goes."""

import logging

from holdfast.core.errors import SendRejected
from holdfast.platforms.matrix.api import MatrixClient
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint
from holdfast.platforms.matrix.paths import api_path, room_path
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.wire import MEMBER, InvitedRoom, Json, MatrixEmptyResponse

log = logging.getLogger(__name__)


class InviteHandler:
    """Keeps nothing. Raises a `SendError` where an invitation cannot be answered now."""

    def __init__(
        self,
        client: MatrixClient,
        user_id: str,
        *,
        settings: MatrixSettings,
        checkpoint: MatrixCheckpoint,
    ) -> None:
        self._client = client
        self._checkpoint = checkpoint
        self._user_id = user_id
        self._settings = settings

    async def answer(self, room_id: str, invited: InvitedRoom) -> None:
        """Gone into, or declined: whoever was declined can ask again once that has changed."""
        ours = [each for each in invited.invite_state.events if self._is_our_invite(each)]
        if not ours:
            return
        by = str(ours[-1].get("sender", ""))
        welcome = self._may_accept(
            room_id, by, is_direct=bool(ours[-1]["content"].get("is_direct"))
        )
        log.info(
            "The invitation of %s into %s is %s.",
            by,
            room_id,
            "taken" if welcome else "declined: they are not allowed to",
            extra={"action": "invite_answered"},
        )
        where = api_path("join", room_id) if welcome else room_path(room_id, "leave")
        try:
            await self._client.call_idempotent("POST", where, MatrixEmptyResponse, body={})
        except SendRejected as error:  # taken back meanwhile
            log.info("%s", error, extra={"action": "invite_withdrawn"})

    def _is_our_invite(self, event: Json) -> bool:
        return (
            event.get("type") == MEMBER
            and event.get("state_key") == self._user_id
            and event.get("content", {}).get("membership") == "invite"
        )

    def _may_accept(self, room_id: str, inviter: str, *, is_direct: bool) -> bool:
        """Whoever may talk to the agent may take it along, and it goes where the configuration
        names the room. Into a chat of two it goes for anybody where strangers may be paired:
        nowhere else could they be given a code."""
        settings = self._settings
        known = {*settings.allow, *settings.operators}
        if inviter in known or "*" in settings.allow or room_id in settings.chats:
            return True
        if (
            room_id in self._checkpoint.pending_upgrades
        ):  # we are in the one that it takes the place of
            return True
        return is_direct and settings.pairing
