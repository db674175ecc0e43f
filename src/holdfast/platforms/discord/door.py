"""Discord as a door: what can be set about a bot."""

from typing import Annotated

import msgspec

from holdfast.core.door import Door, Opening
from holdfast.core.ports import Platform
from holdfast.core.settings import PlatformSettings

PORTAL = "https://discord.com/developers/applications"
NEW_TOKEN = f"{PORTAL}, Bot, Reset Token gives a new one; set platforms.discord.token"


class DiscordSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference: what the developer portal gave
    message_content: bool = True  # ask for what is said in servers without naming the bot
    menu: bool = True  # the commands are offered as slash commands
    max_file_mb: Annotated[int, msgspec.Meta(ge=0, le=500)] = 25

    def __post_init__(self) -> None:
        if self.enabled and not self.token:
            raise ValueError(
                f"token is missing: {PORTAL} gives one (Bot, "
                'Reset Token); write token = "env:DISCORD_BOT_TOKEN" and put it into the '
                "environment or .env"
            )


def _open(opening: Opening[DiscordSettings]) -> Platform:
    from holdfast.platforms.discord.platform import (  # noqa: PLC0415 - imports an HTTP client
        DiscordPlatform,
    )

    return DiscordPlatform(
        opening.secrets["token"],
        account=opening.account,
        settings=opening.settings,
        folder=opening.folder,
        clock=opening.clock,
    )


DOOR = Door(name="discord", settings=DiscordSettings, open=_open)
