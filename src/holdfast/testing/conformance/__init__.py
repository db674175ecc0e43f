"""What every platform promises, as checks. Imported by tests, never by a gateway.

@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_platform_keeps_its_promises(check: ConformanceCheck) -> None:
    async with my_harness() as harness:
        await check(harness)
"""

import pytest

_MODULES = (
    "assertions",
    "attachments",
    "connections",
    "formatting",
    "inbound",
    "outbound",
    "sources",
)

# Before the checks are imported: pytest then explains their assertions as in any other test.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

# ruff: noqa: E402 - see above
from holdfast.testing.conformance.assertions import wait_until
from holdfast.testing.conformance.harness import (
    ChatKind,
    ConformanceCheck,
    NotSupported,
    Participant,
    PlatformHarness,
    VendorFault,
    VisibleMessage,
)
from holdfast.testing.conformance.proxy import FaultProxy
from holdfast.testing.conformance.suite import CHECKS

__all__ = [
    "CHECKS",
    "ChatKind",
    "ConformanceCheck",
    "FaultProxy",
    "NotSupported",
    "Participant",
    "PlatformHarness",
    "VendorFault",
    "VisibleMessage",
    "wait_until",
]
