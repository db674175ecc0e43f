"""Runs the conformance suite on the webhook platform."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.platforms.webhook.harness import idempotent_receiver, non_idempotent_receiver, post_only

from holdfast.testing.conformance import CHECKS, ConformanceCheck, PlatformHarness


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("start", [idempotent_receiver, non_idempotent_receiver, post_only])
async def test_the_platform_passes_the_conformance_suite(
    start: Callable[[], AbstractAsyncContextManager[PlatformHarness]], check: ConformanceCheck
) -> None:
    async with start() as harness:
        await check(harness)
