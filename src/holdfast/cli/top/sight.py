"""A sight: what one look at a gateway has found, also where there is none."""

import msgspec

from holdfast.cli.status.status_looked import describe_down, parse_status, status_exit_code
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.facts import StatusReport, TurnStatus
from holdfast.server.local.status_client import GatewayDown, read_status_report
from holdfast.system import exits
from holdfast.system.paths import Paths

_READ_TIMEOUT = (
    1.0  # seconds; nobody who presses a key meanwhile should think that it was not heard
)


class StatusSample(msgspec.Struct, frozen=True, kw_only=True):
    """`document`: None where nobody answers; then `why` says so in as many lines as it takes."""

    at: float
    document: StatusReport | None = None
    down_text: str = ""
    exit_code: int = exits.OK  # of a program that looks but once

    @property
    def turns(self) -> tuple[TurnStatus, ...]:
        return () if self.document is None else self.document.snapshot.open_turns


def read_sample(paths: Paths, *, now: float) -> StatusSample:
    """Never raises for a gateway that is not there, or is of another version: the next look may
    find one that is not."""
    try:
        document = parse_status(read_status_report(paths, timeout=_READ_TIMEOUT))
    except GatewayDown as down:
        return StatusSample(
            at=now, down_text=describe_down(paths, down), exit_code=exits.GATEWAY_DOWN
        )
    except HoldfastError as error:
        return StatusSample(at=now, down_text=str(error), exit_code=exits.FAILED)
    return StatusSample(at=now, document=document, exit_code=status_exit_code(document))
