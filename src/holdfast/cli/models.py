"""`holdfast models`: which models are set up or found, and whether they work."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option, print_json, print_table
from holdfast.system import exits

if TYPE_CHECKING:
    from holdfast.cli.models_asked import CheckedModel, ListedModel

_MAX_MODEL_NAMES = 12  # names of a server's models; some have hundreds


@click.group("models")
@home_option
def command() -> None:
    """List the models that are set up, or check whether they work.

    They are asked from here, with the keys that the configuration refers to; no gateway needs
    to run. Keys are never shown.

    \b
    Examples:
      holdfast models list
      holdfast models check
    """


@command.command("list", short_help="The model that answers, and those that stand in for it.")
@home_option
@json_option
def list_models(as_json: bool) -> None:
    """The model that answers, why it is that one, and those that stand in for it."""
    from holdfast.cli import models_asked  # noqa: PLC0415 - imports every codec

    found = asyncio.run(models_asked.describe_models(chosen_home()))
    if as_json:
        print_json({"models": [each.as_dict() for each in found]})
        return
    rows = [(each.role, each.provider, each.name, each.api_mode, each.base_url) for each in found]
    print_table(("ROLE", "PROVIDER", "NAME", "MODE", "ADDRESS"), rows)
    for each in found:
        click.echo(f"\n{click.style(each.name, bold=True)}: {each.why}")
        if each.offers != (each.name,):
            click.echo(f"  {_offers_text(each)}")


@command.command("check")
@home_option
@json_option
@click.argument("name", required=False)
def check_models(as_json: bool, name: str | None) -> None:
    """Call them: reachable? streams? uses tools? how fast?

    With NAME, that one model: one of those listed, or another of the first one's provider. Makes
    two short calls to each, which a provider may charge for. Exits with 1 if one does not answer.
    """
    from holdfast.cli import models_asked  # noqa: PLC0415 - imports every codec

    found = asyncio.run(models_asked.probe_models(chosen_home(), name))
    if as_json:
        print_json({"models": [each.as_dict() for each in found]})
    else:
        headers = ("MODEL", "PROVIDER", "REACHABLE", "STREAMS", "TOOLS", "FIRST TOKEN", "TOKENS/S")
        print_table(headers, [_check_row(each) for each in found])
        for each in found:
            if each.checkup.problem:
                click.echo(f"\n{each.name}: {each.checkup.problem}", err=True)
    sys.exit(exits.OK if all(each.checkup.reachable for each in found) else exits.FAILED)


def _offers_text(model: "ListedModel") -> str:
    if model.problem:
        return f"its models cannot be listed: {model.problem}"
    names = ", ".join(model.offers[:_MAX_MODEL_NAMES])
    more = len(model.offers) - _MAX_MODEL_NAMES
    return f"its server has {names}{f' and {more} more' if more > 0 else ''}"


def _check_row(model: "CheckedModel") -> tuple[str, ...]:
    found = model.checkup
    first, speed = found.first_token_ms, found.tokens_per_second
    return (
        model.name,
        model.provider,
        _yes_no(found.reachable),
        _yes_no(found.streams),
        _yes_no(found.tools),
        "-" if first is None else f"{first:.0f} ms",
        "-" if speed is None else f"{speed:.0f}",
    )


def _yes_no(found: bool | None) -> str:
    return "-" if found is None else "yes" if found else "no"
