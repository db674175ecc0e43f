"""What every door promises, of the one to the simulated vendor."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.platforms.simulated.ground import in_process, over_http, poor

from holdfast.platforms.conformance import CHECKS, Check, Ground


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("start", [in_process, poor, over_http])
async def test_the_door_keeps_its_promises(
    start: Callable[[], AbstractAsyncContextManager[Ground]], check: Check
) -> None:
    async with start() as ground:
        await check(ground)
