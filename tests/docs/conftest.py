"""Fixtures for tests of the docs: pages by their path, and a running gateway."""

import os
import signal
from collections.abc import Iterator
from subprocess import DEVNULL

import pytest
from tests.support.doc_pages import REPO, DocsGateway, Page, Pages
from tests.support.fork_server import GATEWAY, fork_process
from tests.support.ports import own_port


@pytest.fixture(scope="session")
def page() -> Pages:
    return lambda path: Page((REPO / path).read_text())


@pytest.fixture(scope="session")
def docs_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocsGateway]:
    """A running gateway with the demo model, for all tests that do not kill theirs."""
    home = tmp_path_factory.mktemp("docs") / "home"
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "HOLDFAST_HOME": str(home),
        "HOLDFAST_MODEL_PROVIDER": "demo",
    }
    process = fork_process(GATEWAY, "run", "--port", "0", env=environ, stderr=DEVNULL, text=True)
    assert process.stdout is not None
    try:
        greeting = process.stdout.readline()
        assert "listens on" in greeting, "the gateway did not start"
        token = (home / "secrets" / "api_token").read_text().strip()
        yield DocsGateway(home, greeting.split()[-1], token)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)


@pytest.fixture
def free_port() -> int:
    return own_port()
