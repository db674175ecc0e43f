"""What every door promises, of the one to a real XMPP server."""

import pytest
from tests.platforms.xmpp.ground import prosody_ground
from tests.platforms.xmpp.prosody import Prosody

from holdfast.platforms.conformance import CHECKS, Check


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_door_keeps_its_promises(server: Prosody, check: Check) -> None:
    async with prosody_ground(server) as ground:
        await check(ground)
