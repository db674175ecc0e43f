"""Setting up a bot of Telegram: its token is tried, kept in .env, and named in holdfast.toml."""

import asyncio
import os
import sys
from pathlib import Path

import click

from holdfast.cli.private_files import set_variable, write_whole
from holdfast.cli.toml_patch import CannotPatch, patch_table
from holdfast.config import load, prepare_home
from holdfast.config.document import read_text
from holdfast.core.errors import HoldfastError, SendError
from holdfast.core.home_files import CONFIG_FILE, ENV_FILE
from holdfast.core.secret import Secret

_VARIABLE = "TELEGRAM_BOT_TOKEN"
_TABLE = "platforms.telegram"
_ASKS = (
    "Open a chat with @BotFather in Telegram (https://t.me/BotFather), say /newbot, and copy the "
    "token that he gives you."
)


def install(home: Path, *, token_from_env: str | None, base_url: str | None, test: bool) -> None:
    """Nothing is written before Telegram knows the token."""
    token = _token(token_from_env)
    name = _known_as(token, base_url=base_url) if test else ""
    prepare_home(home)
    set_variable(home / ENV_FILE, _VARIABLE, token.reveal())
    _write(home, base_url=base_url)
    click.echo(f"The token is in {home / ENV_FILE} (mode 0600), as {_VARIABLE}.")
    load(home)
    click.echo("Start the gateway anew:  holdfast gateway restart, or holdfast run")
    where = f"https://t.me/{name}" if name else "your bot"
    click.echo(f"Then write to {where}. It answers with a code that lets you in:")
    click.echo("  holdfast pairing approve CODE")


def _token(variable: str | None) -> Secret:
    if variable is None:
        if not sys.stdin.isatty():
            raise click.UsageError("Nobody is here to answer: say --key-from-env.")
        click.echo(_ASKS)
        return Secret(click.prompt("Paste it (it is not shown)", hide_input=True).strip())
    value = os.environ.get(variable, "").strip()
    if not value:
        raise HoldfastError(f"--key-from-env: {variable} is not set in this shell.")
    return Secret(value)


def _known_as(token: Secret, *, base_url: str | None) -> str:
    from holdfast.platforms.telegram.api import BotApi  # noqa: PLC0415 - brings the whole of HTTP
    from holdfast.platforms.telegram.door import API  # noqa: PLC0415 - as above
    from holdfast.platforms.telegram.wire import User  # noqa: PLC0415 - as above

    async def ask() -> User:
        api = BotApi(token, base_url=base_url or API)
        async with api.open(lambda: None):
            return await api.call("getMe", User)

    try:
        me = asyncio.run(ask())
    except SendError as error:
        raise HoldfastError(f"The bot does not answer, and nothing was written: {error}") from None
    click.echo(f"It is @{me.username}.")
    return me.username


def _write(home: Path, *, base_url: str | None) -> None:
    path = home / CONFIG_FILE
    before = read_text(path) or ""
    values: dict[str, str | None] = {"token": f"env:{_VARIABLE}"}
    if base_url:
        values["base_url"] = base_url
    try:
        after = patch_table(before, _TABLE, values)
    except CannotPatch as error:
        lines = "\n".join(f'{key} = "{value}"' for key, value in values.items())
        wanted = f"[{_TABLE}]\n{lines}"
        raise HoldfastError(f"{path}: {error}. Write this there yourself:\n\n{wanted}") from None
    if after != before:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        write_whole(path, after, mode=mode)
        click.echo(f"[{_TABLE}] is in {path}.")
