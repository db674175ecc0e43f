"""Searching: asked of the running gateway or, with none, of the store; and what is printed."""

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.common.gateway import api_of
from holdfast.cli.common.harmless import safe
from holdfast.cli.common.names import find_session
from holdfast.cli.common.output import moment, print_json
from holdfast.server.api.views.search_views import Found, SearchView
from holdfast.server.local.client import GatewayDown, GatewayUnable

_REBUILD_TAKES = 600.0  # seconds at the most: a long history is read from its beginning
_DAY = 86400.0


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    words: str
    limit: int
    session: str | None
    platform: str
    days: float


def print_found(home: Path, asked: Asked, *, as_json: bool) -> None:
    found = _found(home, asked)
    if as_json:
        print_json({"found": msgspec.to_builtins(found)})
        return
    if not found:
        click.echo("Nothing was found.")
    for each in found:
        title = safe(each.session.title or "untitled")
        click.echo(click.style(f"{each.session.id} · {title} · {moment(each.at)}", bold=True))
        click.echo(f"  {each.role}: {_marked(each.marked)}")


def rebuild(home: Path, *, as_json: bool) -> None:
    try:
        api = api_of(home, timeout=_REBUILD_TAKES)
        state = api.post("/search/rebuild", {}, SearchView)
    except GatewayUnable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_search import rebuilt  # noqa: PLC0415 - imports the store

        state = rebuilt(home)
    if as_json:
        print_json(msgspec.to_builtins(state))
    else:
        click.echo(f"The search index was made anew: {state.messages} messages.")


def _found(home: Path, asked: Asked) -> list[Found]:
    since = time.time() - asked.days * _DAY if asked.days else 0
    try:
        api = api_of(home)
        query: dict[str, Any] = {"q": asked.words[:200], "limit": asked.limit, "since": since}
        if asked.session is not None:
            query["session"] = find_session(api, asked.session).id
        if asked.platform:
            query["platform"] = asked.platform
        return api.get("/search", list[Found], query)
    except GatewayUnable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_search import stored_found  # noqa: PLC0415 - imports the store

        return stored_found(home, asked, since=since)


def _marked(pieces: list[str]) -> str:
    return "".join(
        click.style(safe(piece), bold=True, fg="green") if number % 2 else safe(piece)
        for number, piece in enumerate(pieces)
    )
