"""`holdfast status`: how the running gateway is, from its own mouth."""

import sys
import time

import click
import msgspec

from holdfast.cli.home import chosen_home, home_option
from holdfast.cli.output import json_option
from holdfast.cli.status_shown import shown
from holdfast.control.status_socket import GatewayDown, read_document
from holdfast.core.errors import HoldfastError
from holdfast.core.facts import Document, Level
from holdfast.service import exits
from holdfast.service.paths import Paths

_EVERY = 1.0  # seconds between two looks of --watch
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"


@click.command("status")
@home_option
@json_option
@click.option("-w", "--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing; the exit code tells.")
def command(as_json: bool, watch: bool, quiet: bool) -> None:
    """Ask the running gateway how it is.

    It is asked over a socket that answers even while the gateway starts, drains or hangs. What
    is wrong comes first. Exits with 0 when one is there and well, 1 when it hangs or cannot do
    its work, 3 when none is running.

    \b
    Examples:
      holdfast status --watch
      holdfast status --json
      holdfast status --quiet || echo "it is not well"
    """
    paths = Paths(chosen_home())
    if watch and not quiet:
        _watch(paths, as_json=as_json)
        return
    text, code = _look(paths, as_json=as_json, indent=2)
    if not quiet:
        click.echo(text, err=code == exits.GATEWAY_DOWN and not as_json)
    sys.exit(code)


def _look(paths: Paths, *, as_json: bool, indent: int = 0) -> tuple[str, int]:
    """What is to be said, and the exit code for it."""
    try:
        raw = read_document(paths)
    except GatewayDown as down:
        from holdfast.cli.status_down import told_down  # noqa: PLC0415 - may read the store

        return told_down(paths, down, as_json=as_json, indent=indent), exits.GATEWAY_DOWN
    document = _understood(raw)
    well = not any(problem.level is Level.PROBLEM for problem in document.problems)
    text = msgspec.json.format(raw, indent=indent or -1).decode() if as_json else None
    return text or shown(document, now=time.time()), exits.OK if well else exits.FAILED


def _understood(raw: bytes) -> Document:
    try:
        return msgspec.json.decode(raw, type=Document)
    except msgspec.MsgspecError as error:
        raise HoldfastError(
            f"The gateway answers in a form that this program does not know ({error}); it is of "
            "another version. Restart it, or ask with its own program."
        ) from None


def _watch(paths: Paths, *, as_json: bool) -> None:
    """The same again every second; a gateway that goes away is waited for."""
    clear = _HOME_AND_CLEAR if sys.stdout.isatty() and not as_json else ""
    try:
        while True:
            text, _ = _look(paths, as_json=as_json)
            click.echo(clear + text)
            time.sleep(_EVERY)
    except KeyboardInterrupt:
        return
