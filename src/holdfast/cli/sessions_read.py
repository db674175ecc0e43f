"""Sessions read: listed and shown, by the running gateway or, with none, from its store."""

from pathlib import Path
from urllib.parse import quote

import click
import msgspec

from holdfast.cli.chat.steps import format_call
from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.names import find_session
from holdfast.cli.common.output import format_time, print_fields, print_json, print_table
from holdfast.core.messages.message import AssistantMessage, ToolMessage
from holdfast.server.api.views.session_views import (
    RecordView,
    SessionDetail,
    SessionList,
    SessionView,
    TranscriptPage,
    TurnView,
)
from holdfast.server.local.client import GatewayDown, GatewayStoreUnavailable

_PAGE_SIZE = 1000


def print_sessions(home: Path, *, limit: int, offset: int, subagents: bool, as_json: bool) -> None:
    listed = _fetch_sessions(home, limit=limit, offset=offset, subagents=subagents)
    if as_json:
        print_json(msgspec.to_builtins(listed))
    elif not listed.sessions:
        click.echo("No sessions." if offset == 0 else "No more sessions.")
    else:
        # The title before the chat, whose name is long: it is what a person knows it by.
        headers = ("SESSION", "ACTIVE", "STATE", "TITLE", "MESSAGES", "CHAT")
        print_table(headers, [*map(_session_row, listed.sessions)])


def print_session(home: Path, name: str, *, as_json: bool) -> None:
    detail = _fetch_session(home, name)
    if as_json:
        print_json(msgspec.to_builtins(detail))
        return
    session = detail.session
    print_fields(
        [
            ("session", session.id),
            ("chat", _chat_address(session)),
            ("opened", format_time(session.created_at)),
            ("active", format_time(session.active_at)),
            ("turns", _turn_counts(detail.turns)),
        ]
    )
    for record in detail.records:
        click.echo()
        _print_record(record)


def _fetch_sessions(home: Path, *, limit: int, offset: int, subagents: bool) -> SessionList:
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - a module beside this one

    try:
        asked: dict[str, str | int] = {"limit": limit, "offset": offset}
        if subagents:
            asked["children"] = "true"
        return api_client_for(home).get("/sessions", SessionList, asked)
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored import read_stored_sessions  # noqa: PLC0415 - imports the store

        return read_stored_sessions(home, limit=limit, offset=offset, subagents=subagents)


def _fetch_session(home: Path, name: str) -> SessionDetail:
    """The session with all of its records."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - a module beside this one

    try:
        api = api_client_for(home)
        detail = api.read_session(find_session(api, name).id, limit=_PAGE_SIZE)
        path = f"/sessions/{quote(detail.session.id, safe='')}/transcript"
        while detail.more:
            query = {"before": detail.records[0].seq, "limit": _PAGE_SIZE}
            page = api.get(path, TranscriptPage, query)
            detail = msgspec.structs.replace(
                detail, records=page.records + detail.records, more=page.more
            )
        return detail
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored import read_stored_session  # noqa: PLC0415 - imports the store

        return read_stored_session(home, name)


def _session_row(session: SessionView) -> tuple[str, ...]:
    return (
        session.id,
        format_time(session.active_at),
        session.state if session.current else "over",
        sanitize(session.title),
        str(session.messages),
        _chat_address(session),
    )


def _chat_address(session: SessionView) -> str:
    return f"{session.platform}:{sanitize(session.chat)}"


def _turn_counts(turns: list[TurnView]) -> str:
    states = [turn.state for turn in turns]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return counted or "none"


def _print_record(record: RecordView) -> None:
    message = record.message
    kind = type(message).__name__.removesuffix("Message").lower()
    who = f"{kind} {message.name} ({message.outcome})" if isinstance(message, ToolMessage) else kind
    click.echo(click.style(f"{who} · {format_time(record.at)}", bold=True))
    if message.text:
        click.echo(sanitize(message.text))
    for call in message.calls if isinstance(message, AssistantMessage) else ():
        click.echo(click.style(sanitize(format_call(call.name, call.arguments)), dim=True))
