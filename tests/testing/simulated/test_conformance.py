"""Runs the conformance suite on the simulated platform."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.testing.simulated.harness import in_process, minimal, over_http, without_backlog

from holdfast.testing.conformance import CHECKS, ConformanceCheck, PlatformHarness, inbound


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("start", [in_process, minimal, over_http])
async def test_the_platform_passes_the_conformance_suite(
    start: Callable[[], AbstractAsyncContextManager[PlatformHarness]], check: ConformanceCheck
) -> None:
    async with start() as harness:
        await check(harness)


@pytest.mark.parametrize("check", [each for each in vars(inbound).values() if each in CHECKS])
async def test_the_platform_passes_the_inbound_checks_without_a_backlog(
    check: ConformanceCheck,
) -> None:
    async with without_backlog() as harness:
        await check(harness)
