"""`holdfast pairing`: lists requests and paired users; approves, denies and revokes them."""

import time
from typing import Any

import click
import msgspec

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option, print_json, print_table, sanitize
from holdfast.core.text.locale_format import format_duration, format_time
from holdfast.core.text.translation import _
from holdfast.server.api.views.pairing import PairedUserView, PairingRequestView, PairingView
from holdfast.server.local.control_client import ControlClient
from holdfast.system.paths import Paths


@click.group("pairing")
@home_option
def command() -> None:
    """Pair users who wrote to a bot and are not in its allow list.

    They get a code in their chat and send it to you. The code proves who you approve; a display
    name does not. Needs a running gateway.

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
    """List pairing requests and paired users."""
    print_pairing(ControlClient(Paths(chosen_home())).get("/pairing"), as_json=as_json)


@command.command("approve")
@home_option
@json_option
@click.argument("code", nargs=-1, required=True)
def approve(as_json: bool, code: tuple[str, ...]) -> None:
    """Approve the user who has this code. The user is notified."""
    _decide("approve", {"code": " ".join(code)}, as_json=as_json)


@command.command("deny")
@home_option
@json_option
@click.argument("user")
def deny(as_json: bool, user: str) -> None:
    """Deny a request. The user is not notified, and gets no other code for an hour.

    USER is PLATFORM:ACCOUNT:USER, or the user id alone if it is unique.
    """
    _decide("deny", {"who": user}, as_json=as_json)


@command.command("revoke")
@home_option
@json_option
@click.argument("user")
def revoke(as_json: bool, user: str) -> None:
    """Revoke the access of a paired user.

    USER is PLATFORM:ACCOUNT:USER, or the user id alone if it is unique.
    """
    _decide("revoke", {"who": user}, as_json=as_json)


def _decide(verb: str, body: dict[str, str], *, as_json: bool) -> None:
    decision = ControlClient(Paths(chosen_home())).post(f"/pairing/{verb}", body)
    print_decision(decision, as_json=as_json)


def print_pairing(document: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    pairing = msgspec.convert(document, PairingView)
    if pairing.locked_until is not None:
        left = format_duration(max(0.0, pairing.locked_until - time.time()))
        click.echo(
            _("No code is accepted for {time}, because there were too many wrong ones.").format(
                time=left
            )
        )
    if pairing.requests:
        print_table(
            [_("REQUEST FROM"), _("NAME"), _("SINCE"), _("EXPIRES IN")],
            [_request_row(each) for each in pairing.requests],
        )
        click.echo(_("Ask the user for the code, then run `holdfast pairing approve CODE`."))
    else:
        click.echo(
            _(
                "No pairing requests. A user who writes to a bot privately and is not in its allow "
                "list gets a code."
            )
        )
    if pairing.users:
        print_table(
            [_("PAIRED USER"), _("NAME"), _("SINCE"), _("APPROVED BY")],
            [_paired_row(each) for each in pairing.users],
        )


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
