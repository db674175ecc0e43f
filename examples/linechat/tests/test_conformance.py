"""What every door promises, of the one to linechat."""

import pytest
from ground import linechat

from holdfast.testing.conformance import CHECKS, ConformanceCheck


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_door_keeps_its_promises(check: ConformanceCheck) -> None:
    async with linechat() as ground:
        await check(ground)
