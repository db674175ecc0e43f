"""The machine over an empty file, and a profile for whoever wants to know whether it turns red, and
not how little that takes: `--hypothesis-profile=unshrunk`."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from tests.state_machine.machine import Lives

from holdfast.store.sqlite.connection import open_writer

settings.register_profile("unshrunk", phases=(Phase.generate,), database=None, derandomize=False)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[type[Lives]]:
    path = tmp_path / "empty.db"
    open_writer(path, vfs=None).close()

    class Machine(Lives):
        empty = path

    logging.disable()  # a million lines of a gateway that is mistreated
    yield Machine
    logging.disable(logging.NOTSET)
