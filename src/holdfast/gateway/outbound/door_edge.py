"""The edge of a door: what a platform raises that its port does not name, in words of ours."""

import logging
from types import TracebackType
from typing import Self

from holdfast.core.errors import OutcomeUnknown, SendError, StoreError
from holdfast.core.ports.protocols import Platform

log = logging.getLogger(__name__)


class PlatformErrorBoundary:
    """Around one call of a platform. Nothing is known of a call that ended in a fault of the
    door's own; handed on as it is, it would end the queue of its chat, and nobody would hear
    anything there again."""

    __slots__ = ("_platform",)

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, SendError | StoreError):
            return
        name = f"{self._platform.name}:{self._platform.account}"
        log.error("The door of %s failed: %r", name, error, exc_info=error, extra=_ACTION)
        raise OutcomeUnknown(f"the door of {name} failed: {error!r}") from error


_ACTION = {"action": "platform_failed"}
