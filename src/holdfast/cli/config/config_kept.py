"""`holdfast config history` and `diff`: the configurations that were in force."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from holdfast.cli.common.file_change import show_lines
from holdfast.cli.common.harmless import safe
from holdfast.cli.common.offline import ask_store
from holdfast.cli.common.output import moment, print_json, print_table
from holdfast.config.difference import difference
from holdfast.config.document import read_text
from holdfast.config.editor import changed_keys
from holdfast.core.address_passwords import without_passwords
from holdfast.core.config.home_files import CONFIG_FILE
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.configuration_views import (
    ConfigurationLine,
    ConfigurationList,
    ConfigurationView,
    compared,
    line_of,
)
from holdfast.server.local.client import ControlClient, ControlRefused
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths

T = TypeVar("T")

_PURPOSE = "reading the configurations"
_NAMED = 3  # keys that are named in a line


def print_history(home: Path, *, limit: int, as_json: bool) -> None:
    listed = _history(home, limit)
    if as_json:
        print_json(msgspec.to_builtins(listed))
        return
    if not listed.configurations:
        click.echo("No configuration was in force yet: the first start of a gateway keeps one.")
        return
    rows = [
        (
            f"{each.number}{' *' if each.in_force else ''}",
            moment(each.at),
            _brought(each),
            _named(each.changed),
        )
        for each in listed.configurations
    ]
    print_table(("NUMBER", "SINCE", "BY", "CHANGED"), rows)
    if listed.more:
        click.echo(f"There are earlier ones: `-n {limit * 5}` shows more.")


def print_diff(home: Path, number: int, other: int | None, *, as_json: bool) -> None:
    """From one to the other; without another, to what the file says now."""
    before = kept_one(home, number).text
    path = home / CONFIG_FILE
    after = (
        without_passwords(read_text(path) or "") if other is None else kept_one(home, other).text
    )
    changes = difference(before, after, around=3)
    if as_json:
        changed = list(changed_keys(before, after))
        print_json({"from": number, "to": other, "changed": changed, "diff": changes})
        return
    there = f"{path} as it is now" if other is None else f"configuration {other}"
    if not changes:
        click.echo(f"Configuration {number} and {there} do not differ.")
        return
    click.echo(f"From configuration {number} to {there}:")
    show_lines(changes)


def kept_one(home: Path, number: int) -> ConfigurationView:
    """As it may be shown. Raises an error that says where to look, where there is none of that
    number."""

    async def read(store: Store) -> ConfigurationView | None:
        kept = await store.configuration(number)
        return None if kept is None else compared(kept, None, in_force=0)

    try:
        found = _asked(home, f"/config/history/{number}", ConfigurationView, read)
    except ControlRefused as refused:
        if refused.status != 404:
            raise
        found = None
    if found is None:
        raise HoldfastError(
            f"There is no configuration {number}; `holdfast config history` has all."
        )
    return found


def stored_text(home: Path, number: int) -> str:
    """The text of that number with all that is in it, where no gateway runs and there is one."""

    async def read(store: Store) -> str:
        kept = await store.configuration(number)
        return "" if kept is None else kept.text

    return ask_store(home, read, purpose=_PURPOSE) or ""


def _history(home: Path, limit: int) -> ConfigurationList:
    async def read(store: Store) -> ConfigurationList:
        found = await store.configurations(limit=limit + 1)
        lines = [line_of(each, in_force=0) for each in found[:limit]]
        return ConfigurationList(configurations=lines, more=len(found) > limit)

    found = _asked(home, f"/config/history?limit={limit}", ConfigurationList, read)
    return found or ConfigurationList(configurations=[], more=False)


def _asked(
    home: Path, path: str, kind: type[T], read: Callable[[Store], Awaitable[T | None]]
) -> T | None:
    """By the gateway that runs; where none does, from the store."""
    holder = read_holder(home)
    if holder is not None and holder.purpose == "gateway":
        return msgspec.convert(ControlClient(Paths(home)).get(path), kind)
    return ask_store(home, read, purpose=_PURPOSE)


def _brought(each: ConfigurationLine) -> str:
    """Who, and by which way, where that does not go without saying."""
    by = safe(each.by)
    return by if by.endswith(each.source) else f"{by} ({each.source})"


def _named(keys: list[str]) -> str:
    named = ", ".join(map(safe, keys[:_NAMED]))
    rest = len(keys) - _NAMED
    return f"{named} and {rest} more" if rest > 0 else named
