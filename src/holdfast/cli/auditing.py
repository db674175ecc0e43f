"""The audit asked for: of the running gateway or, with none, of the store; and what is printed."""

import difflib
import http.client
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from holdfast.cli.audit_shown import STEADY, Widths, fitting, head, line
from holdfast.cli.common.gateway import api_of
from holdfast.cli.common.names import find_session
from holdfast.cli.common.output import print_json
from holdfast.core.errors import HoldfastError
from holdfast.core.jobs.schedule import BadSchedule
from holdfast.core.jobs.time_words import parse_duration
from holdfast.core.people.audit import kinds
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.audit import AuditPage, AuditVerified, AuditView
from holdfast.server.local.client import GatewayDown, GatewayUnable

_PAGE = 500
_AGAIN = 1.0  # seconds before a gateway that went away is asked again
_SILENCE = 45.0  # an idle stream has a comment every 15 seconds
_READS_ALL = 600.0  # seconds at the most

Asked = dict[str, str | int | float]


def asked(*, kind: str, actor: str, session: str, text: str, since: str) -> Asked:
    """The filter of the API, without what nobody asked for. Raises for a kind that is none: of
    one that is misspelt nothing would be found, which reads as if nothing had happened."""
    if kind and kind not in kinds():
        raise click.UsageError(_no_kind(kind))
    given = {"kind": kind, "actor": actor, "session": session, "text": text}
    wanted: Asked = {name: value for name, value in given.items() if value}
    if since:
        wanted["since"] = time.time() - _ago(since)
    return wanted


def show(home: Path, wanted: Asked, *, lines: int, follow: bool, as_json: bool) -> None:
    wanted = _meant(home, wanted)
    rows = _newest(home, wanted, lines)
    widths = STEADY if follow else fitting(rows)
    if not as_json:
        click.echo(head(widths) if rows or follow else _nothing(wanted))
    _print(rows, widths, as_json=as_json)
    if follow:
        with suppress(KeyboardInterrupt):  # the way to end it
            last = rows[-1].seq if rows else _last(home)
            for more in following(api_of(home), wanted, last):
                _print(more, widths, as_json=as_json)


def verify(home: Path, *, as_json: bool) -> bool:
    """Whether the chain holds, told."""
    try:
        found = api_of(home, timeout=_READS_ALL).get("/audit/verify", AuditVerified)
    except GatewayUnable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_audit import stored_verified  # noqa: PLC0415 - imports the store

        found = stored_verified(home)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        _tell(found)
    return not found.broken


def _tell(found: AuditVerified) -> None:
    for each in found.broken:
        click.echo(click.style(f"{each}.", fg="red"))
    if found.broken:
        click.echo(f"Of {found.rows:,} rows these are not as they were written, or not there.")
        return
    gone = f"; of {found.forgotten:,} the words went with their session" if found.forgotten else ""
    click.echo(f"{found.rows:,} rows hold together, from {found.first} to {found.last}{gone}.")
    click.echo(f"The last hash is {found.head or 'that of nothing'}.")


def _meant(home: Path, wanted: Asked) -> Asked:
    """With the id of the session that was named. What names none is taken for the id of one that
    was deleted: its rows are still there."""
    with suppress(HoldfastError):
        if "session" in wanted:
            found = find_session(api_of(home), str(wanted["session"]))
            return {**wanted, "session": found.id}
    return wanted


def _newest(home: Path, wanted: Asked, lines: int) -> list[AuditView]:
    """The newest last."""
    try:
        page = api_of(home).get("/audit", AuditPage, {**wanted, "limit": lines})
    except GatewayUnable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored_audit import stored_page  # noqa: PLC0415 - imports the store

        page = stored_page(home, wanted, limit=lines)
    return page.rows[::-1]


def _last(home: Path) -> int:
    rows = _newest(home, {}, 1)
    return rows[-1].seq if rows else 0


def following(api: ApiClient, wanted: Asked, last: int) -> Generator[list[AuditView]]:
    """What is added behind a row, each time that the gateway tells of more."""
    wanted = {name: value for name, value in wanted.items() if name != "since"}
    for _ in _grown(api):
        while rows := _behind(api, wanted, last):
            last = rows[-1].seq
            yield rows


def _behind(api: ApiClient, wanted: Asked, last: int) -> list[AuditView]:
    with suppress(GatewayDown):  # it is asked again when it is back
        return api.get("/audit", AuditPage, {**wanted, "after": last, "limit": _PAGE}).rows
    return []


def _grown(api: ApiClient) -> Iterator[None]:
    """Once for each connection, and whenever the gateway says that the audit has more rows."""
    while True:
        with suppress(GatewayDown, OSError, http.client.HTTPException):
            connection, response = api.begin("GET", "/events", timeout=_SILENCE)
            try:
                yield
                while text := response.readline():
                    if text.strip() == b"event: audit":
                        yield
            finally:
                connection.close()
        time.sleep(_AGAIN)


def _print(rows: list[AuditView], widths: Widths, *, as_json: bool) -> None:
    for row in rows:
        click.echo(msgspec.json.encode(row) if as_json else line(row, widths))


def _nothing(wanted: Asked) -> str:
    if wanted:
        return "Nothing in the audit is like that."
    return "The audit is empty: nobody has asked for anything yet that leaves a row."


def _no_kind(kind: str) -> str:
    near = difflib.get_close_matches(kind, kinds(), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"There is no kind {kind!r}.{hint} There are: {', '.join(kinds())}."


def _ago(since: str) -> int:
    try:
        return parse_duration(since)
    except BadSchedule:
        told = f"--since: {since!r} is no span of time; write 20m, 2h or '3 days'."
        raise click.UsageError(told) from None
