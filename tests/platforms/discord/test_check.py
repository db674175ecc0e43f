"""Discord says whose token that is."""

from pathlib import Path

import pytest
from tests.platforms.discord.vendor import Vendor

from holdfast.core.errors import SendError
from holdfast.core.ports.door import Opening
from holdfast.core.secret import Secret
from holdfast.platforms.discord.plugin import DOOR, DiscordSettings
from holdfast.system.clock import SystemClock


async def test_a_token_is_tried_and_nothing_is_kept(vendor: Vendor, tmp_path: Path) -> None:
    def opening(token: str) -> Opening[DiscordSettings]:
        return Opening(
            account="default",
            settings=DiscordSettings(token="env:TOKEN"),
            secrets={"token": Secret(token)},
            folder=tmp_path / "discord",
            clock=SystemClock(),
            new_id=lambda prefix: prefix,
        )

    assert DOOR.check is not None
    known = await DOOR.check(opening(vendor.token))
    assert known.name and known.at.startswith("https://discord.com/users/")
    with pytest.raises(SendError):
        await DOOR.check(opening("wrong"))
    assert not (tmp_path / "discord").exists()
