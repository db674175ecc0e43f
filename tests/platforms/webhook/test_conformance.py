"""What every door promises, of the one to programs."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.platforms.webhook.harness import careful, careless, posting_only

from holdfast.testing.conformance import CHECKS, ConformanceCheck, PlatformHarness


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("start", [careful, careless, posting_only])
async def test_the_door_keeps_its_promises(
    start: Callable[[], AbstractAsyncContextManager[PlatformHarness]], check: ConformanceCheck
) -> None:
    async with start() as ground:
        await check(ground)
