"""Runs the conformance suite on the XMPP platform, with a real server."""

import pytest
from tests.platforms.xmpp.harness import prosody_harness
from tests.platforms.xmpp.prosody import Prosody

from holdfast.testing.conformance import CHECKS, ConformanceCheck
from holdfast.testing.conformance.connections import a_half_open_connection_is_not_reported_as_alive


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_platform_passes_the_conformance_suite(
    server: Prosody, check: ConformanceCheck
) -> None:
    # The one check that waits until the platform gives up waiting need not wait as long as people.
    send_timeout = 1.5 if check is a_half_open_connection_is_not_reported_as_alive else 20.0
    async with prosody_harness(server, send_timeout=send_timeout) as harness:
        await check(harness)
