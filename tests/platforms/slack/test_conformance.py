"""What every door promises, of the one to Slack."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from tests.platforms.slack.ground import IMPATIENT, by_socket, posted

from holdfast.testing.conformance import CHECKS, Check, Ground
from holdfast.testing.conformance.connections import a_line_that_only_looks_whole_proves_nothing


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("start", [by_socket, posted])
async def test_the_door_keeps_its_promises(
    start: Callable[[], AbstractAsyncContextManager[Ground]], check: Check
) -> None:
    async with start() as ground:
        await check(ground)


async def test_a_line_that_only_looks_whole_proves_nothing() -> None:
    """Apart, since no other check should have to be answered that quickly."""
    async with by_socket(IMPATIENT) as ground:
        await a_line_that_only_looks_whole_proves_nothing(ground)
