"""Pairing as the command line shows it."""

import time
from typing import Any

import click
import msgspec

from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import format_duration, format_time, print_json, print_table
from holdfast.server.api.views.pairing import PairedUserView, PairingRequestView, PairingView

_NO_REQUESTS = (
    "Nobody waits to be let in. Whoever writes to a bot privately and is not in its allow list "
    "gets a code."
)
_REQUEST_HEADERS = ["WAITS", "CALLS THEMSELVES", "SINCE", "LEFT"]
_PAIRED_HEADERS = ["LET IN", "CALLS THEMSELVES", "SINCE", "BY"]


def print_pairing(document: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    pairing = msgspec.convert(document, PairingView)
    if pairing.locked_until is not None:
        left = format_duration(max(0.0, pairing.locked_until - time.time()))
        click.echo(f"No code is taken for {left}: too many wrong ones were tried.")
    if pairing.requests:
        print_table(_REQUEST_HEADERS, [_request_row(each) for each in pairing.requests])
        click.echo("`holdfast pairing approve CODE` lets in whose code it is: ask them for it.")
    else:
        click.echo(_NO_REQUESTS)
    if pairing.users:
        print_table(_PAIRED_HEADERS, [_paired_row(each) for each in pairing.users])


def _request_row(request: PairingRequestView) -> list[str]:
    left = format_duration(max(0.0, request.expires_at - time.time()))
    return [
        sanitize(request.principal),
        sanitize(request.user_name or ""),
        format_time(request.asked_at),
        left,
    ]


def _paired_row(user: PairedUserView) -> list[str]:
    by = sanitize(user.approved_by)
    return [sanitize(user.principal), sanitize(user.user_name or ""), format_time(user.since), by]


def print_decision(decision: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(decision)
    else:
        click.echo(sanitize(str(decision["told"])))
