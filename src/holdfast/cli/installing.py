"""Installing a choice: tried, shown, written into the home, and checked as a start would."""

from pathlib import Path

import click

from holdfast.cli.choosing import Choice
from holdfast.cli.common.file_change import show_change
from holdfast.cli.common.home import as_option
from holdfast.cli.common.private_files import set_variable
from holdfast.config import load, prepare_home
from holdfast.config.document import read_text
from holdfast.config.toml_patch import CannotPatch, patch_table
from holdfast.config.whole_file import mode_of, write_whole
from holdfast.core.config.home_files import CONFIG_FILE, ENV_FILE
from holdfast.core.config.settings import Provider
from holdfast.core.errors import HoldfastError, ModelError
from holdfast.system.lock import gateway_runs

HERE = ("api", "web")  # doors that ask for the token or a login, and know no strangers


def install(home: Path, choice: Choice, *, test: bool, ask: bool) -> None:
    """Nothing is written before the model has answered, or a person wants it all the same."""
    target = choice.target
    if test and choice.offer.provider is not Provider.DEMO:
        _try(choice, ask=ask)
    prepare_home(home)
    _write(home, choice, ask=ask)
    config = load(home)
    if config.settings.model.provider is not choice.offer.provider:
        where = config.origins.get("model.provider", "somewhere")
        raise HoldfastError(f"{where} sets another provider, and goes before {CONFIG_FILE}.")
    click.echo(f"{target.name} ({choice.offer.provider}) is set up.")
    if gateway_runs(home):
        _take_over(home)
    else:
        click.echo(f"Start it:  holdfast run{as_option(home)}")
    if any(name not in HERE for name in config.settings.platforms):
        click.echo("Whoever writes to your bot gets a code:  holdfast pairing approve CODE")
    else:
        click.echo(f"To be reached in a chat:  holdfast setup --door telegram{as_option(home)}")


def _take_over(home: Path) -> None:
    from holdfast.cli.config.config_reload import reload  # noqa: PLC0415 - only for a running gateway

    reload(home, as_json=False)


def _try(choice: Choice, *, ask: bool) -> None:
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
    click.echo(f"It answers, after {heard.first_word:.1f} s: {heard.text[:200]}")


def _write(home: Path, choice: Choice, *, ask: bool) -> None:
    path = home / CONFIG_FILE
    before = read_text(path) or ""
    after = _patched(path, before, choice)
    changes = show_change(path, before, after)
    if ask:
        click.confirm("Write this?", default=True, abort=True)
    if choice.key is not None and set_variable(
        home / ENV_FILE, choice.variable, choice.key.reveal()
    ):
        click.echo(f"The key is in {home / ENV_FILE} (mode 0600), as {choice.variable}.")
    if changes:
        write_whole(path, after, mode=mode_of(path))


def _patched(path: Path, before: str, choice: Choice) -> str:
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
    except CannotPatch as error:
        lines = [f'{key} = "{value}"' for key, value in values.items() if value]
        wanted = "\n".join(["[model]", *lines])
        raise HoldfastError(f"{path}: {error}. Write this there yourself:\n\n{wanted}") from None
