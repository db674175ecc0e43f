"""Installing a choice: tried, shown, written into the home, and checked as a start would."""

from pathlib import Path

import click

from holdfast.cli.choosing import ModelSetup
from holdfast.cli.common.file_change import print_file_diff
from holdfast.cli.common.home import home_flag
from holdfast.cli.common.private_files import set_env_variable
from holdfast.config import load, prepare_home
from holdfast.config.document import read_text
from holdfast.config.toml_patch import UnpatchableToml, patch_table
from holdfast.config.whole_file import mode_of, write_atomically
from holdfast.core.config.home_files import CONFIG_FILE, ENV_FILE
from holdfast.core.config.settings import Provider
from holdfast.core.errors import HoldfastError, ModelError
from holdfast.system.lock import is_gateway_running

LOCAL_PLATFORMS = ("api", "web")  # doors that ask for the token or a login, and know no strangers


def install_model(home: Path, choice: ModelSetup, *, test: bool, ask: bool) -> None:
    """Nothing is written before the model has answered, or a person wants it all the same."""
    target = choice.target
    if test and choice.provider_info.provider is not Provider.DEMO:
        _test_choice(choice, ask=ask)
    prepare_home(home)
    _write_config(home, choice, ask=ask)
    config = load(home)
    if config.settings.model.provider is not choice.provider_info.provider:
        where = config.origins.get("model.provider", "somewhere")
        raise HoldfastError(f"{where} sets another provider, and goes before {CONFIG_FILE}.")
    click.echo(f"{target.name} ({choice.provider_info.provider}) is set up.")
    if is_gateway_running(home):
        _reload_gateway(home)
    else:
        click.echo(f"Start it:  holdfast run{home_flag(home)}")
    if any(name not in LOCAL_PLATFORMS for name in config.settings.platforms):
        click.echo("Whoever writes to your bot gets a code:  holdfast pairing approve CODE")
    else:
        click.echo(f"To be reached in a chat:  holdfast setup --door telegram{home_flag(home)}")


def _reload_gateway(home: Path) -> None:
    from holdfast.cli.config.config_reload import reload_running  # noqa: PLC0415 - only for a running gateway

    reload_running(home, as_json=False)


def _test_choice(choice: ModelSetup, *, ask: bool) -> None:
    from holdfast.cli.trial import try_model  # noqa: PLC0415 - brings the whole of HTTP

    click.echo(f"Asking {choice.target.name} to say hello …")
    try:
        heard = try_model(choice.target)
    except ModelError as error:
        if not ask:
            raise HoldfastError(
                f"The model does not answer, and nothing was written: {error}"
            ) from None
        click.echo(click.style(str(error), fg="red"))
        click.confirm("Write it down all the same?", default=False, abort=True)
        return
    click.echo(f"It answers, after {heard.first_token_seconds:.1f} s: {heard.text[:200]}")


def _write_config(home: Path, choice: ModelSetup, *, ask: bool) -> None:
    path = home / CONFIG_FILE
    before = read_text(path) or ""
    after = _patch_config(path, before, choice)
    changes = print_file_diff(path, before, after)
    if ask:
        click.confirm("Write this?", default=True, abort=True)
    if choice.key is not None and set_env_variable(
        home / ENV_FILE, choice.variable, choice.key.reveal()
    ):
        click.echo(f"The key is in {home / ENV_FILE} (mode 0600), as {choice.variable}.")
    if changes:
        write_atomically(path, after, mode=mode_of(path))


def _patch_config(path: Path, before: str, choice: ModelSetup) -> str:
    settings = choice.settings
    values: dict[str, str | None] = {
        "provider": settings.provider,
        "name": settings.name or None,
        "api_mode": None,  # the old provider's may not fit the new one
        "base_url": settings.base_url or None,
        "api_key": settings.api_key or None,
    }
    try:
        return patch_table(before, "model", values)
    except UnpatchableToml as error:
        lines = [f'{key} = "{value}"' for key, value in values.items() if value]
        wanted = "\n".join(["[model]", *lines])
        raise HoldfastError(f"{path}: {error}. Write this there yourself:\n\n{wanted}") from None
