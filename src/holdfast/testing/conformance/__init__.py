"""What every platform promises, as checks that run against it: imported by tests, never by a gateway.

@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_platform_keeps_its_promises(check: ConformanceCheck) -> None:
    async with my_harness() as harness:
        await check(harness)
"""

import pytest

_TOPICS = ("belongings", "hearing", "lines", "people", "speaking", "waiting", "words")

# Before the checks are imported: what they assert is then explained as in any other test.
pytest.register_assert_rewrite(*(f"{__name__}.{topic}" for topic in _TOPICS))

from holdfast.testing.conformance.assertions import wait_until  # noqa: E402 - see above
from holdfast.testing.conformance.harness import (
    ChatKind,
    ConformanceCheck,  # noqa: E402 - see above
    NotSupported,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
)
from holdfast.testing.conformance.proxy import FaultProxy  # noqa: E402 - see above
from holdfast.testing.conformance.suite import CHECKS  # noqa: E402 - see above

__all__ = [
    "CHECKS",
    "Check",
    "Ground",
    "NotToBeHad",
    "Person",
    "Place",
    "Proxy",
    "Shown",
    "Trouble",
    "until",
]
