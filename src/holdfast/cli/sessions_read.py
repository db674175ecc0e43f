"""Sessions read: listed and shown, by the running gateway or, with none, from its store."""

from pathlib import Path
from urllib.parse import quote

import click
import msgspec

from holdfast.cli.chat.steps import folded
from holdfast.cli.common.harmless import safe
from holdfast.cli.common.names import find_session
from holdfast.cli.common.output import moment, print_facts, print_json, print_table
from holdfast.core.messages.message import AssistantMessage, ToolMessage
from holdfast.server.api.views.session_views import (
    RecordView,
    SessionDetail,
    SessionList,
    SessionView,
    Transcript,
    TurnView,
)
from holdfast.server.local.client import GatewayDown, GatewayUnable

_PAGE = 1000


def print_list(home: Path, *, limit: int, offset: int, children: bool, as_json: bool) -> None:
    listed = _list(home, limit=limit, offset=offset, children=children)
    if as_json:
        print_json(msgspec.to_builtins(listed))
    elif not listed.sessions:
        click.echo("No sessions." if offset == 0 else "No more sessions.")
    else:
        # The title before the chat, whose name is long: it is what a person knows it by.
        headers = ("SESSION", "ACTIVE", "STATE", "TITLE", "MESSAGES", "CHAT")
        print_table(headers, [*map(_row, listed.sessions)])


def print_session(home: Path, name: str, *, as_json: bool) -> None:
    detail = _whole(home, name)
    if as_json:
        print_json(msgspec.to_builtins(detail))
        return
    session = detail.session
    print_facts(
        [
            ("session", session.id),
            ("chat", _chat(session)),
            ("opened", moment(session.created_at)),
            ("active", moment(session.active_at)),
            ("turns", _turns(detail.turns)),
        ]
    )
    for record in detail.records:
        click.echo()
        _tell_record(record)


def _list(home: Path, *, limit: int, offset: int, children: bool) -> SessionList:
    from holdfast.cli.common.gateway import api_of  # noqa: PLC0415 - a module beside this one

    try:
        asked: dict[str, str | int] = {"limit": limit, "offset": offset}
        if children:
            asked["children"] = "true"
        return api_of(home).get("/sessions", SessionList, asked)
    except GatewayUnable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored import stored_sessions  # noqa: PLC0415 - imports the store

        return stored_sessions(home, limit=limit, offset=offset, children=children)


def _whole(home: Path, name: str) -> SessionDetail:
    """The session with all of its records."""
    from holdfast.cli.common.gateway import api_of  # noqa: PLC0415 - a module beside this one

    try:
        api = api_of(home)
        detail = api.session(find_session(api, name).id, limit=_PAGE)
        path = f"/sessions/{quote(detail.session.id, safe='')}/transcript"
        while detail.more:
            query = {"before": detail.records[0].seq, "limit": _PAGE}
            page = api.get(path, Transcript, query)
            detail = msgspec.structs.replace(
                detail, records=page.records + detail.records, more=page.more
            )
        return detail
    except GatewayUnable:
        raise
    except GatewayDown:
        from holdfast.cli.common.stored import stored_session  # noqa: PLC0415 - imports the store

        return stored_session(home, name)


def _row(session: SessionView) -> tuple[str, ...]:
    return (
        session.id,
        moment(session.active_at),
        session.state if session.current else "over",
        safe(session.title),
        str(session.messages),
        _chat(session),
    )


def _chat(session: SessionView) -> str:
    return f"{session.platform}:{safe(session.chat)}"


def _turns(turns: list[TurnView]) -> str:
    states = [turn.state for turn in turns]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return counted or "none"


def _tell_record(record: RecordView) -> None:
    message = record.message
    kind = type(message).__name__.removesuffix("Message").lower()
    who = f"{kind} {message.name} ({message.outcome})" if isinstance(message, ToolMessage) else kind
    click.echo(click.style(f"{who} · {moment(record.at)}", bold=True))
    if message.text:
        click.echo(safe(message.text))
    for call in message.calls if isinstance(message, AssistantMessage) else ():
        click.echo(click.style(safe(folded(call.name, call.arguments)), dim=True))
