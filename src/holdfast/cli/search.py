"""`holdfast search`: full-text search over all conversations, through the gateway or the store."""

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.common.connection import find_session, query_api
from holdfast.cli.common.options import chosen_home, complete_session, home_option
from holdfast.cli.common.output import json_option, print_json, sanitize
from holdfast.core.text.locale_format import format_time
from holdfast.core.text.translation import _, _n
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.gateway import SearchHitView, SearchIndexView


@click.command("search")
@home_option
@json_option
@click.argument("words", nargs=-1)
@click.option(
    "--limit",
    type=click.IntRange(1, 200),
    default=20,
    show_default=True,
    help="Print at most this many messages.",
)
@click.option(
    "--session",
    metavar="NAME-OR-ID",
    help="Search only this session.",
    shell_complete=complete_session,
)
@click.option("--platform", default="", help="Search only this platform.")
@click.option(
    "--days", type=click.FloatRange(0), default=0, help="Search only the last this many days."
)
@click.option("--rebuild", is_flag=True, help="Rebuild the search index first.")
def command(
    words: tuple[str, ...],
    limit: int,
    session: str | None,
    platform: str,
    days: float,
    rebuild: bool,
    as_json: bool,
) -> None:
    """Find the messages that contain all of WORDS.

    The beginning of a word is enough. "Quoted words" must follow each other; a minus before a
    word excludes it (put `--` before the first such word). If no gateway is running, the database
    is searched directly.

    \b
    Examples:
      holdfast search disk full
      holdfast search --days 7 '"disk full"'
      holdfast search -- disk -backup
    """
    if not words and not rebuild:
        raise click.UsageError(_("Nothing to search for: give WORDS, --rebuild, or both."))
    home = chosen_home()
    if rebuild:
        rebuild_index(home, as_json=as_json and not words)
    if words:
        asked: SearchRequest = SearchRequest(
            words=" ".join(words), limit=limit, session=session, platform=platform, days=days
        )
        print_results(home, asked, as_json=as_json)


_PURPOSE = "holdfast search"
REBUILD_TIMEOUT = 600.0  # seconds: every message ever stored is read
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
        click.echo(_("No message found."))
    for each in found:
        title = sanitize(each.session.title or _("untitled"))
        click.echo(click.style(f"{each.session.id} · {title} · {format_time(each.at)}", bold=True))
        click.echo(f"  {each.role}: {_highlight(each.parts)}")


def rebuild_index(home: Path, *, as_json: bool) -> None:
    state = query_api(home, request_rebuild, purpose=_PURPOSE, timeout=REBUILD_TIMEOUT)
    if as_json:
        print_json(msgspec.to_builtins(state))
    else:
        click.echo(
            _n(
                "Search index rebuilt: {n} message.",
                "Search index rebuilt: {n} messages.",
                state.messages,
            ).format(n=state.messages)
        )


def request_rebuild(api: ApiClient) -> SearchIndexView:
    return api.post("/search/rebuild", {}, SearchIndexView)


def _fetch_results(home: Path, request: SearchRequest) -> list[SearchHitView]:
    since = time.time() - request.days * _DAY if request.days else 0

    def fetch(api: ApiClient) -> list[SearchHitView]:
        query: dict[str, Any] = {"q": request.words[:200], "limit": request.limit, "since": since}
        if request.session is not None:
            query["session"] = find_session(api, request.session).id
        if request.platform:
            query["platform"] = request.platform
        return api.get("/search", list[SearchHitView], query)

    return query_api(home, fetch, purpose=_PURPOSE)


def _highlight(pieces: list[str]) -> str:
    return "".join(
        click.style(sanitize(piece), bold=True, fg="green") if number % 2 else sanitize(piece)
        for number, piece in enumerate(pieces)
    )
