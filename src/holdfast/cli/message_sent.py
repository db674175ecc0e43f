"""A message as the command line sends it: its file handed in first, its receipt waited for."""

import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec

from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import print_json
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.outbox import DeliveryState
from holdfast.gateway.outbound.files import MAX_FILE_BYTES
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.sending_views import DeliveryView, OutgoingFileView, SendParams

_UPLOAD_TIMEOUT = 60.0  # seconds that the disk may take with so much


def send_message(
    api: ApiClient, to: str, text: str | None, given: Mapping[str, object], *, as_json: bool
) -> None:
    words = _replace_surrogates(_read_stdin() if text == "-" else text or "")
    path = given["path"]
    if not words.strip() and path is None:
        raise click.UsageError("There is nothing to send: give TEXT, --file, or both.")
    wanted = SendParams(
        to=_replace_surrogates(to),
        text=words,
        account=_replace_surrogates(str(given["account"])),
        thread=_replace_surrogates(str(given["thread"])),
        file="" if path is None else _upload_file(api, Path(str(path))),
        key=str(given["key"]),
    )
    delivery = api.post("/send", wanted, DeliveryView)
    if isinstance(wait := given["wait"], float) and wait:
        delivery = api.get(
            f"/deliveries/{delivery.id}", DeliveryView, {"wait": wait}, extra_timeout=wait
        )
    _print_delivery(delivery, waited=wait is not None, as_json=as_json)


def _read_stdin() -> str:
    """Without the line's end that every program writes."""
    return sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")


def _replace_surrogates(text: str) -> str:
    """What the shell gave may be no text; what is sent is."""
    return text.encode("utf-8", "replace").decode()


def _upload_file(api: ApiClient, path: Path) -> str:
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise HoldfastError(
            f"{path} has {size / 2**20:.0f} MB, and a message takes {MAX_FILE_BYTES // 2**20} at the "
            "most: put it where people can fetch it, and send the address."
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
    name, chat, why = delivery.id, sanitize(delivery.to), sanitize(delivery.error)
    if delivery.state is DeliveryState.SENT:
        return f"Sent to {chat}: {name}."
    if delivery.state is DeliveryState.FAILED:
        return f"Not sent to {chat}: {name}. {why}"
    if delivery.state is DeliveryState.UNKNOWN:
        return f"Nobody knows whether it has reached {chat}: {name}. {why}"
    late = f" It has not arrived yet. {why}".rstrip() if waited else ""
    return f"On its way to {chat}: {name}.{late}"
