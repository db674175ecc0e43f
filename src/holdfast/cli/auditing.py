"""The audit asked for: of the running gateway or, with none, of the store; and what is printed."""

import difflib
import http.client
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from holdfast.cli.audit_shown import (
    FOLLOW_WIDTHS,
    ColumnWidths,
    fit_widths,
    format_header,
    format_row,
)
from holdfast.cli.common.gateway import api_client_for
from holdfast.cli.common.names import find_session
from holdfast.cli.common.output import print_json
from holdfast.core.errors import HoldfastError
from holdfast.core.jobs.schedule import InvalidSchedule
from holdfast.core.jobs.time_words import parse_duration
from holdfast.core.people.audit import audit_kinds
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.audit import AuditPage, AuditVerificationView, AuditView
from holdfast.server.local.client import GatewayDown, GatewayStoreUnavailable

_PAGE_SIZE = 500
_RECONNECT_DELAY = 1.0  # seconds before a gateway that went away is asked again
_STREAM_TIMEOUT = 45.0  # an idle stream has a comment every 15 seconds
_VERIFY_TIMEOUT = 600.0  # seconds at the most

AuditQueryParams = dict[str, str | int | float]


def build_query(*, kind: str, actor: str, session: str, text: str, since: str) -> AuditQueryParams:
    """The filter of the API, without what nobody asked for. Raises for a kind that is none: of
    one that is misspelt nothing would be found, which reads as if nothing had happened."""
    if kind and kind not in audit_kinds():
        raise click.UsageError(_unknown_kind_text(kind))
    given = {"kind": kind, "actor": actor, "session": session, "text": text}
    wanted: AuditQueryParams = {name: value for name, value in given.items() if value}
    if since:
        wanted["since"] = time.time() - _parse_since(since)
    return wanted


def print_audit(
    home: Path, query: AuditQueryParams, *, lines: int, follow: bool, as_json: bool
) -> None:
    query = _resolve_session(home, query)
    rows = _fetch_newest(home, query, lines)
    widths = FOLLOW_WIDTHS if follow else fit_widths(rows)
    if not as_json:
        click.echo(format_header(widths) if rows or follow else _empty_text(query))
    _print_rows(rows, widths, as_json=as_json)
    if follow:
        with suppress(KeyboardInterrupt):  # the way to end it
            last = rows[-1].seq if rows else _last_seq(home)
            for more in follow_rows(api_client_for(home), query, last):
                _print_rows(more, widths, as_json=as_json)


def verify_audit(home: Path, *, as_json: bool) -> bool:
    """Whether the chain holds, told."""
    try:
        found = api_client_for(home, timeout=_VERIFY_TIMEOUT).get(
            "/audit/verify", AuditVerificationView
        )
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_audit import verify_stored_audit  # noqa: PLC0415 - imports the store

        found = verify_stored_audit(home)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        _print_verification(found)
    return not found.broken


def _print_verification(found: AuditVerificationView) -> None:
    for each in found.broken:
        click.echo(click.style(f"{each}.", fg="red"))
    if found.broken:
        click.echo(f"Of {found.rows:,} rows these are not as they were written, or not there.")
        return
    gone = (
        f"; of {found.texts_deleted:,} the words went with their session"
        if found.texts_deleted
        else ""
    )
    click.echo(f"{found.rows:,} rows hold together, from {found.first} to {found.last}{gone}.")
    click.echo(f"The last hash is {found.head or 'that of nothing'}.")


def _resolve_session(home: Path, query: AuditQueryParams) -> AuditQueryParams:
    """With the id of the session that was named. What names none is taken for the id of one that
    was deleted: its rows are still there."""
    with suppress(HoldfastError):
        if "session" in query:
            found = find_session(api_client_for(home), str(query["session"]))
            return {**query, "session": found.id}
    return query


def _fetch_newest(home: Path, query: AuditQueryParams, lines: int) -> list[AuditView]:
    """The newest last."""
    try:
        page = api_client_for(home).get("/audit", AuditPage, {**query, "limit": lines})
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_audit import read_stored_audit  # noqa: PLC0415 - imports the store

        page = read_stored_audit(home, query, limit=lines)
    return page.rows[::-1]


def _last_seq(home: Path) -> int:
    rows = _fetch_newest(home, {}, 1)
    return rows[-1].seq if rows else 0


def follow_rows(api: ApiClient, query: AuditQueryParams, last: int) -> Generator[list[AuditView]]:
    """What is added behind a row, each time that the gateway tells of more."""
    query = {name: value for name, value in query.items() if name != "since"}
    for _ in _audit_changes(api):
        while rows := _fetch_after(api, query, last):
            last = rows[-1].seq
            yield rows


def _fetch_after(api: ApiClient, query: AuditQueryParams, last: int) -> list[AuditView]:
    with suppress(GatewayDown):  # it is asked again when it is back
        return api.get("/audit", AuditPage, {**query, "after": last, "limit": _PAGE_SIZE}).rows
    return []


def _audit_changes(api: ApiClient) -> Iterator[None]:
    """Once for each connection, and whenever the gateway says that the audit has more rows."""
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
        return "Nothing in the audit is like that."
    return "The audit is empty: nobody has asked for anything yet that leaves a row."


def _unknown_kind_text(kind: str) -> str:
    near = difflib.get_close_matches(kind, audit_kinds(), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"There is no kind {kind!r}.{hint} There are: {', '.join(audit_kinds())}."


def _parse_since(since: str) -> int:
    try:
        return parse_duration(since)
    except InvalidSchedule:
        told = f"--since: {since!r} is no span of time; write 20m, 2h or '3 days'."
        raise click.UsageError(told) from None
