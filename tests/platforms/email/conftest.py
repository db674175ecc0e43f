"""One post office for all tests of a worker, with people of its own for each."""

from collections.abc import Iterator

import pytest
from tests.platforms.email.mail_server import PostOffice, missing, post_office


@pytest.fixture(scope="session")
def office() -> Iterator[PostOffice]:
    if why := missing():
        pytest.skip(why)
    with post_office() as opened:
        yield opened
