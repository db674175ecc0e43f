"""What every door promises, of the one to Discord."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.platforms.discord.ground import known

from holdfast.platforms.conformance import CHECKS, Check, Ground


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("start", [known])
async def test_the_door_keeps_its_promises(
    start: Callable[[], AbstractAsyncContextManager[Ground]], check: Check
) -> None:
    async with start() as ground:
        await check(ground)
