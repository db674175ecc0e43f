"""`holdfast status`: how the running gateway is, from its own mouth."""

import sys
import time

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option
from holdfast.cli.status.status_looked import render_status
from holdfast.system import exits
from holdfast.system.paths import Paths

_REFRESH_SECONDS = 1.0  # seconds between two looks of --watch
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


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
    text, code = render_status(paths, as_json=as_json, indent=2)
    if not quiet:
        click.echo(text, err=code == exits.GATEWAY_DOWN and not as_json)
    sys.exit(code)


def _watch(paths: Paths, *, as_json: bool) -> None:
    """The same again every second; a gateway that goes away is waited for."""
    clear = _CLEAR_SCREEN if sys.stdout.isatty() and not as_json else ""
    try:
        while True:
            text, _ = render_status(paths, as_json=as_json)
            click.echo(clear + text)
            time.sleep(_REFRESH_SECONDS)
    except KeyboardInterrupt:
        return
