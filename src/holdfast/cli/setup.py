"""`holdfast setup`: from nothing to a model that answers, and to doors where people write."""

import os
import sys

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option

_PROVIDER_NAMES = ("anthropic", "openai", "openrouter", "local", "demo")


@click.command("setup")
@home_option
@click.option("--provider", type=click.Choice(_PROVIDER_NAMES), help="Who runs the model.")
@click.option("--name", help="The model.  [default: the provider's usual one]")
@click.option("--base-url", metavar="URL", help="Another address than the provider's own.")
@click.option(
    "--key-from-env", metavar="NAME", help="Take the key from this variable and keep it in .env."
)
@click.option("--no-test", is_flag=True, help="Do not try the model, or the account.")
@click.option(
    "--door",
    metavar="PLATFORM",
    shell_complete=lambda *_: _complete_platform(),
    help="Set up an account of a chat platform instead: telegram, slack, discord, …",
)
@click.option("--account", default="default", show_default=True, help="With --door: which one.")
@click.option(
    "--set",
    "given",
    metavar="KEY=VALUE",
    multiple=True,
    help="With --door: a key of its table. A secret is env:NAME or file:PATH.",
)
@click.option("--owner", metavar="ID", multiple=True, help="With --door: who you are there.")
@json_option
def command(
    provider: str | None,
    name: str | None,
    base_url: str | None,
    key_from_env: str | None,
    no_test: bool,
    door: str | None,
    account: str,
    given: tuple[str, ...],
    owner: tuple[str, ...],
    as_json: bool,
) -> None:
    """Choose a model, try it, and write it down; or, with --door, an account of a platform.

    Asks what it needs to know; with --provider it asks nothing. The choice goes into [model] of
    holdfast.toml, where nothing else is touched, and the key into .env in the home, which only
    you can read. No gateway has to run for this.

    With --door it asks what that door wants to know, asks the platform whether it is right, and
    adds the account. Secrets go into .env. Whatever --set has is not asked for; with --json, or
    without a terminal, nothing is.

    \b
    Examples:
      holdfast setup
      holdfast setup --provider anthropic --key-from-env ANTHROPIC_API_KEY
      holdfast setup --provider local --base-url http://127.0.0.1:8080/v1 --name qwen3
      holdfast setup --door telegram
      holdfast setup --door slack --account work --set token=env:BOT --set app_token=env:APP
    """
    if door is not None:
        if provider or name:
            raise click.UsageError("--provider and --name are about a model, not about a --door.")
        settings = [*given, *([f"base_url={base_url}"] if base_url else [])]
        _add_account(
            door, account, settings, key_from_env, owner, test=not no_test, as_json=as_json
        )
        return
    if given or owner or account != "default" or as_json:
        raise click.UsageError("--account, --set, --owner and --json are about a --door.")
    from holdfast.cli.choosing import ModelOptions, choose_from_options, choose_interactively  # noqa: PLC0415 - no --help
    from holdfast.cli.installing import install_model  # noqa: PLC0415 - as above
    from holdfast.config.document import read_document  # noqa: PLC0415 - as above
    from holdfast.core.config.home_files import CONFIG_FILE  # noqa: PLC0415 - as above

    home = chosen_home()
    read_document(home / CONFIG_FILE)  # one that is broken is told before anybody is asked
    wanted = ModelOptions(
        provider=provider, name=name, base_url=base_url, key_from_env=key_from_env
    )
    if provider is not None:
        install_model(home, choose_from_options(wanted), test=not no_test, ask=False)
    elif sys.stdin.isatty():
        install_model(home, choose_interactively(home, wanted), test=not no_test, ask=True)
    else:
        raise click.UsageError("Nobody is here to answer: say at least --provider.")


def _add_account(
    platform: str,
    account: str,
    settings: list[str],
    secret_from: str | None,
    owners: tuple[str, ...],
    *,
    test: bool,
    as_json: bool,
) -> None:
    from holdfast.cli.platforms.door_opening import connect_account  # noqa: PLC0415 - not for --help
    from holdfast.cli.platforms.door_person import TerminalPrompter  # noqa: PLC0415 - as above
    from holdfast.cli.platforms.door_setup import AddAccountOptions, add_account, print_added  # noqa: PLC0415 - as above

    home = chosen_home()
    person = TerminalPrompter() if sys.stdin.isatty() and not as_json else None
    wish = AddAccountOptions(
        platform=platform,
        account=account,
        settings=dict(_parse_setting(each) for each in settings),
        secret_from=secret_from,
        owners=owners,
        test=test,
        as_json=as_json,
    )
    done = add_account(home, wish, prompter=person, environ=os.environ)
    print_added(done, as_json=as_json)
    if not as_json:
        connect_account(home, done, prompter=person)


def _parse_setting(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise click.UsageError(f"--set {text}: say KEY=VALUE.")
    return key, value


def _complete_platform() -> list[str]:
    from holdfast.config.doors import plugin_names  # noqa: PLC0415 - only where Tab was pressed

    return list(plugin_names())
