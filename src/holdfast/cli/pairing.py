"""`holdfast pairing`: lists pairing requests and paired users; approves, denies and revokes them."""

import time
from typing import Any

import click
import msgspec

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import (
    format_duration,
    format_time,
    json_option,
    print_json,
    print_table,
    sanitize,
)
from holdfast.server.api.views.pairing import PairedUserView, PairingRequestView, PairingView


@click.group("pairing")
@home_option
def command() -> None:
    """Let people in who wrote to a bot and are not in its allow list.

    They have got a code in their chat, and tell it to you: that is how you know who it is that
    you let in, whatever they call themselves. The running gateway is asked.

    \b
    Examples:
      holdfast pairing list
      holdfast pairing approve WX7K-2MPD
      holdfast pairing revoke telegram:default:12345
    """


@command.command("list")
@home_option
@json_option
def list_pairing(as_json: bool) -> None:
    """Who waits with a code, and who was let in."""
    from holdfast.server.local.control_client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    print_pairing(ControlClient(Paths(chosen_home())).get("/pairing"), as_json=as_json)


@command.command("approve")
@home_option
@json_option
@click.argument("code", nargs=-1, required=True)
def approve(as_json: bool, code: tuple[str, ...]) -> None:
    """Let in whoever has this code. They are told."""
    _decide("approve", {"code": " ".join(code)}, as_json=as_json)


@command.command("deny")
@home_option
@json_option
@click.argument("who")
def deny(as_json: bool, who: str) -> None:
    """Do not let somebody in. They hear nothing, and get no other code for an hour.

    WHO is platform:account:user, or the id of the person where that is enough.
    """
    _decide("deny", {"who": who}, as_json=as_json)


@command.command("revoke")
@home_option
@json_option
@click.argument("who")
def revoke(as_json: bool, who: str) -> None:
    """Send somebody away who was let in.

    WHO is platform:account:user, or the id of the person where that is enough.
    """
    _decide("revoke", {"who": who}, as_json=as_json)


def _decide(verb: str, body: dict[str, str], *, as_json: bool) -> None:
    from holdfast.server.local.control_client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    told = ControlClient(Paths(chosen_home())).post(f"/pairing/{verb}", body)
    print_decision(told, as_json=as_json)


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
        click.echo(sanitize(str(decision["message"])))
