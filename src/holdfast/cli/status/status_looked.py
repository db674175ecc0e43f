"""One look at a gateway: what it says of itself, or what is known of one that says nothing."""

import time

import msgspec

from holdfast.cli.status.status_shown import format_status
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.facts import ProblemLevel, StatusReport
from holdfast.server.local.status_client import GatewayDown, read_status_report
from holdfast.system import exits
from holdfast.system.paths import Paths


def render_status(paths: Paths, *, as_json: bool, indent: int = 0) -> tuple[str, int]:
    """What is to be said, and the exit code for it."""
    try:
        raw = read_status_report(paths)
    except GatewayDown as down:
        return describe_down(paths, down, as_json=as_json, indent=indent), exits.GATEWAY_DOWN
    document = parse_status(raw)
    text = msgspec.json.format(raw, indent=indent or -1).decode() if as_json else None
    return text or format_status(document, now=time.time()), status_exit_code(document)


def describe_down(
    paths: Paths, down: GatewayDown, *, as_json: bool = False, indent: int = 0
) -> str:
    from holdfast.cli.status.down import format_down  # noqa: PLC0415 - may read the store

    return format_down(paths, down, as_json=as_json, indent=indent)


def parse_status(raw: bytes) -> StatusReport:
    try:
        return msgspec.json.decode(raw, type=StatusReport)
    except msgspec.MsgspecError as error:
        raise HoldfastError(
            f"The gateway answers in a form that this program does not know ({error}); it is of "
            "another version. Restart it, or ask with its own program."
        ) from None


def status_exit_code(document: StatusReport) -> int:
    """Not for one that wants attention: for one that does not do its work."""
    well = not any(problem.level is ProblemLevel.PROBLEM for problem in document.problems)
    return exits.OK if well else exits.FAILED
