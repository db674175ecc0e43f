"""The promises of every platform, checked for linechat."""

import pytest
from harness import linechat

from holdfast.testing.conformance import CHECKS, ConformanceCheck


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_platform_keeps_its_promises(check: ConformanceCheck) -> None:
    async with linechat() as harness:
        await check(harness)
