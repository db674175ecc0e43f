"""Runs the conformance suite on the IRC platform: on a real ngircd, and with a server history."""

from collections.abc import Callable

import pytest
from tests.platforms.irc.harness import irc_on_ngircd, irc_with_history
from tests.platforms.irc.ngircd import Ngircd

from holdfast.testing.conformance import CHECKS, ConformanceCheck


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_platform_passes_the_conformance_suite_on_a_real_server(
    ngircd: Ngircd, new_nick: Callable[[str], str], check: ConformanceCheck
) -> None:
    async with irc_on_ngircd(ngircd, new_nick) as harness:
        await check(harness)


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_platform_passes_the_conformance_suite_with_a_server_history(
    check: ConformanceCheck,
) -> None:
    async with irc_with_history() as harness:
        await check(harness)
