"""What every door promises, of the one to a mailbox on real servers."""

from pathlib import Path

import pytest
from tests.platforms.email.harness import mailbox
from tests.platforms.email.mail_server import PostOffice

from holdfast.testing.conformance import CHECKS, ConformanceCheck


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_door_keeps_its_promises(
    office: PostOffice, tmp_path: Path, check: ConformanceCheck
) -> None:
    async with mailbox(office, tmp_path) as ground:
        await check(ground)
