"""`holdfast setup --door telegram`: a bot that Telegram knows is added, and no more touched."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.platforms.telegram.bot_api import BotApi
from tests.platforms.telegram.vendor import Vendor

from holdfast.cli.toml_patch import patch_table
from holdfast.config import load

Cli = Callable[..., subprocess.CompletedProcess[str]]
MINE = '# mine\n[gateway]\nport = 9000\n\n[platforms.telegram]  # a bot\nallow = ["1"]\n'


async def test_a_token_that_telegram_knows_is_kept_and_named(cli: Cli, tmp_path: Path) -> None:
    vendor, home = Vendor(), tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text(MINE)
    async with BotApi(vendor).serving() as url:
        words = ("setup", "--door", "telegram", "--key-from-env", "BOT", "--base-url", url)
        wrong = await asyncio.to_thread(cli, *words, BOT="1:wrong")
        assert (home / "holdfast.toml").read_text() == MINE
        done = await asyncio.to_thread(cli, *words, BOT=vendor.token)
    assert wrong.returncode != 0
    assert "nothing was written" in wrong.stderr
    assert done.returncode == 0, done.stderr
    assert "https://t.me/holdfast_bot" in done.stdout
    assert vendor.token not in done.stdout + done.stderr + wrong.stderr
    config = load(home, {})
    bot = config.settings.platforms["telegram"]
    assert (bot.allow, config.settings.gateway.port) == (("1",), 9000)
    assert config.secrets["platforms.telegram.token"].reveal() == vendor.token
    assert (home / ".env").stat().st_mode & 0o777 == 0o600


def test_a_table_within_a_table_is_patched_in_its_place() -> None:
    assert patch_table(MINE, "platforms.telegram", {"token": "env:BOT"}) == (
        f'{MINE.rstrip()}\ntoken = "env:BOT"\n'
    )
    assert patch_table("", "platforms.telegram", {"token": "env:BOT"}) == (
        '[platforms.telegram]\ntoken = "env:BOT"\n'
    )
