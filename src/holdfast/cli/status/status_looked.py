"""One look at a gateway: what it says of itself, or what is known of one that says nothing."""

import time

import msgspec

from holdfast.cli.status.status_shown import shown
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.facts import Document, Level
from holdfast.server.local.status_client import GatewayDown, read_document
from holdfast.system import exits
from holdfast.system.paths import Paths


def look(paths: Paths, *, as_json: bool, indent: int = 0) -> tuple[str, int]:
    """What is to be said, and the exit code for it."""
    try:
        raw = read_document(paths)
    except GatewayDown as down:
        return down_text(paths, down, as_json=as_json, indent=indent), exits.GATEWAY_DOWN
    document = understood(raw)
    text = msgspec.json.format(raw, indent=indent or -1).decode() if as_json else None
    return text or shown(document, now=time.time()), exit_code(document)


def down_text(paths: Paths, down: GatewayDown, *, as_json: bool = False, indent: int = 0) -> str:
    from holdfast.cli.status.down import told_down  # noqa: PLC0415 - may read the store

    return told_down(paths, down, as_json=as_json, indent=indent)


def understood(raw: bytes) -> Document:
    try:
        return msgspec.json.decode(raw, type=Document)
    except msgspec.MsgspecError as error:
        raise HoldfastError(
            f"The gateway answers in a form that this program does not know ({error}); it is of "
            "another version. Restart it, or ask with its own program."
        ) from None


def exit_code(document: Document) -> int:
    """Not for one that wants attention: for one that does not do its work."""
    well = not any(problem.level is Level.PROBLEM for problem in document.problems)
    return exits.OK if well else exits.FAILED
