"""What every door promises, of the one to the simulated vendor."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.testing.simulated.harness import forgetful, in_process, over_http, poor

from holdfast.testing.conformance import CHECKS, ConformanceCheck, PlatformHarness, inbound


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("start", [in_process, poor, over_http])
async def test_the_door_keeps_its_promises(
    start: Callable[[], AbstractAsyncContextManager[PlatformHarness]], check: ConformanceCheck
) -> None:
    async with start() as ground:
        await check(ground)


@pytest.mark.parametrize("check", [each for each in vars(inbound).values() if each in CHECKS])
async def test_a_door_hears_as_it_promises_where_nothing_is_kept_for_it(
    check: ConformanceCheck,
) -> None:
    async with forgetful() as ground:
        await check(ground)
