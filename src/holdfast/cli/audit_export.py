"""Exporting the audit: from the running gateway or, with none, from the store."""

from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from holdfast.cli.common.gateway import api_of
from holdfast.cli.sessions_moved import destination
from holdfast.core.people.audit import AuditRow
from holdfast.core.people.audit_csv import HEAD, csv_line
from holdfast.server.local.client import GatewayDown, GatewayUnable


def export(home: Path, *, as_format: str, output: str | None) -> None:
    with destination(output) as file:
        _write(home, as_format, file)
    if output is not None:
        click.echo(f"The audit is in {output}.", err=True)


def _write(home: Path, as_format: str, file: BinaryIO) -> None:
    try:
        pieces = api_of(home).pieces(f"/audit/export?format={as_format}")
        first = next(pieces, b"")
    except GatewayUnable:
        raise
    except GatewayDown:
        _write_stored(home, as_format, file)
        return
    file.write(first)
    for piece in pieces:
        file.write(piece)


def _write_stored(home: Path, as_format: str, file: BinaryIO) -> None:
    from holdfast.cli.common.stored_audit import stored_export  # noqa: PLC0415 - imports the store
    from holdfast.server.api.views.audit import audit_view  # noqa: PLC0415 - as above

    def write(rows: list[AuditRow]) -> None:
        for row in rows:
            if as_format == "csv":
                file.write(csv_line(row).encode())
            else:
                file.write(msgspec.json.encode(audit_view(row)) + b"\n")

    if as_format == "csv":
        file.write(HEAD.encode())
    stored_export(home, as_format=as_format, write=write)
