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
from holdfast.platforms.discord.client import DiscordClient
from holdfast.platforms.discord.places import (
    ChannelDirectory,
    ChannelLocation,
    dm_location,
    guild_location,
)
from holdfast.platforms.discord.reading import DiscordParser
from holdfast.platforms.discord.record import DiscordCheckpoint
from holdfast.platforms.discord.wire import COMMAND_INTERACTION, COMPONENT_INTERACTION, Interaction

log = logging.getLogger(__name__)

_ACCEPTED_TEXT = "✓"  # a command has to be answered; what it has to say comes as a message
_NOT_ALLOWED_TEXT = "You may not do this here."
_NOT_NOW_TEXT = "This cannot be taken just now. Try again in a moment."
_RESPOND_WITH_MESSAGE, _RESPOND_SILENTLY = (
    4,
    6,
)  # types of an acknowledgement: with words, and without
_EPHEMERAL = 1 << 6  # the flag EPHEMERAL
_ACKNOWLEDGE_TIMEOUT = 5.0  # seconds: a stop does not wait longer for a button


class DiscordInteractionHandler:
    """Keeps nothing."""

    def __init__(
        self,
        client: DiscordClient,
        parser: DiscordParser,
        channels: ChannelDirectory,
        checkpoint: DiscordCheckpoint,
        *,
        intake: Intake,
    ) -> None:
        self._client = client
        self._parser = parser
        self._channels = channels
        self._checkpoint = checkpoint
        self._intake = intake

    async def handle(self, interaction: Interaction) -> None:
        if interaction.type not in (COMMAND_INTERACTION, COMPONENT_INTERACTION):
            return
        place = self._locate(interaction)
        inbound = self._parser.from_interaction(interaction, place) if place is not None else None
        if place is None or inbound is None:
            return
        words = ""
        try:
            if place.chat_type is ChatType.DM:
                await self._checkpoint.add_dm(place.chat_id)
            await self._intake.accept(inbound)
        except NotAllowed as error:
            words = _NOT_ALLOWED_TEXT
            log.info(
                "Interaction %s of user %s was dropped: %s",
                inbound.event_id,
                inbound.source.user_id,
                error,
                extra={"action": "interaction_not_allowed"},
            )
        except (StoreError, IntakeClosed) as error:
            words = _NOT_NOW_TEXT
            log.warning(
                "An interaction was not taken: %s",
                error,
                extra={"action": "interaction_not_stored"},
            )
        await self._acknowledge(interaction, words)

    def _locate(self, interaction: Interaction) -> ChannelLocation | None:
        channel = interaction.channel
        if interaction.guild_id is None:
            return dm_location(interaction.channel_id) if interaction.channel_id else None
        if channel is not None:
            return guild_location(channel)
        return self._channels.get(interaction.channel_id) if interaction.channel_id else None

    async def _acknowledge(self, interaction: Interaction, text: str) -> None:
        """Nobody is the worse where this fails: what was pressed is ours."""
        path = f"/interactions/{interaction.id}/{interaction.token}/callback"
        body = _interaction_response(
            text or (_ACCEPTED_TEXT if interaction.type == COMMAND_INTERACTION else "")
        )
        try:
            await self._client.call(
                "POST", path, msgspec.Raw, body=body, timeout_seconds=_ACKNOWLEDGE_TIMEOUT
            )
        except SendError as error:
            log.debug(
                "A press was not answered: %s", error, extra={"action": "button_not_acknowledged"}
            )


def _interaction_response(text: str) -> dict[str, Any]:
    if not text:
        return {"type": _RESPOND_SILENTLY}
    return {"type": _RESPOND_WITH_MESSAGE, "data": {"content": text, "flags": _EPHEMERAL}}
