"""Exporting the audit: from the running gateway or, with none, from the store."""

from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from holdfast.cli.common.gateway import api_client_for
from holdfast.cli.sessions_moved import open_output
from holdfast.core.people.audit import AuditRow
from holdfast.core.people.audit_csv import CSV_HEADER, format_csv_row
from holdfast.server.local.client import GatewayDown, GatewayStoreUnavailable


def export_audit(home: Path, *, as_format: str, output: str | None) -> None:
    with open_output(output) as file:
        _write_export(home, as_format, file)
    if output is not None:
        click.echo(f"The audit is in {output}.", err=True)


def _write_export(home: Path, as_format: str, file: BinaryIO) -> None:
    try:
        pieces = api_client_for(home).stream_bytes(f"/audit/export?format={as_format}")
        first = next(pieces, b"")
    except GatewayStoreUnavailable:
        raise
    except GatewayDown:
        _write_stored_export(home, as_format, file)
        return
    file.write(first)
    for piece in pieces:
        file.write(piece)


def _write_stored_export(home: Path, as_format: str, file: BinaryIO) -> None:
    from holdfast.cli.common.stored_audit import export_stored_audit  # noqa: PLC0415 - imports the store
    from holdfast.server.api.views.audit import audit_view  # noqa: PLC0415 - as above

    def write(rows: list[AuditRow]) -> None:
        for row in rows:
            if as_format == "csv":
                file.write(format_csv_row(row).encode())
            else:
                file.write(msgspec.json.encode(audit_view(row)) + b"\n")

    if as_format == "csv":
        file.write(CSV_HEADER.encode())
    export_stored_audit(home, as_format=as_format, write=write)
