"""Sessions taken out of a gateway, put into one, and deleted."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO
from urllib.parse import quote

import click
import msgspec

from holdfast.cli.common.confirming import confirm
from holdfast.cli.common.names import find_session
from holdfast.cli.common.output import print_json
from holdfast.core.errors import HoldfastError
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.session_views import SessionView

_JSON_LINES = "application/x-ndjson"


def export_transcript(api: ApiClient, name: str, *, output: str | None) -> None:
    session = find_session(api, name)
    with open_output(output) as file:
        for piece in api.stream_bytes(f"/sessions/{quote(session.id, safe='')}/export"):
            file.write(piece)
    if output is not None:
        click.echo(f"{session.id} is in {output}.", err=True)


def import_transcript(api: ApiClient, lines: bytes, *, as_json: bool) -> None:
    if not lines.strip():
        raise HoldfastError("There is nothing to import; `holdfast sessions export` writes it.")
    answer = api.request("POST", "/sessions/import", lines, content_type=_JSON_LINES)
    session = msgspec.json.decode(answer, type=SessionView)
    if as_json:
        print_json(msgspec.to_builtins(session))
    else:
        click.echo(f"{session.id}: {session.messages} messages, {session.title!r}")


def delete_by_name(api: ApiClient, names: tuple[str, ...], *, yes: bool) -> None:
    sessions = [find_session(api, name) for name in names]
    for session in sessions:
        if not yes:
            question = f"Delete {session.id} ({session.messages} messages, {session.title!r})?"
            confirm(question)
        api.request("DELETE", f"/sessions/{quote(session.id, safe='')}")
        click.echo(f"{session.id} is deleted.")


@contextmanager
def open_output(output: str | None) -> Iterator[BinaryIO]:
    """Where an export goes; a file is for its owner alone, and is whole or not there."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise HoldfastError(f"{output} exists already; remove it or name another.") from None
    except OSError as error:
        raise HoldfastError(f"{output} cannot be written: {error.strerror}") from None
    try:
        with open(fd, "wb") as file:
            yield file
    except BaseException:
        os.unlink(output)
        raise
