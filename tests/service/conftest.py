"""Fixtures for tests of how a gateway's process stops and restarts."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.standalone_gateway import MakeGateway, StandaloneGateway


@pytest.fixture
async def make_gateway(tmp_path: Path) -> AsyncIterator[MakeGateway]:
    """Makes gateways, each with a home of its own; their processes end with the test."""
    made: list[StandaloneGateway] = []

    def make(**options: Any) -> StandaloneGateway:
        made.append(StandaloneGateway(tmp_path / f"home{len(made)}", **options))
        return made[-1]

    yield make
    for gateway in made:
        gateway.end_processes()
        await gateway.end_runners()


@pytest.fixture
def gateway(make_gateway: MakeGateway) -> StandaloneGateway:
    return make_gateway()
