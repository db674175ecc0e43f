"""Runs the conformance suite on the Telegram platform."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.platforms.telegram.harness import SHORT_TIMEOUT, polling_harness, webhook_harness

from holdfast.testing.conformance import CHECKS, ConformanceCheck, PlatformHarness
from holdfast.testing.conformance.connections import a_half_open_connection_is_not_reported_as_alive


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("start", [polling_harness, webhook_harness])
async def test_the_platform_passes_the_conformance_suite(
    start: Callable[[], AbstractAsyncContextManager[PlatformHarness]], check: ConformanceCheck
) -> None:
    async with start() as harness:
        await check(harness)


async def test_a_half_open_connection_does_not_count_as_alive() -> None:
    """Apart, since no other check should have to be answered that quickly."""
    async with polling_harness(SHORT_TIMEOUT) as harness:
        await a_half_open_connection_is_not_reported_as_alive(harness)
