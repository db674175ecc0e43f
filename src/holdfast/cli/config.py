"""`holdfast config`: is it right, what does it come to, what may be written."""

import json
import sys

import click

from holdfast.cli.home import chosen_home, home_option
from holdfast.cli.output import json_option, print_json, print_table
from holdfast.config import Config, ConfigError, load, schema, show
from holdfast.core.home_files import CONFIG_FILE
from holdfast.service import exits


@click.group("config")
@home_option
def command() -> None:
    """Check or show the configuration.

    Settings come from holdfast.toml and .env in the home, and from HOLDFAST_… variables, which
    win. A secret is written as a reference: "env:NAME" or "file:path".
    """


@command.command("check")
@home_option
@json_option
def check(as_json: bool) -> None:
    """Read everything as `holdfast run` would; exits with 78 if something is wrong."""
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
    click.echo(f"The configuration of {config.home} is in order{_without_file(config)}.")


@command.command("show")
@home_option
@json_option
def show_settings(as_json: bool) -> None:
    """Every key with its value and the place that set it; secrets are shown as references."""
    keys = show(load(chosen_home()))
    if as_json:
        print_json({key.key: {"value": key.value, "origin": key.origin} for key in keys})
        return
    rows = [(key.key, json.dumps(key.value, ensure_ascii=False), key.origin) for key in keys]
    print_table(("KEY", "VALUE", "SET BY"), rows)


@command.command("schema")
def print_schema() -> None:
    """The JSON Schema of holdfast.toml, for editors and programs."""
    print_json(schema())


def _without_file(config: Config) -> str:
    there = (config.home / CONFIG_FILE).exists()
    return "" if there else f" (there is no {CONFIG_FILE}: every default holds)"
