"""Searching: asked of the running gateway or, with none, of the store; and what is printed."""

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.common.gateway import api_client_for
from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.names import find_session
from holdfast.cli.common.output import format_time, print_json
from holdfast.server.api.views.search_views import SearchHitView, SearchIndexView
from holdfast.server.local.client import GatewayDown, GatewayStoreUnavailable

_REBUILD_TIMEOUT = 600.0  # seconds at the most: a long history is read from its beginning
_DAY = 86400.0


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    words: str
    limit: int
    session: str | None
    platform: str
    days: float


def print_results(home: Path, request: SearchRequest, *, as_json: bool) -> None:
    found = _fetch_results(home, request)
    if as_json:
        print_json({"found": msgspec.to_builtins(found)})
        return
    if not found:
        click.echo("Nothing was found.")
    for each in found:
        title = sanitize(each.session.title or "untitled")
        click.echo(click.style(f"{each.session.id} · {title} · {format_time(each.at)}", bold=True))
        click.echo(f"  {each.role}: {_highlight(each.parts)}")


def rebuild_index(home: Path, *, as_json: bool) -> None:
    try:
        api = api_client_for(home, timeout=_REBUILD_TIMEOUT)
        state = api.post("/search/rebuild", {}, SearchIndexView)
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_search import rebuild_stored_index  # noqa: PLC0415 - imports the store

        state = rebuild_stored_index(home)
    if as_json:
        print_json(msgspec.to_builtins(state))
    else:
        click.echo(f"The search index was made anew: {state.messages} messages.")


def _fetch_results(home: Path, request: SearchRequest) -> list[SearchHitView]:
    since = time.time() - request.days * _DAY if request.days else 0
    try:
        api = api_client_for(home)
        query: dict[str, Any] = {"q": request.words[:200], "limit": request.limit, "since": since}
        if request.session is not None:
            query["session"] = find_session(api, request.session).id
        if request.platform:
            query["platform"] = request.platform
        return api.get("/search", list[SearchHitView], query)
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_search import search_stored_messages  # noqa: PLC0415 - imports the store

        return search_stored_messages(home, request, since=since)


def _highlight(pieces: list[str]) -> str:
    return "".join(
        click.style(sanitize(piece), bold=True, fg="green") if number % 2 else sanitize(piece)
        for number, piece in enumerate(pieces)
    )
