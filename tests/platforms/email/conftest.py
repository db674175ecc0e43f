"""Fixtures: one mail server for all tests of a worker."""

from collections.abc import Iterator

import pytest
from tests.platforms.email.mail_server import MailServer, missing, running_mail_server


@pytest.fixture(scope="session")
def mail_server() -> Iterator[MailServer]:
    if why := missing():
        pytest.skip(why)
    with running_mail_server() as opened:
        yield opened
