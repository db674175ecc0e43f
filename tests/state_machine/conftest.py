"""The state machine over an empty database, and the profile `--hypothesis-profile=unshrunk`, which
reports a failure without searching for a smaller example."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from tests.state_machine.machine import GatewayStateMachine

from holdfast.store.sqlite.connection import open_writer

settings.register_profile("unshrunk", phases=(Phase.generate,), database=None, derandomize=False)


@pytest.fixture
def machine_type(tmp_path: Path) -> Iterator[type[GatewayStateMachine]]:
    path = tmp_path / "empty.db"
    open_writer(path, vfs=None).close()

    class EmptyStoreMachine(GatewayStateMachine):
        empty = path

    logging.disable()  # the faults would log a million lines
    yield EmptyStoreMachine
    logging.disable(logging.NOTSET)
