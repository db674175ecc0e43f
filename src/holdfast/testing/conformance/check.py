"""A check: one promise of a door, with the rule by which it is skipped."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from holdfast.testing.conformance.ground import NotSupported, PlatformHarness


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """A promise that can be asked of any ground. Raises what a failing test raises; skips the test
    that calls it where the door declares, or the ground says, that there is nothing to ask."""

    promise: Callable[[PlatformHarness], Awaitable[None]]

    def __str__(self) -> str:
        return self.promise.__name__

    async def __call__(self, harness: PlatformHarness) -> None:
        try:
            await self.promise(harness)
        except NotSupported as reason:
            pytest.skip(str(reason))


def require(condition: object, reason: str) -> None:
    """What a check is about is not there, for that reason."""
    if not condition:
        raise NotSupported(reason)
