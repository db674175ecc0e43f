"""Sessions read: listed and shown, by the running gateway or from its store."""

from pathlib import Path
from typing import Any

import click

from holdfast.cli.output import moment, print_facts, print_json, print_table
from holdfast.control.client import ControlClient, ControlRefused, GatewayDown
from holdfast.core.errors import HoldfastError
from holdfast.service.paths import Paths


def print_list(home: Path, *, limit: int, offset: int, as_json: bool) -> None:
    sessions = _list(home, limit=limit, offset=offset)["sessions"]
    if as_json:
        print_json({"sessions": sessions})
    elif not sessions:
        click.echo("No sessions." if offset == 0 else "No more sessions.")
    else:
        print_table(("SESSION", "ACTIVE", "MESSAGES", "ROUTE", "TITLE"), [*map(_row, sessions)])


def print_session(home: Path, name: str, *, as_json: bool) -> None:
    document = _show(home, name)
    if as_json:
        print_json(document)
        return
    session = document["session"]
    print_facts(
        [
            ("session", session["id"]),
            ("route", session["route"]),
            ("opened", moment(session["created_at"])),
            ("active", moment(session["active_at"])),
            ("turns", _turns(document["turns"])),
        ]
    )
    for record in document["transcript"]:
        click.echo()
        _tell_record(record)


def _list(home: Path, *, limit: int, offset: int) -> dict[str, Any]:
    query = {"limit": limit, "offset": offset}
    try:
        answer: dict[str, Any] = ControlClient(Paths(home)).get("/sessions", query)
    except GatewayDown:
        from holdfast.cli.stored import stored_sessions  # noqa: PLC0415 - imports the store

        return stored_sessions(home, limit=limit, offset=offset)
    return answer


def _show(home: Path, session_id: str) -> dict[str, Any]:
    try:
        answer: dict[str, Any] | None = ControlClient(Paths(home)).get(f"/sessions/{session_id}")
    except ControlRefused as refused:
        if refused.status != 404:
            raise
        answer = None
    except GatewayDown:
        from holdfast.cli.stored import stored_session  # noqa: PLC0415 - imports the store

        answer = stored_session(home, session_id)
    if answer is None:
        raise HoldfastError(f"There is no session {session_id}; `holdfast sessions list` has all.")
    return answer


def _row(session: dict[str, Any]) -> tuple[str, ...]:
    return (
        session["id"],
        moment(session["active_at"]),
        str(session["messages"]),
        session["route"],
        session["title"],
    )


def _turns(turns: list[dict[str, Any]]) -> str:
    states = [turn["state"] for turn in turns]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return counted or "none"


def _tell_record(record: dict[str, Any]) -> None:
    message = record["message"]
    kind = message["type"]
    who = f"{kind} {message['name']}" if kind == "tool" else kind
    click.echo(click.style(f"{who} · {moment(record['created_at'])}", bold=True))
    if text := message.get("text"):
        click.echo(text)
    for call in message.get("calls", ()):
        click.echo(click.style(f"→ {call['name']} {call['arguments']}", dim=True))
