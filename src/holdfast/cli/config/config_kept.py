"""`holdfast config history` and `diff`: the configurations that were in force."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from holdfast.cli.common.file_change import print_diff_lines
from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.offline import query_store
from holdfast.cli.common.output import format_time, print_json, print_table
from holdfast.config.difference import diff_lines
from holdfast.config.document import read_text
from holdfast.config.editor import changed_keys
from holdfast.core.address_passwords import mask_passwords
from holdfast.core.config.home_files import CONFIG_FILE
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.configuration_views import (
    ConfigVersionDetail,
    ConfigVersionList,
    ConfigVersionView,
    version_detail,
    version_view,
)
from holdfast.server.local.client import ControlClient, GatewayRefused
from holdfast.system.lock import read_holder
from holdfast.system.paths import Paths

T = TypeVar("T")

_LOCK_PURPOSE = "reading the configurations"
_MAX_KEYS_LISTED = 3  # keys that are named in a line


def print_history(home: Path, *, limit: int, as_json: bool) -> None:
    listed = _fetch_history(home, limit)
    if as_json:
        print_json(msgspec.to_builtins(listed))
        return
    if not listed.versions:
        click.echo("No configuration was in force yet: the first start of a gateway keeps one.")
        return
    rows = [
        (
            f"{each.number}{' *' if each.active else ''}",
            format_time(each.at),
            _changed_by(each),
            _list_keys(each.changed),
        )
        for each in listed.versions
    ]
    print_table(("NUMBER", "SINCE", "BY", "CHANGED"), rows)
    if listed.more:
        click.echo(f"There are earlier ones: `-n {limit * 5}` shows more.")


def print_diff(home: Path, number: int, other: int | None, *, as_json: bool) -> None:
    """From one to the other; without another, to what the file says now."""
    before = get_config_version(home, number).text
    path = home / CONFIG_FILE
    after = (
        mask_passwords(read_text(path) or "")
        if other is None
        else get_config_version(home, other).text
    )
    changes = diff_lines(before, after, around=3)
    if as_json:
        changed = list(changed_keys(before, after))
        print_json({"from": number, "to": other, "changed": changed, "diff": changes})
        return
    there = f"{path} as it is now" if other is None else f"configuration {other}"
    if not changes:
        click.echo(f"Configuration {number} and {there} do not differ.")
        return
    click.echo(f"From configuration {number} to {there}:")
    print_diff_lines(changes)


def get_config_version(home: Path, number: int) -> ConfigVersionDetail:
    """As it may be shown. Raises an error that says where to look, where there is none of that
    number."""

    async def read(store: Store) -> ConfigVersionDetail | None:
        kept = await store.configuration(number)
        return None if kept is None else version_detail(kept, None, active=0)

    try:
        found = _query_versions(home, f"/config/history/{number}", ConfigVersionDetail, read)
    except GatewayRefused as refused:
        if refused.status != 404:
            raise
        found = None
    if found is None:
        raise HoldfastError(
            f"There is no configuration {number}; `holdfast config history` has all."
        )
    return found


def read_stored_text(home: Path, number: int) -> str:
    """The text of that number with all that is in it, where no gateway runs and there is one."""

    async def read(store: Store) -> str:
        kept = await store.configuration(number)
        return "" if kept is None else kept.text

    return query_store(home, read, purpose=_LOCK_PURPOSE) or ""


def _fetch_history(home: Path, limit: int) -> ConfigVersionList:
    async def read(store: Store) -> ConfigVersionList:
        found = await store.configurations(limit=limit + 1)
        lines = [version_view(each, active=0) for each in found[:limit]]
        return ConfigVersionList(versions=lines, more=len(found) > limit)

    found = _query_versions(home, f"/config/history?limit={limit}", ConfigVersionList, read)
    return found or ConfigVersionList(versions=[], more=False)


def _query_versions(
    home: Path, path: str, kind: type[T], read: Callable[[Store], Awaitable[T | None]]
) -> T | None:
    """By the gateway that runs; where none does, from the store."""
    holder = read_holder(home)
    if holder is not None and holder.purpose == "gateway":
        return msgspec.convert(ControlClient(Paths(home)).get(path), kind)
    return query_store(home, read, purpose=_LOCK_PURPOSE)


def _changed_by(version: ConfigVersionView) -> str:
    """Who, and by which way, where that does not go without saying."""
    by = sanitize(version.by)
    return by if by.endswith(version.source) else f"{by} ({version.source})"


def _list_keys(keys: list[str]) -> str:
    named = ", ".join(map(sanitize, keys[:_MAX_KEYS_LISTED]))
    rest = len(keys) - _MAX_KEYS_LISTED
    return f"{named} and {rest} more" if rest > 0 else named
