"""A sight: what one look at a gateway has found, also where there is none."""

import msgspec

from holdfast.cli.status.status_looked import down_text, exit_code, understood
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.facts import Document, TurnFacts
from holdfast.server.local.status_client import GatewayDown, read_document
from holdfast.system import exits
from holdfast.system.paths import Paths

_PATIENCE = 1.0  # seconds; nobody who presses a key meanwhile should think that it was not heard


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """`document`: None where nobody answers; then `why` says so in as many lines as it takes."""

    at: float
    document: Document | None = None
    why: str = ""
    code: int = exits.OK  # of a program that looks but once

    @property
    def turns(self) -> tuple[TurnFacts, ...]:
        return () if self.document is None else self.document.snapshot.open_turns


def look(paths: Paths, *, now: float) -> Sight:
    """Never raises for a gateway that is not there, or is of another version: the next look may
    find one that is not."""
    try:
        document = understood(read_document(paths, timeout=_PATIENCE))
    except GatewayDown as down:
        return Sight(at=now, why=down_text(paths, down), code=exits.GATEWAY_DOWN)
    except HoldfastError as error:
        return Sight(at=now, why=str(error), code=exits.FAILED)
    return Sight(at=now, document=document, code=exit_code(document))
