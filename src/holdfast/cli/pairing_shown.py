"""Pairing as the command line shows it."""

import time
from typing import Any

import click
import msgspec

from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import duration, moment, print_json, print_table
from holdfast.server.api.views.pairing import PairingView, PersonView, RequestView

_NOBODY = (
    "Nobody waits to be let in. Whoever writes to a bot privately and is not in its allow list "
    "gets a code."
)
_WAITING = ["WAITS", "CALLS THEMSELVES", "SINCE", "LEFT"]
_LET_IN = ["LET IN", "CALLS THEMSELVES", "SINCE", "BY"]


def print_pairing(document: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    pairing = msgspec.convert(document, PairingView)
    if pairing.locked_until is not None:
        left = duration(max(0.0, pairing.locked_until - time.time()))
        click.echo(f"No code is taken for {left}: too many wrong ones were tried.")
    if pairing.requests:
        print_table(_WAITING, [_waiting(each) for each in pairing.requests])
        click.echo("`holdfast pairing approve CODE` lets in whose code it is: ask them for it.")
    else:
        click.echo(_NOBODY)
    if pairing.people:
        print_table(_LET_IN, [_let_in(each) for each in pairing.people])


def _waiting(each: RequestView) -> list[str]:
    left = duration(max(0.0, each.expires_at - time.time()))
    return [safe(each.principal), safe(each.user_name or ""), moment(each.asked_at), left]


def _let_in(each: PersonView) -> list[str]:
    by = safe(each.let_in_by)
    return [safe(each.principal), safe(each.user_name or ""), moment(each.since), by]


def print_decided(told: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(told)
    else:
        click.echo(safe(str(told["told"])))
