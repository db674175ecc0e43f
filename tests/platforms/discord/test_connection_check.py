"""Tests the check of a Discord token."""

from pathlib import Path

import pytest
from tests.platforms.discord.fake import FakeDiscord

from holdfast.core.errors import SendError
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.secrets import Secret
from holdfast.platforms.discord.plugin import PLUGIN, DiscordSettings
from holdfast.system.clock import SystemClock


async def test_a_token_is_checked_without_writing_a_file(
    vendor: FakeDiscord, tmp_path: Path
) -> None:
    def opening(token: str) -> PluginContext[DiscordSettings]:
        return PluginContext(
            account="default",
            settings=DiscordSettings(token="env:TOKEN", base_url=f"{vendor.base_url}/api/v10"),
            secrets={"token": Secret(token)},
            folder=tmp_path / "discord",
            clock=SystemClock(),
            new_id=lambda prefix: prefix,
        )

    assert PLUGIN.check is not None
    known = await PLUGIN.check(opening(vendor.token))
    assert known.name and known.chat_link.startswith("https://discord.com/users/")
    with pytest.raises(SendError):
        await PLUGIN.check(opening("wrong"))
    assert not (tmp_path / "discord").exists()
