"""Pressing: slash commands and buttons, which are acknowledged when they are durable.

Discord tells whoever pressed, after three seconds without an acknowledgement, that it has failed
(https://discord.com/developers/docs/interactions/receiving-and-responding). So there is no second
try: it would be done behind the back of somebody who was told that it was not.
"""

import logging
from typing import Any

import msgspec

from holdfast.core.errors import IntakeClosed, NotAllowed, SendError, StoreError
from holdfast.core.messages.source import ChatType
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.discord.client import RestApi
from holdfast.platforms.discord.places import Place, Places, dm, place_in_server
from holdfast.platforms.discord.reading import Reader
from holdfast.platforms.discord.record import Record
from holdfast.platforms.discord.wire import COMMAND, COMPONENT, Interaction

log = logging.getLogger(__name__)

_TAKEN = "✓"  # a command has to be answered; what it has to say comes as a message
_NOT_YOURS = "You may not do this here."
_NOT_NOW = "This cannot be taken just now. Try again in a moment."
_MESSAGE, _NOTHING_MORE = 4, 6  # types of an acknowledgement: with words, and without
_FOR_YOU_ALONE = 1 << 6  # the flag EPHEMERAL
_PATIENCE = 5.0  # seconds: a stop does not wait longer for a button


class Pressing:
    """Keeps nothing."""

    def __init__(
        self, api: RestApi, reader: Reader, places: Places, record: Record, *, intake: Intake
    ) -> None:
        self._api = api
        self._reader = reader
        self._places = places
        self._record = record
        self._intake = intake

    async def take(self, interaction: Interaction) -> None:
        if interaction.type not in (COMMAND, COMPONENT):
            return
        place = self._place(interaction)
        inbound = self._reader.chosen(interaction, place) if place is not None else None
        if place is None or inbound is None:
            return
        words = ""
        try:
            if place.chat_type is ChatType.DM:
                await self._record.know(place.chat_id)
            await self._intake.accept(inbound)
        except NotAllowed as error:
            words = _NOT_YOURS
            log.info(
                "Interaction %s of user %s was dropped: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "interaction_not_allowed"},
            )
        except (StoreError, IntakeClosed) as error:
            words = _NOT_NOW
            log.warning("An interaction was not taken: %s", error, extra={"action": "not_taken"})
        await self._acknowledge(interaction, words)

    def _place(self, interaction: Interaction) -> Place | None:
        channel = interaction.channel
        if interaction.guild_id is None:
            return dm(interaction.channel_id) if interaction.channel_id else None
        if channel is not None:
            return place_in_server(channel)
        return self._places.known(interaction.channel_id) if interaction.channel_id else None

    async def _acknowledge(self, interaction: Interaction, words: str) -> None:
        """Nobody is the worse where this fails: what was pressed is ours."""
        path = f"/interactions/{interaction.id}/{interaction.token}/callback"
        body = _answer(words or (_TAKEN if interaction.type == COMMAND else ""))
        try:
            await self._api.call("POST", path, msgspec.Raw, body=body, limit=_PATIENCE)
        except SendError as error:
            log.debug("A press was not answered: %s", error, extra={"action": "press_unanswered"})


def _answer(words: str) -> dict[str, Any]:
    if not words:
        return {"type": _NOTHING_MORE}
    return {"type": _MESSAGE, "data": {"content": words, "flags": _FOR_YOU_ALONE}}
