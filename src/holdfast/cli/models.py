"""`holdfast models`: which models are set up or found, and whether they work."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import click

from holdfast.cli.home import chosen_home, home_option
from holdfast.cli.output import json_option, print_json, print_table
from holdfast.core.errors import HoldfastError
from holdfast.service import exits

_SHOWN = 12  # names of an endpoint's models; some have hundreds


@click.group("models")
@home_option
def command() -> None:
    """List the models that are set up, or check whether they work.

    The models are asked from here, with the keys that the configuration refers to; no gateway
    needs to run. Keys are never shown.
    """


@command.command("list")
@home_option
@json_option
def list_models(as_json: bool) -> None:
    """The model that answers, why it is that one, and those that stand in for it."""
    found = asyncio.run(_list(chosen_home()))
    if as_json:
        print_json({"models": found})
        return
    rows = [(each["role"], each["provider"], each["name"], each["api_mode"], each["base_url"])
            for each in found]  # fmt: skip
    print_table(("ROLE", "PROVIDER", "NAME", "MODE", "ADDRESS"), rows)
    for each in found:
        click.echo()
        click.echo(click.style(each["name"], bold=True) + (f": {each['why']}" * bool(each["why"])))
        click.echo(f"  {_offered(each)}")


@command.command("check")
@home_option
@json_option
@click.argument("name", required=False)
def check_models(as_json: bool, name: str | None) -> None:
    """Call them: reachable? streams? uses tools? how fast?

    With NAME, that one model: one of those listed, or another of the same provider. Makes two
    short calls to each, which a provider may charge for. Exits with 1 if one does not answer.
    """
    found = asyncio.run(_check(chosen_home(), name))
    if as_json:
        print_json({"models": found})
    else:
        headers = ("MODEL", "REACHABLE", "STREAMS", "TOOLS", "FIRST TOKEN", "TOKENS/S")
        print_table(headers, [_row(each) for each in found])
        for each in found:
            if each["problem"]:
                click.echo(f"\n{each['name']}: {each['problem']}", err=True)
    sys.exit(exits.OK if all(each["reachable"] for each in found) else exits.FAILED)


async def _list(home: Path) -> list[dict[str, Any]]:
    from holdfast.models.inventory import Inventory  # noqa: PLC0415 - imports every codec

    async with Inventory(_config(home)) as inventory:
        return [each async for each in inventory.entries()]


async def _check(home: Path, name: str | None) -> list[dict[str, Any]]:
    from holdfast.models.inventory import Inventory  # noqa: PLC0415 - as above

    async with Inventory(_config(home)) as inventory:
        return [await inventory.check(target, now=time.monotonic) for target in inventory.named(name)]
