"""`holdfast sessions`: lists, shows, follows, exports, imports and deletes conversations."""

from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import click
import msgspec

from holdfast.cli.chat.screen import format_call, outcome_text
from holdfast.cli.common.connection import api_client_for, find_session, query_api
from holdfast.cli.common.language import state_text
from holdfast.cli.common.options import chosen_home, complete_session, home_option
from holdfast.cli.common.output import (
    confirm,
    json_option,
    open_output,
    print_fields,
    print_json,
    print_table,
    sanitize,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.source import chat_label
from holdfast.core.messages.transcript import AssistantMessage, ToolMessage
from holdfast.core.text.locale_format import format_time
from holdfast.core.text.translation import _, _n
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.sessions import (
    RecordView,
    SessionDetail,
    SessionList,
    SessionView,
    TranscriptPage,
    TurnView,
)

_NAME_OR_ID = "NAME-OR-ID"


@click.group("sessions")
@home_option
def command() -> None:
    """List, read, follow, export, import or delete conversations.

    Name a session by its id, by the beginning of its id, or by the name that it got by --session.
    If no gateway is running, `list` and `show` read the database directly.

    \b
    Examples:
      holdfast sessions list
      holdfast sessions show ops
      holdfast sessions follow s_0199a
      holdfast sessions export ops -o ops.jsonl
    """


@command.command("list")
@home_option
@json_option
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="List at most this many sessions.",
)
@click.option("--offset", type=click.IntRange(0), default=0, help="Skip this many sessions.")
@click.option("--subagents", is_flag=True, help="Include sessions of subagents.")
def list_sessions(as_json: bool, limit: int, offset: int, subagents: bool) -> None:
    """List conversations, most recently active first."""
    print_sessions(chosen_home(), limit=limit, offset=offset, subagents=subagents, as_json=as_json)


@command.command("show")
@home_option
@json_option
@click.argument("name", metavar=_NAME_OR_ID, shell_complete=complete_session)
def show_session(as_json: bool, name: str) -> None:
    """Show one conversation: its transcript and its turns."""
    print_session(chosen_home(), name, as_json=as_json)


@command.command("follow")
@home_option
@click.argument("name", metavar=_NAME_OR_ID, shell_complete=complete_session)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event.")
def follow_session(name: str, as_json: bool) -> None:
    """Watch a conversation live, read-only, until Ctrl-C."""
    from holdfast.cli.chat.app import follow  # noqa: PLC0415 - the chat is needed here only

    follow(api_client_for(chosen_home()), name, as_json=as_json)


@command.command("export")
@home_option
@click.argument("name", metavar=_NAME_OR_ID, shell_complete=complete_session)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="Write to this new file (mode 0600).  [default: standard output]",
)
def export_session(name: str, output: str | None) -> None:
    """Export a conversation as JSON Lines: first the session, then its records."""
    export_transcript(api_client_for(chosen_home()), name, output=output)


@command.command("import", short_help="Import an exported conversation as a new session.")
@home_option
@json_option
@click.argument("file", type=click.File("rb"), default="-")
def import_session(as_json: bool, file: BinaryIO) -> None:
    """Import an exported conversation as a new session, from FILE or standard input."""
    import_transcript(api_client_for(chosen_home()), file.read(), as_json=as_json)


@command.command("delete")
@home_option
@click.argument(
    "names", metavar=f"{_NAME_OR_ID}...", nargs=-1, required=True, shell_complete=complete_session
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_sessions(names: tuple[str, ...], yes: bool) -> None:
    """Delete conversations permanently, with their files and processes."""
    delete_by_name(api_client_for(chosen_home()), names, yes=yes)


_PURPOSE = "holdfast sessions"
_PAGE_SIZE = 1000


def print_sessions(home: Path, *, limit: int, offset: int, subagents: bool, as_json: bool) -> None:
    listed = _fetch_sessions(home, limit=limit, offset=offset, subagents=subagents)
    if as_json:
        print_json(msgspec.to_builtins(listed))
    elif not listed.sessions:
        click.echo(_("No sessions.") if offset == 0 else _("No more sessions."))
    else:
        # The title comes before the chat, because names of chats are long.
        headers = (
            _("SESSION"),
            _("ACTIVE"),
            _("STATE"),
            _("TITLE"),
            _("MESSAGES"),
            _("CHAT"),
        )
        print_table(headers, [*map(_session_row, listed.sessions)])


def print_session(home: Path, name: str, *, as_json: bool) -> None:
    detail = _fetch_session(home, name)
    if as_json:
        print_json(msgspec.to_builtins(detail))
        return
    session = detail.session
    print_fields(
        [
            (_("session"), session.id),
            (_("chat"), _chat_address(session)),
            (_("created"), format_time(session.created_at)),
            (_("active"), format_time(session.active_at)),
            (_("turns"), _turn_counts(detail.turns)),
        ]
    )
    for record in detail.records:
        click.echo()
        _print_record(record)


def _fetch_sessions(home: Path, *, limit: int, offset: int, subagents: bool) -> SessionList:
    query: dict[str, str | int] = {"limit": limit, "offset": offset}
    if subagents:
        query["subagents"] = "true"
    return query_api(home, lambda api: api.get("/sessions", SessionList, query), purpose=_PURPOSE)


def _fetch_session(home: Path, name: str) -> SessionDetail:
    """The session with all of its records."""

    def fetch(api: ApiClient) -> SessionDetail:
        detail = api.read_session(find_session(api, name).id, limit=_PAGE_SIZE)
        path = f"/sessions/{quote(detail.session.id, safe='')}/transcript"
        while detail.more:
            query = {"before": detail.records[0].seq, "limit": _PAGE_SIZE}
            page = api.get(path, TranscriptPage, query)
            detail = msgspec.structs.replace(
                detail, records=page.records + detail.records, more=page.more
            )
        return detail

    return query_api(home, fetch, purpose=_PURPOSE)


def _session_row(session: SessionView) -> tuple[str, ...]:
    return (
        session.id,
        format_time(session.active_at),
        state_text(session.state) if session.current else _("closed"),
        sanitize(session.title),
        str(session.messages),
        _chat_address(session),
    )


def _chat_address(session: SessionView) -> str:
    name = sanitize(chat_label(session.platform, session.chat))
    return f"{session.platform}:{name}" if name else session.platform


def _turn_counts(turns: list[TurnView]) -> str:
    states = [state_text(turn.state) for turn in turns]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return counted or _("none")


def _print_record(record: RecordView) -> None:
    message = record.message
    kind = type(message).__name__.removesuffix("Message").lower()
    who = f"{kind} {message.name}" if isinstance(message, ToolMessage) else kind
    end = f" · {outcome_text(message)}" if isinstance(message, ToolMessage) else ""
    click.echo(click.style(f"{who}{end} · {format_time(record.at)}", bold=True))
    if message.text:
        click.echo(sanitize(message.text))
    for call in message.calls if isinstance(message, AssistantMessage) else ():
        click.echo(click.style(sanitize(format_call(call.name, call.arguments)), dim=True))


_JSON_LINES = "application/x-ndjson"


def export_transcript(api: ApiClient, name: str, *, output: str | None) -> None:
    session = find_session(api, name)
    with open_output(output) as file:
        for piece in api.stream_bytes(f"/sessions/{quote(session.id, safe='')}/export"):
            file.write(piece)
    if output is not None:
        click.echo(
            _("Exported {session} to {file}.").format(session=session.id, file=output), err=True
        )


def import_transcript(api: ApiClient, lines: bytes, *, as_json: bool) -> None:
    if not lines.strip():
        raise HoldfastError(
            "The input is empty. Import a file that `holdfast sessions export` wrote."
        )
    answer = api.request("POST", "/sessions/import", lines, content_type=_JSON_LINES)
    session = msgspec.json.decode(answer, type=SessionView)
    if as_json:
        print_json(msgspec.to_builtins(session))
    else:
        click.echo(
            _n(
                "Imported {session}: {n} message, {title!r}.",
                "Imported {session}: {n} messages, {title!r}.",
                session.messages,
            ).format(session=session.id, n=session.messages, title=session.title)
        )


def delete_by_name(api: ApiClient, names: tuple[str, ...], *, yes: bool) -> None:
    sessions = [find_session(api, name) for name in names]
    for session in sessions:
        if not yes:
            confirm(
                _n(
                    "Delete {session} ({n} message, {title!r})?",
                    "Delete {session} ({n} messages, {title!r})?",
                    session.messages,
                ).format(session=session.id, n=session.messages, title=session.title)
            )
        api.request("DELETE", f"/sessions/{quote(session.id, safe='')}")
        click.echo(_("Deleted {session}.").format(session=session.id))
