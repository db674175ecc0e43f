"""Runs the conformance suite on the email platform, with real servers."""

from pathlib import Path

import pytest
from tests.platforms.email.harness import email_harness
from tests.platforms.email.mail_server import MailServer

from holdfast.testing.conformance import CHECKS, ConformanceCheck


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_the_platform_passes_the_conformance_suite(
    mail_server: MailServer, tmp_path: Path, check: ConformanceCheck
) -> None:
    async with email_harness(mail_server, tmp_path) as harness:
        await check(harness)
