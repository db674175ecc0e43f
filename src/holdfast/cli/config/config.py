"""`holdfast config`: is it right, what does it come to, what may be written, what was before."""

import sys

import click
from click.shell_completion import CompletionItem

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.options import complete_config_version
from holdfast.cli.common.output import json_option, print_json
from holdfast.config import Config, ConfigError, json_schema, load
from holdfast.core.config.home_files import CONFIG_FILE
from holdfast.system import exits


@click.group("config")
@home_option
def command() -> None:
    """Look at the configuration, change it, and go back to an earlier one.

    \b
      holdfast config show
      holdfast config set model.name gpt-5 agent.max_steps 40
      holdfast config history
      holdfast config rollback 3

    Settings come from holdfast.toml and .env in the home, and from HOLDFAST_… variables, which
    win. A secret is written as a reference: "env:NAME" or "file:path".
    """


def _complete_key_or_value(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """What Tab offers: keys, and after one what it may be, where that is a choice."""
    from holdfast.cli.config.config_completion import complete_words  # noqa: PLC0415 - only when Tab is pressed

    words = ctx.params.get("words") or ()
    return [CompletionItem(word) for word in complete_words(words, incomplete)]


def _complete_key(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from holdfast.cli.config.config_completion import complete_words  # noqa: PLC0415 - only when Tab is pressed

    return [CompletionItem(word) for word in complete_words((), incomplete)]


@command.command("check")
@home_option
@json_option
def check(as_json: bool) -> None:
    """Say whether the configuration is in order.

    Everything is read as `holdfast run` would read it; exits with 78 if something is wrong.
    """
    try:
        config = load(chosen_home())
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"ok": False, "error": str(error)})
        sys.exit(exits.CONFIG_EXIT)
    if as_json:
        print_json({"ok": True, "warnings": list(config.warnings)})
        return
    for warning in config.warnings:
        click.echo(f"{click.style('warning:', fg='yellow')} {warning}", err=True)
    click.echo(f"The configuration of {config.home} is in order{_no_file_note(config)}.")


@command.command("show")
@home_option
@json_option
def show_settings(as_json: bool) -> None:
    """Show every key, who set it, and its value.

    Beside it stands when a change of the key takes effect. Secrets are shown as references. A key
    that waits for a restart of the gateway that runs says what is in force until then; so does
    one of which that gateway was given another value, by a variable or an option.
    """
    from holdfast.cli.config.config_shown import print_keys  # noqa: PLC0415 - not for --help

    print_keys(chosen_home(), as_json=as_json)


@command.command("set")
@home_option
@json_option
@click.argument("words", nargs=-1, metavar="KEY VALUE …", shell_complete=_complete_key_or_value)
@click.option(
    "--unset",
    multiple=True,
    metavar="KEY",
    shell_complete=_complete_key,
    help="Back to its default.",
)
def set_keys(words: tuple[str, ...], unset: tuple[str, ...], as_json: bool) -> None:
    """Change keys of holdfast.toml.

    \b
      holdfast config set agent.max_steps 40
      holdfast config set model.provider openai model.api_key env:OPENAI_API_KEY
      holdfast config set agent.toolsets terminal,files,web
      holdfast config set 'prices."gpt-4.1".input' 2 'prices."gpt-4.1".output' 8
      holdfast config set --unset gateway.busy_mode

    A value is TOML, or a plain word. Nothing is written that a start would refuse (exit code 78);
    comments and order stay. A gateway that runs takes it over at once, as far as the key allows.
    A secret is never written out: write "env:NAME" or "file:path".
    """
    from holdfast.cli.config import config_change  # noqa: PLC0415 - not for --help

    if len(words) % 2:
        raise click.UsageError(f"{words[-1]} has no value: write KEY VALUE, or --unset KEY.")
    if not words and not unset:
        raise click.UsageError("Nothing to change: write KEY VALUE, or --unset KEY.")
    config_change.set_keys(chosen_home(), words, unset, as_json=as_json)


@command.command("reload")
@home_option
@json_option
def reload_config(as_json: bool) -> None:
    """Have the gateway that runs read its configuration again.

    It does so by itself when holdfast.toml or .env changes; this says what came of it, and is for
    whatever else a setting refers to, as a secret in a file of its own. If something is wrong the
    last good configuration stays in force, and this exits with 78.
    """
    from holdfast.cli.config.config_reload import reload_running  # noqa: PLC0415 - not for --help

    reload_running(chosen_home(), as_json=as_json)


@command.command("history")
@home_option
@json_option
@click.option(
    "-n", "limit", type=click.IntRange(1, 1000), default=20, help="How many.  [default: 20]"
)
def history(limit: int, as_json: bool) -> None:
    """List the configurations that were in force.

    The newest first: its number, since when, who brought it, and which keys it changed. The one
    that a running gateway has in force is marked with *.
    """
    from holdfast.cli.config.config_kept import print_history  # noqa: PLC0415 - not for --help

    print_history(chosen_home(), limit=limit, as_json=as_json)


@command.command("diff")
@home_option
@json_option
@click.argument("number", type=click.IntRange(min=1), shell_complete=complete_config_version)
@click.argument(
    "other", type=click.IntRange(min=1), required=False, shell_complete=complete_config_version
)
def diff(number: int, other: int | None, as_json: bool) -> None:
    """Show what differs between two configurations.

    \b
      holdfast config diff 3      from configuration 3 to the file as it is now
      holdfast config diff 3 5    from configuration 3 to configuration 5
    """
    from holdfast.cli.config.config_kept import print_diff  # noqa: PLC0415 - not for --help

    print_diff(chosen_home(), number, other, as_json=as_json)


@command.command("rollback")
@home_option
@json_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.argument("number", type=click.IntRange(min=1), shell_complete=complete_config_version)
def rollback(number: int, yes: bool, as_json: bool) -> None:
    """Put the holdfast.toml of an earlier configuration back.

    It is checked by the rules of today first, and gets a number of its own: nothing of the
    history is lost, and this can be undone the same way. If the file was changed after you were
    shown what would differ, nothing is done.
    """
    from holdfast.cli.config.config_change import roll_back  # noqa: PLC0415 - not for --help

    roll_back(chosen_home(), number, yes=yes, as_json=as_json)


@command.command("schema")
def print_schema() -> None:
    """The JSON Schema of holdfast.toml, for editors and programs."""
    print_json(json_schema())


def _no_file_note(config: Config) -> str:
    there = (config.home / CONFIG_FILE).exists()
    return "" if there else f" (there is no {CONFIG_FILE}: every default holds)"
