"""`holdfast status`: reads the status socket; prints problems, then what runs, then the details.

A health check pays for the imports of --json and --quiet: no asyncio, no http, no settings, no
rich.
"""

import sys
import time

import click
import msgspec

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.status import ProblemLevel, StatusReport
from holdfast.core.text.translation import ENGLISH, current_language
from holdfast.server.local.status_client import GatewayDown, read_status_report
from holdfast.system import exit_codes
from holdfast.system.paths import Paths


def render_status(paths: Paths, *, as_json: bool, indent: int = 0) -> tuple[str, int]:
    """The text to print, and the exit code."""
    try:
        raw = read_status_report(paths)
    except GatewayDown as down:
        return describe_down(paths, down, as_json=as_json, indent=indent), exit_codes.GATEWAY_DOWN
    document = parse_status(raw)
    if as_json:
        text = msgspec.json.format(raw, indent=indent or -1).decode()
    else:
        from holdfast.cli.status.view import format_status  # noqa: PLC0415 - for people only

        text = format_status(document, now=time.time())
    return text, status_exit_code(document)


def describe_down(
    paths: Paths, down: GatewayDown, *, as_json: bool = False, indent: int = 0
) -> str:
    from holdfast.cli.status.down import format_down  # noqa: PLC0415 - may read the store

    return format_down(paths, down, as_json=as_json, indent=indent)


def parse_status(raw: bytes) -> StatusReport:
    try:
        return _for_person(msgspec.json.decode(raw, type=StatusReport))
    except msgspec.MsgspecError as error:
        raise HoldfastError(
            "The gateway has another version than this program: its answer cannot be read "
            "({reason}). Restart the gateway, or use the program of its version.",
            reason=error,
        ) from None


def _for_person(document: StatusReport) -> StatusReport:
    """The report is in English: it is made once for all who ask at the same time."""
    if current_language() == ENGLISH.language:
        return document
    from holdfast.server.status.problems import find_problems  # noqa: PLC0415 - rarely needed

    problems = find_problems(document, now=document.started_at + document.uptime)
    snapshot = document.snapshot.for_person()
    machine = document.machine.for_person()
    return msgspec.structs.replace(document, problems=problems, snapshot=snapshot, machine=machine)


def status_exit_code(document: StatusReport) -> int:
    """FAILED only for a gateway that does not do its work; warnings are OK."""
    healthy = not any(problem.level is ProblemLevel.PROBLEM for problem in document.problems)
    return exit_codes.OK if healthy else exit_codes.FAILED


_REFRESH_SECONDS = 1.0  # of --watch
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


@click.command("status")
@home_option
@json_option
@click.option("-w", "--watch", is_flag=True, help="Refresh every second, until Ctrl-C.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; only set the exit code.")
def command(as_json: bool, watch: bool, quiet: bool) -> None:
    """Show the status of the running gateway, problems first.

    Uses a socket that answers even while the gateway starts, drains or hangs. Exits with 0 when
    the gateway is healthy, 1 when it hangs or cannot do its work, 3 when none is running.

    \b
    Examples:
      holdfast status --watch
      holdfast status --json
      holdfast status --quiet || echo "unhealthy"
    """
    paths = Paths(chosen_home())
    if watch and not quiet:
        _watch(paths, as_json=as_json)
        return
    # --quiet prints nothing: the JSON costs least.
    text, code = render_status(paths, as_json=as_json or quiet, indent=2)
    if not quiet:
        click.echo(text, err=code == exit_codes.GATEWAY_DOWN and not as_json)
    sys.exit(code)


def _watch(paths: Paths, *, as_json: bool) -> None:
    """Prints every second; keeps waiting for a gateway that goes away."""
    clear = _CLEAR_SCREEN if sys.stdout.isatty() and not as_json else ""
    try:
        while True:
            click.echo(clear + render_status(paths, as_json=as_json)[0])
            time.sleep(_REFRESH_SECONDS)
    except KeyboardInterrupt:
        return
