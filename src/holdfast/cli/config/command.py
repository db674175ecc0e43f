"""`holdfast config`: checks, shows, changes and reloads the configuration.

Changes are in `config.changes`, which imports the store and is imported inside functions only.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem
from msgspec import inspect

from holdfast.cli.common.options import chosen_home, complete_config_version, home_flag, home_option
from holdfast.cli.common.output import json_option, print_json, print_table
from holdfast.config import ConfigError, EffectiveKey, json_schema, list_keys, load
from holdfast.config.keys import find_key, platform_keys, section_keys
from holdfast.config.platforms import PLATFORMS, plugin_names
from holdfast.core.config.changes import change_effect
from holdfast.core.config.versions import CONFIG_FILE, ReloadResult
from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import _
from holdfast.server.api.views.config import ConfigKeyView, ConfigView
from holdfast.server.local.control_client import ControlClient, GatewayRefused
from holdfast.system import exit_codes
from holdfast.system.lock import is_gateway_running
from holdfast.system.paths import Paths


@click.group("config")
@home_option
def command() -> None:
    """Show the configuration, change it, and go back to an earlier one.

    \b
      holdfast config show
      holdfast config set model.name gpt-5 agent.max_steps 40
      holdfast config history
      holdfast config rollback 3

    Settings come from holdfast.toml and .env in the home, and from HOLDFAST_… variables, which
    take precedence. A secret is written as a reference: "env:NAME" or "file:path".
    """


def _complete_key_or_value(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Keys, and after a key its possible values."""
    words = ctx.params.get("words") or ()
    return [CompletionItem(word) for word in complete_words(words, incomplete)]


def _complete_key(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [CompletionItem(word) for word in complete_words((), incomplete)]


@command.command("check")
@home_option
@json_option
def check(as_json: bool) -> None:
    """Check the configuration.

    Reads everything as `holdfast run` does; exits with 78 if something is wrong.
    """
    try:
        config = load(chosen_home())
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"ok": False, "error": error.for_person()})
        sys.exit(exit_codes.CONFIG_EXIT)
    if as_json:
        print_json({"ok": True, "warnings": list(config.warnings)})
        return
    for warning in config.warnings:
        click.echo(f"{click.style(_('warning:'), fg='yellow')} {warning}", err=True)
    if (config.home / CONFIG_FILE).exists():
        text = _("The configuration of {home} is valid.")
    else:
        text = _("The configuration of {home} is valid (there is no {file}: defaults apply).")
    click.echo(text.format(home=config.home, file=CONFIG_FILE))


@command.command("show")
@home_option
@json_option
def show_settings(as_json: bool) -> None:
    """Show every key, its value, and where the value was set.

    Also shows when a change of the key takes effect. Secrets are shown as references. If the
    running gateway uses another value (until a restart, or because of a variable or option of its
    own), that value is shown too.
    """
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
    help="Reset the setting to its default.",
)
def set_keys(words: tuple[str, ...], unset: tuple[str, ...], as_json: bool) -> None:
    """Change keys of holdfast.toml.

    \b
      holdfast config set agent.max_steps 40
      holdfast config set model.provider openai model.api_key env:OPENAI_API_KEY
      holdfast config set agent.toolsets terminal,files,web
      holdfast config set 'prices."gpt-4.1".input' 2 'prices."gpt-4.1".output' 8
      holdfast config set --unset gateway.busy_mode

    A value is TOML, or a plain word. A change that a start would refuse is not written (exit code
    78); comments and order are kept. A running gateway applies the change at once, as far as the
    key allows. Never write a secret itself: write "env:NAME" or "file:path".
    """
    from holdfast.cli.config import changes  # noqa: PLC0415 - not for --help

    if len(words) % 2:
        raise click.UsageError(
            _("{key} has no value. Write KEY VALUE, or --unset KEY.").format(key=words[-1])
        )
    if not words and not unset:
        raise click.UsageError(_("No change given. Write KEY VALUE, or --unset KEY."))
    changes.set_keys(chosen_home(), words, unset, as_json=as_json)


@command.command("reload")
@home_option
@json_option
def reload_config(as_json: bool) -> None:
    """Make the running gateway read its configuration again.

    It does so automatically when holdfast.toml or .env changes. Use this command to see the result,
    or after a change of a file that a setting refers to, such as a secret. If something is wrong,
    the last good configuration stays active, and this command exits with 78.
    """
    reload_running(chosen_home(), as_json=as_json)


@command.command("history")
@home_option
@json_option
@click.option(
    "-n",
    "limit",
    type=click.IntRange(1, 1000),
    default=20,
    help="List at most this many versions.  [default: 20]",
)
def history(limit: int, as_json: bool) -> None:
    """List the configurations that were active, the newest first.

    Shows the number of each, since when it was active, who set it, and which keys it changed. The
    configuration that the running gateway uses is marked with *.
    """
    from holdfast.cli.config.changes import print_history  # noqa: PLC0415 - not for --help

    print_history(chosen_home(), limit=limit, as_json=as_json)


@command.command("diff")
@home_option
@json_option
@click.argument("number", type=click.IntRange(min=1), shell_complete=complete_config_version)
@click.argument(
    "other", type=click.IntRange(min=1), required=False, shell_complete=complete_config_version
)
def diff(number: int, other: int | None, as_json: bool) -> None:
    """Show the difference between two configurations.

    \b
      holdfast config diff 3      from configuration 3 to the current file
      holdfast config diff 3 5    from configuration 3 to configuration 5
    """
    from holdfast.cli.config.changes import print_diff  # noqa: PLC0415 - not for --help

    print_diff(chosen_home(), number, other, as_json=as_json)


@command.command("rollback")
@home_option
@json_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.argument("number", type=click.IntRange(min=1), shell_complete=complete_config_version)
def rollback(number: int, yes: bool, as_json: bool) -> None:
    """Restore the holdfast.toml of an earlier configuration.

    The configuration is checked first, renamed keys get their new names, and it gets a new number:
    the history stays complete, and you can undo a rollback the same way. If the file changes after
    you were shown the difference, nothing is written.
    """
    from holdfast.cli.config.changes import roll_back  # noqa: PLC0415 - not for --help

    roll_back(chosen_home(), number, yes=yes, as_json=as_json)


@command.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of holdfast.toml, for editors and programs."""
    print_json(json_schema())


_READ_TIMEOUT = 3.0  # seconds; without an answer, the values of the file are shown


def print_keys(home: Path, *, as_json: bool) -> None:
    keys = list_keys(load(home))
    running = _running_keys(home)
    if as_json:
        print_json({each.key: _key_json(each, running.get(each.key)) for each in keys})
        return
    rows = [
        (
            each.key,
            _(change_effect(each.key)),
            each.origin,
            _value_text(each, running.get(each.key)),
        )
        for each in keys
    ]
    print_table((_("KEY"), _("TAKES EFFECT"), _("SET BY"), _("VALUE")), rows)


def _key_json(key: EffectiveKey, running: ConfigKeyView | None) -> dict[str, Any]:
    facts = {"value": key.value, "origin": key.origin, "effect": change_effect(key.key)}
    if running is not None and (running.pending_restart or _differs(key, running)):
        facts["live_value"] = running.live_value
    return facts


def _value_text(key: EffectiveKey, running: ConfigKeyView | None) -> str:
    value = _to_json(key.value)
    if running is None:
        return value
    if running.pending_restart:
        return _("{value}  (restart required; running with {live})").format(
            value=value, live=_to_json(running.live_value)
        )
    if _differs(key, running):
        return _("{value}  (the running gateway has {live}: {origin})").format(
            value=value, live=_to_json(running.value), origin=running.origin
        )
    return value


def _differs(key: EffectiveKey, running: ConfigKeyView) -> bool:
    """Whether the gateway and this shell have different variables or options: both have read the
    same file."""
    return _to_json(key.value) != _to_json(running.value)


def _running_keys(home: Path) -> dict[str, ConfigKeyView]:
    """Each key as the running gateway has it; empty without one."""
    try:
        if not is_gateway_running(home):
            return {}
        document = ControlClient(Paths(home), timeout=_READ_TIMEOUT).get("/config")
    except HoldfastError:
        return {}
    return {each.key: each for each in msgspec.convert(document, ConfigView).keys}


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_RELOAD_TIMEOUT = 60.0  # seconds; it may search for a model server or import a platform


def reload_running(home: Path, *, as_json: bool) -> None:
    """Raises `ConfigError` if the file cannot be used; the last configuration stays active."""
    if not is_gateway_running(home):
        load(home)  # reports what is wrong with it also without a gateway
        _print_not_running(home, as_json=as_json)
        sys.exit(exit_codes.GATEWAY_DOWN)
    done = _request_reload(home)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    _print_reloaded(home, done)


def _request_reload(home: Path) -> ReloadResult:
    client = ControlClient(Paths(home), timeout=_RELOAD_TIMEOUT)
    try:
        return msgspec.convert(client.post("/config/reload", {}), ReloadResult)
    except GatewayRefused as refused:
        if refused.status == 422:  # the same error as for a file that is read here
            raise ConfigError(
                "{reason}\nNothing has changed: the last good configuration stays active.",
                reason=refused.reason,
            ) from None
        raise


def _print_not_running(home: Path, *, as_json: bool) -> None:
    note = _(
        "No gateway is running in {home}: the configuration applies from its next start."
    ).format(home=home)
    if as_json:
        print_json({"error": note})
    else:
        click.echo(note, err=True)


def _print_reloaded(home: Path, reloaded: ReloadResult) -> None:
    for warning in reloaded.warnings:
        click.echo(f"{click.style(_('warning:'), fg='yellow')} {warning}", err=True)
    if reloaded.changed:
        click.echo(_("Configuration {number} is active. Changed:").format(number=reloaded.number))
        for key in reloaded.changed:
            click.echo(f"  {key}")
    else:
        click.echo(
            _("Nothing has changed: configuration {number} stays active.").format(
                number=reloaded.number
            )
        )
    if reloaded.accounts:
        click.echo(
            _("Accounts reconnected, added or removed: {accounts}.").format(
                accounts=", ".join(reloaded.accounts)
            )
        )
    if reloaded.pending_restart:
        click.echo(
            _("Restart required for: {keys}  ({command})").format(
                keys=", ".join(reloaded.pending_restart),
                command=f"holdfast gateway restart{home_flag(home)}",
            )
        )


def complete_words(words: Sequence[str], incomplete: str) -> list[str]:
    """After an even number of words a key comes next; otherwise a value of the last key."""
    choices = _key_values(words[-1]) if len(words) % 2 else _key_names(incomplete)
    return [each for each in choices if each.startswith(incomplete)]


def _key_names(incomplete: str) -> list[str]:
    """Of platforms only the names, until one is typed: each imports a library."""
    section, _, rest = incomplete.partition(".")
    name, dot, _ = rest.partition(".")
    if section == PLATFORMS and dot:
        return platform_keys(name)
    return [*section_keys(), *(f"{PLATFORMS}.{name}." for name in plugin_names())]


def _key_values(name: str) -> list[str]:
    try:
        node = find_key(name).node
    except ConfigError:
        return []
    if isinstance(node, inspect.BoolType):
        return ["true", "false"]
    if isinstance(node, inspect.EnumType):
        return [str(member.value) for member in node.cls]
    return []
