"""The misbehaving model as a process: one without a key for all tests, one that wants a key."""

from collections.abc import Iterator

import pytest

from holdfast.testing.misbehaving_model.process import ModelProcess

KEY = "sk-the-whole-key"


@pytest.fixture(scope="session")
def model_process() -> Iterator[ModelProcess]:
    with ModelProcess() as process:
        yield process


@pytest.fixture(scope="session")
def keyed_model_process() -> Iterator[ModelProcess]:
    with ModelProcess("--key", KEY) as process:
        yield process


@pytest.fixture
def keyed_model(keyed_model_process: ModelProcess) -> ModelProcess:
    """A model that accepts `KEY` alone, without requests or scripts of earlier tests."""
    keyed_model_process.reset()
    return keyed_model_process
