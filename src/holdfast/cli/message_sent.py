"""A message as the command line sends it: its file handed in first, its receipt waited for."""

import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec

from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import print_json
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.outbox import DeliveryState
from holdfast.gateway.outbound.files import LARGEST
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.sending_views import DeliveryView, NewSending, OutgoingFile

_SLOW = 60.0  # seconds that the disk may take with so much


def send(
    api: ApiClient, to: str, text: str | None, given: Mapping[str, object], *, as_json: bool
) -> None:
    words = _sound(_piped() if text == "-" else text or "")
    path = given["path"]
    if not words.strip() and path is None:
        raise click.UsageError("There is nothing to send: give TEXT, --file, or both.")
    wanted = NewSending(
        to=_sound(to),
        text=words,
        account=_sound(str(given["account"])),
        thread=_sound(str(given["thread"])),
        file="" if path is None else _handed_in(api, Path(str(path))),
        key=str(given["key"]),
    )
    delivery = api.post("/send", wanted, DeliveryView)
    if isinstance(wait := given["wait"], float) and wait:
        delivery = api.get(
            f"/deliveries/{delivery.id}", DeliveryView, {"wait": wait}, patience=wait
        )
    _tell(delivery, waited=wait is not None, as_json=as_json)


def _piped() -> str:
    """Without the line's end that every program writes."""
    return sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")


def _sound(text: str) -> str:
    """What the shell gave may be no text; what is sent is."""
    return text.encode("utf-8", "replace").decode()


def _handed_in(api: ApiClient, path: Path) -> str:
    size = path.stat().st_size
    if size > LARGEST:
        raise HoldfastError(
            f"{path} has {size / 2**20:.0f} MB, and a message takes {LARGEST // 2**20} at the "
            "most: put it where people can fetch it, and send the address."
        )
    target = f"/outgoing?{urlencode({'name': path.name})}"
    answer = api.send(
        "POST",
        target,
        path.read_bytes(),
        content_type="application/octet-stream",
        patience=_SLOW,
    )
    return msgspec.json.decode(answer, type=OutgoingFile).file


def _tell(delivery: DeliveryView, *, waited: bool, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(delivery))
    else:
        click.echo(_line(delivery, waited=waited))
    if waited and delivery.state is not DeliveryState.SENT:
        raise SystemExit(1)


def _line(delivery: DeliveryView, *, waited: bool) -> str:
    name, chat, why = delivery.id, safe(delivery.to), safe(delivery.error)
    if delivery.state is DeliveryState.SENT:
        return f"Sent to {chat}: {name}."
    if delivery.state is DeliveryState.FAILED:
        return f"Not sent to {chat}: {name}. {why}"
    if delivery.state is DeliveryState.UNKNOWN:
        return f"Nobody knows whether it has reached {chat}: {name}. {why}"
    late = f" It has not arrived yet. {why}".rstrip() if waited else ""
    return f"On its way to {chat}: {name}.{late}"
