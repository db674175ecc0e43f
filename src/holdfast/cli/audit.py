"""`holdfast audit`: filters, follows, exports and verifies the audit log."""

import difflib
import http.client
import re
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import click
import msgspec
from click.shell_completion import CompletionItem

from holdfast.cli.common.connection import api_client_for, find_session, query_api
from holdfast.cli.common.options import chosen_home, complete_session, home_option
from holdfast.cli.common.output import (
    json_option,
    open_output,
    print_json,
    sanitize,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.jobs.parser import parse_duration
from holdfast.core.jobs.schedule import InvalidSchedule
from holdfast.core.people.audit import audit_kinds
from holdfast.core.text.locale_format import format_time
from holdfast.core.text.translation import N_, _, _n
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.audit import AuditPage, AuditVerificationView, AuditView
from holdfast.server.local.control_client import GatewayDown

_FORMATS = ("jsonl", "csv")


def _complete_kind(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [CompletionItem(each) for each in audit_kinds() if each.startswith(incomplete)]


@click.group("audit", invoke_without_command=True)
@home_option
@json_option
@click.option("-f", "--follow", is_flag=True, help="Keep printing new entries, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Print at most this many entries.",
)
@click.option(
    "--kind",
    default="",
    metavar="KIND",
    shell_complete=_complete_kind,
    help="Only audit entries of this kind: tool, approval.ended …",
)
@click.option(
    "--actor",
    default="",
    metavar="ACTOR",
    help="Only audit entries of actors whose name contains this.",
)
@click.option(
    "--session",
    default="",
    metavar="ID",
    shell_complete=complete_session,
    help="Only audit entries of this session.",
)
@click.option("--text", default="", metavar="TEXT", help="Only audit entries that contain this.")
@click.option(
    "--since", default="", metavar="DURATION", help="Only audit entries of the last 2h, 3 days …"
)
@click.pass_context
def command(
    context: click.Context,
    as_json: bool,
    follow: bool,
    lines: int,
    kind: str,
    actor: str,
    session: str,
    text: str,
    since: str,
) -> None:
    """Read the audit log: who asked, who allowed it, what was done, and the outcome.

    The newest row comes last. Also works without a running gateway.

    \b
    Examples:
      holdfast audit --kind tool --actor alice --since 2h
      holdfast audit --follow
      holdfast audit export --format csv -o audit.csv
      holdfast audit verify
    """
    if context.invoked_subcommand is not None:
        return

    query = build_query(kind=kind, actor=actor, session=session, text=text, since=since)
    print_audit(chosen_home(), query, lines=lines, follow=follow, as_json=as_json)


@command.command("export")
@home_option
@click.option(
    "--format", "as_format", type=click.Choice(_FORMATS), default="jsonl", show_default=True
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write to this new file (mode 0600).  [default: standard output]",
)
def export(as_format: str, output: str | None) -> None:
    """Export all rows, the oldest first. The export itself adds a row.

    \b
      holdfast audit export > audit.jsonl
      holdfast audit export --format csv -o audit.csv
    """

    export_audit(chosen_home(), as_format=as_format, output=output)


@command.command("verify")
@home_option
@json_option
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="SEQ:HASH",
    help="A head that was sent or written down before. Can be given several times.",
)
def verify(as_json: bool, heads: tuple[str, ...]) -> None:
    """Check that no row was changed.

    If a row was changed, removed or inserted, names it and exits with 1. A head from before also
    shows if the end was cut off, or if all rows were rewritten.
    """

    if not verify_audit(chosen_home(), heads=list(map(_parse_head, heads)), as_json=as_json):
        raise SystemExit(1)


_OUTCOME_COLORS = {
    "error": "red",
    "failed": "red",
    "unknown": "yellow",
    "cancelled": "yellow",
    "refused": "magenta",
    "denied": "magenta",
}
_HEADERS = (N_("SEQ"), N_("WHEN"), N_("KIND"), N_("ACTOR"), N_("SUBJECT"), N_("OUTCOME"))
_MAX_WIDTHS = (8, 30, 21, 32, 24, 12)
_TEXT_FIELDS = ("arguments", "command", "text", "title", "words", "why", "keys", "change")
_MAX_DETAIL_WIDTH = 100  # columns


ColumnWidths = tuple[int, ...]


def follow_widths() -> ColumnWidths:
    """The widths for rows that are not known yet."""
    return (6, len(format_time(time.time())), 21, 28, 20, 12)


def fit_widths(rows: Sequence[AuditView]) -> ColumnWidths:
    """The width of each column: as wide as needed, up to its maximum."""
    from rich.cells import cell_len  # noqa: PLC0415 - not for --json

    columns = zip(map(_, _HEADERS), *map(_row_cells, rows), strict=True)
    needed = (max(map(cell_len, column)) for column in columns)
    return tuple(min(most, each) for most, each in zip(_MAX_WIDTHS, needed, strict=True))


def format_header(widths: ColumnWidths) -> str:
    headers = tuple(map(_, _HEADERS))
    return click.style(f"{_join_columns(headers, widths)}  {_('DETAILS')}", bold=True)


def format_row(row: AuditView, widths: ColumnWidths) -> str:
    return click.style(
        f"{_join_columns(_row_cells(row), widths)}  {_detail_text(row)}".rstrip(),
        fg=_OUTCOME_COLORS.get(row.outcome),
    )


def _row_cells(row: AuditView) -> tuple[str, ...]:
    cells = (str(row.seq), format_time(row.at), row.kind, row.actor, row.subject, row.outcome)
    return tuple(map(_single_line, cells))


def _join_columns(cells: tuple[str, ...], widths: ColumnWidths) -> str:
    from holdfast.cli.common.rendering import fit_cell  # noqa: PLC0415 - not for --json

    padded = (fit_cell(cell, width, pad=True) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded)


def _detail_text(row: AuditView) -> str:
    """The text first, then the exit code of a failed command and how it was allowed."""
    from holdfast.cli.common.rendering import fit_cell  # noqa: PLC0415 - not for --json

    text = next((str(row.detail[name]) for name in _TEXT_FIELDS if row.detail.get(name)), "")
    text = (
        _("(deleted with its session)")
        if row.texts_deleted
        else fit_cell(_single_line(text), _MAX_DETAIL_WIDTH)
    )
    code = row.detail.get("exit_code")
    failed = _("exit code {code}").format(code=code) if code else ""
    return "  ".join(filter(None, (text, failed, _single_line(_permission_text(row)))))


def _permission_text(row: AuditView) -> str:
    how, by, scope = (str(row.detail.get(name) or "") for name in ("allowed", "by", "scope"))
    return " ".join(
        filter(
            None,
            (
                how,
                _("by {actor}").format(actor=by) if how and by else "",
                f"({scope})" if scope else "",
            ),
        )
    )


def _single_line(text: str) -> str:
    return " ".join(sanitize(text).split())


_PURPOSE = "holdfast audit"
_PAGE_SIZE = 500
_RECONNECT_DELAY = 1.0  # seconds
_STREAM_TIMEOUT = 45.0  # an idle stream has a comment every 15 seconds
_VERIFY_TIMEOUT = 600.0  # seconds at the most

AuditQueryParams = dict[str, str | int | float]


def build_query(*, kind: str, actor: str, session: str, text: str, since: str) -> AuditQueryParams:
    """The query of the API, without empty filters. Raises for an unknown kind: a misspelt one would
    find nothing, which reads as if nothing had happened."""
    if kind and kind not in audit_kinds():
        raise click.UsageError(_unknown_kind_text(kind))
    given = {"kind": kind, "actor": actor, "session": session, "text": text}
    query: AuditQueryParams = {name: value for name, value in given.items() if value}
    if since:
        query["since"] = time.time() - _parse_since(since)
    return query


def print_audit(
    home: Path, query: AuditQueryParams, *, lines: int, follow: bool, as_json: bool
) -> None:
    query = _resolve_session(home, query)
    rows = _fetch_newest(home, query, lines)
    widths = follow_widths() if follow else fit_widths(rows)
    if not as_json:
        click.echo(format_header(widths) if rows or follow else _empty_text(query))
    _print_rows(rows, widths, as_json=as_json)
    if follow:
        with suppress(KeyboardInterrupt):  # the way to end it
            last = rows[-1].seq if rows else _last_seq(home)
            for more in follow_rows(api_client_for(home), query, last):
                _print_rows(more, widths, as_json=as_json)


def _parse_head(text: str) -> tuple[int, str]:
    seq, colon, digest = text.strip().partition(":")
    if not (colon and seq.isascii() and seq.isdecimal() and re.fullmatch("[0-9a-f]{64}", digest)):
        raise click.UsageError(_("{head!r} is not a head: SEQ:HASH.").format(head=text))
    return int(seq), digest


def verify_audit(home: Path, *, heads: Sequence[tuple[int, str]] = (), as_json: bool) -> bool:
    """Prints the result; True: the hash chain is intact, and contains the given heads."""
    found = query_api(
        home,
        lambda api: api.get("/audit/verify", AuditVerificationView),
        purpose=_PURPOSE,
        timeout=_VERIFY_TIMEOUT,
    )
    problems = [each for head in heads if (each := _head_problem(home, found, *head))]
    found = msgspec.structs.replace(found, broken=[*found.broken, *problems])
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        _print_verification(found)
    return not found.broken


def _head_problem(home: Path, found: AuditVerificationView, seq: int, digest: str) -> str:
    """Why the rows do not continue from that head; "": they do."""
    if seq > found.last:
        return _("row {seq} is missing: the rows end at {last}").format(seq=seq, last=found.last)
    if seq < found.first:
        return _("row {seq} is no longer kept: its head cannot be compared").format(seq=seq)
    page = query_api(
        home,
        lambda api: api.get("/audit", AuditPage, {"before": seq + 1, "limit": 1}),
        purpose=_PURPOSE,
    )
    if page.rows and (page.rows[0].seq, page.rows[0].hash) == (seq, digest):
        return ""
    return _("row {seq} is not the row whose head was sent").format(seq=seq)


def _print_verification(found: AuditVerificationView) -> None:
    for each in found.broken:
        click.echo(click.style(f"{each}.", fg="red"))
    if found.broken:
        text = _n(
            "Of {n:,} row, these were changed or are missing.",
            "Of {n:,} rows, these were changed or are missing.",
            found.rows,
        )
        click.echo(text.format(n=found.rows))
        return
    text = _n(
        "{n:,} row verified, from {first} to {last}.",
        "{n:,} rows verified, from {first} to {last}.",
        found.rows,
    )
    click.echo(text.format(n=found.rows, first=found.first, last=found.last))
    if n := found.texts_deleted:
        text = _n(
            "{n:,} text was deleted with its session.",
            "{n:,} texts were deleted with their sessions.",
            n,
        )
        click.echo(text.format(n=n))
    if found.head:
        click.echo(_("The last hash is {hash}.").format(hash=found.head))
    else:
        click.echo(_("There is no hash yet."))


def _resolve_session(home: Path, query: AuditQueryParams) -> AuditQueryParams:
    """With the id of the named session. An unknown name is taken as the id of a deleted session,
    whose rows still exist."""
    with suppress(HoldfastError):
        if "session" in query:
            found = find_session(api_client_for(home), str(query["session"]))
            return {**query, "session": found.id}
    return query


def _fetch_newest(home: Path, query: AuditQueryParams, lines: int) -> list[AuditView]:
    """The newest last."""
    page = query_api(
        home,
        lambda api: api.get("/audit", AuditPage, {**query, "limit": lines}),
        purpose=_PURPOSE,
    )
    return page.rows[::-1]


def _last_seq(home: Path) -> int:
    rows = _fetch_newest(home, {}, 1)
    return rows[-1].seq if rows else 0


def follow_rows(api: ApiClient, query: AuditQueryParams, last: int) -> Generator[list[AuditView]]:
    """New rows after `last`, each time the gateway reports some."""
    query = {name: value for name, value in query.items() if name != "since"}
    for _change in _audit_changes(api):
        while rows := _fetch_after(api, query, last):
            last = rows[-1].seq
            yield rows


def _fetch_after(api: ApiClient, query: AuditQueryParams, last: int) -> list[AuditView]:
    with suppress(GatewayDown):  # the next attempt follows when it is back
        return api.get("/audit", AuditPage, {**query, "after": last, "limit": _PAGE_SIZE}).rows
    return []


def _audit_changes(api: ApiClient) -> Iterator[None]:
    """Yields once for each connection, and whenever the gateway reports new rows."""
    while True:
        with suppress(GatewayDown, OSError, http.client.HTTPException):
            connection, response = api.open_response("GET", "/events", timeout=_STREAM_TIMEOUT)
            try:
                yield
                while text := response.readline():
                    if text.strip() == b"event: audit":
                        yield
            finally:
                connection.close()
        time.sleep(_RECONNECT_DELAY)


def _print_rows(rows: list[AuditView], widths: ColumnWidths, *, as_json: bool) -> None:
    for row in rows:
        click.echo(msgspec.json.encode(row) if as_json else format_row(row, widths))


def _empty_text(query: AuditQueryParams) -> str:
    if query:
        return _("No row matches.")
    return _("The audit log is empty.")


def _unknown_kind_text(kind: str) -> str:
    kinds = ", ".join(audit_kinds())
    for near in difflib.get_close_matches(kind, audit_kinds(), n=1):
        text = _("There is no kind {kind!r}. Did you mean {near}? The kinds are: {kinds}.")
        return text.format(kind=kind, near=near, kinds=kinds)
    return _("There is no kind {kind!r}. The kinds are: {kinds}.").format(kind=kind, kinds=kinds)


def _parse_since(since: str) -> int:
    try:
        return parse_duration(since)
    except InvalidSchedule:
        text = _("--since: {since!r} is not a duration. Write, for example, 20m, 2h or '3 days'.")
        message = text.format(since=since)
        raise click.UsageError(message) from None


def export_audit(home: Path, *, as_format: str, output: str | None) -> None:
    with open_output(output) as file:
        query_api(home, partial(_write_export, as_format=as_format, file=file), purpose=_PURPOSE)
    if output is not None:
        click.echo(_("The audit log is in {file}.").format(file=output), err=True)


def _write_export(api: ApiClient, *, as_format: str, file: BinaryIO) -> None:
    pieces = api.stream_bytes(f"/audit/export?format={as_format}")
    file.write(next(pieces, b""))
    try:
        for piece in pieces:
            file.write(piece)
    except GatewayDown as error:  # not again from the store: a part is written already
        raise HoldfastError(
            "The export is incomplete; run the command again. {error}", error=error
        ) from None
