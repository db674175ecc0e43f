"""A gateway process for the page: it keeps its port when it is started again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.gateway_process import SpawnedGateway
from tests.support.ports import own_port

from holdfast.testing.misbehaving_model.process import ModelProcess


@contextmanager
def running_gateway(home: Path, model: ModelProcess, **variables: str) -> Iterator[SpawnedGateway]:
    """Runs a gateway on a fixed port until the context is left: the page knows no other port."""
    gateway = SpawnedGateway(home, model=model, HOLDFAST_GATEWAY_PORT=str(own_port()), **variables)
    try:
        yield gateway.start()
    finally:
        gateway.end()
