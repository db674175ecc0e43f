"""`holdfast send`: sends a message or a file to a chat and can wait for the delivery receipt."""

import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec

from holdfast.cli.common.connection import api_client_for
from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option, print_json, sanitize
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.text.locale_format import format_number
from holdfast.core.text.translation import _
from holdfast.gateway.outbound.files import MAX_FILE_BYTES
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.deliveries import DeliveryView, OutgoingFileView, SendParams


@click.command("send")
@home_option
@json_option
@click.argument("to", metavar="PLATFORM:CHAT")
@click.argument("text", required=False)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    help="Send this file, with TEXT as its caption.",
)
@click.option("--account", default="", help="The account of the platform that sends it.")
@click.option("--thread", default="", help="The thread (topic) of the chat.")
@click.option(
    "--wait",
    type=click.FloatRange(0, 600),
    is_flag=False,
    flag_value=60.0,
    metavar="[SECONDS]",
    help="Wait until the platform confirms it; exits with 1 if it does not.  [default: 60]",
)
@click.option(
    "--key",
    default="",
    help="An idempotency key: messages with the same KEY are sent once.",
)
def command(as_json: bool, to: str, text: str | None, **given: object) -> None:
    """Send TEXT to a chat as the agent; "-" reads TEXT from standard input.

    \b
      holdfast send telegram:12345 "The backup is through."
      holdfast send slack:C0123ABCDEF --file report.pdf --wait
      df -h | holdfast send discord:1234567890 -

    The running gateway sends the message in order with the chat's other messages, and adds it to
    the transcript that the agent of the chat sees. When this command returns, the message is
    stored and survives a restart; the printed id identifies the delivery.
    """
    send_message(api_client_for(chosen_home()), to, text, given, as_json=as_json)


_UPLOAD_TIMEOUT = 60.0  # seconds that the gateway may take to store the file


def send_message(
    api: ApiClient, to: str, text: str | None, given: Mapping[str, object], *, as_json: bool
) -> None:
    words = _replace_surrogates(_read_stdin() if text == "-" else text or "")
    path = given["path"]
    if not words.strip() and path is None:
        raise click.UsageError(_("Nothing to send: give TEXT, --file, or both."))
    params = SendParams(
        to=_replace_surrogates(to),
        text=words,
        account=_replace_surrogates(str(given["account"])),
        thread=_replace_surrogates(str(given["thread"])),
        file="" if path is None else _upload_file(api, Path(str(path))),
        key=str(given["key"]),
    )
    delivery = api.post("/send", params, DeliveryView)
    if isinstance(wait := given["wait"], float) and wait:
        delivery = api.get(
            f"/deliveries/{delivery.id}", DeliveryView, {"wait": wait}, extra_timeout=wait
        )
    _print_delivery(delivery, waited=wait is not None, as_json=as_json)


def _read_stdin() -> str:
    """Without the newline at the end."""
    return sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")


def _replace_surrogates(text: str) -> str:
    """Arguments of the shell may be undecodable; what is sent must be valid text."""
    return text.encode("utf-8", "replace").decode()


def _upload_file(api: ApiClient, path: Path) -> str:
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise HoldfastError(
            "{file} is too large: it has {size} MiB, the limit is {limit} MiB. Upload it to a "
            "server and send its address.",
            file=path,
            size=format_number(size / 2**20),
            limit=MAX_FILE_BYTES // 2**20,
        )
    target = f"/outgoing?{urlencode({'name': path.name})}"
    answer = api.request(
        "POST",
        target,
        path.read_bytes(),
        content_type="application/octet-stream",
        extra_timeout=_UPLOAD_TIMEOUT,
    )
    return msgspec.json.decode(answer, type=OutgoingFileView).file


def _print_delivery(delivery: DeliveryView, *, waited: bool, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(delivery))
    else:
        click.echo(_delivery_text(delivery, waited=waited))
    if waited and delivery.state is not DeliveryState.SENT:
        raise SystemExit(1)


def _delivery_text(delivery: DeliveryView, *, waited: bool) -> str:
    match delivery.state:
        case DeliveryState.SENT:
            text = _("Sent to {chat}: {id}.")
        case DeliveryState.FAILED:
            text = _("Not sent to {chat}: {id}. {error}")
        case DeliveryState.UNKNOWN:
            text = _("Delivery to {chat} is unconfirmed, it may have arrived: {id}. {error}")
        case _ if waited:
            text = _("Queued for {chat}: {id}. It has not been sent yet. {error}")
        case _:
            text = _("Queued for {chat}: {id}.")
    return text.format(
        chat=sanitize(delivery.to), id=delivery.id, error=sanitize(delivery.error)
    ).rstrip()
