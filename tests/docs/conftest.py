"""A real gateway for the pages and the examples, and the blocks and tables of a page."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL

import pytest
from tests.nursery import GATEWAY, bear
from tests.ports import own_port

REPO = Path(__file__).parents[2]
HOLDFAST = Path(sys.executable).parent / "holdfast"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, in its language."""

    language: str
    text: str


@dataclass(frozen=True)
class Page:
    text: str

    @property
    def blocks(self) -> list[Block]:
        return [Block(*found) for found in _BLOCK.findall(self.text)]

    @property
    def rows(self) -> list[list[str]]:
        """Every row of every table, split into cells; a bar inside code is not a border."""
        lines = [line for line in self.text.splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]

    def named(self, column: int = 0) -> dict[str, list[str]]:
        """The rows whose cell in `column` is one name in code, by that name."""
        names = ((re.fullmatch(r"`([^`]+)`", row[column]), row) for row in self.rows)
        return {found[1]: row for found, row in names if found}


Pages = Callable[[str], Page]


@pytest.fixture(scope="session")
def page() -> Pages:
    return lambda path: Page((REPO / path).read_text())


@dataclass(frozen=True)
class Served:
    """Where a gateway is, and what a client of it finds in its environment."""

    home: Path
    address: str
    token: str

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": f"{HOLDFAST.parent}:{os.environ['PATH']}",
            "HOME": str(self.home.parent),
            "HOLDFAST_HOME": str(self.home),
            "OPENAI_BASE_URL": f"{self.address}/v1",
            "OPENAI_API_KEY": self.token,
        }


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A running gateway with the demo model, for all tests that do not kill theirs."""
    home = tmp_path_factory.mktemp("docs") / "home"
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home.parent),
        "HOLDFAST_HOME": str(home),
        "HOLDFAST_MODEL_PROVIDER": "demo",
    }
    process = bear(GATEWAY, "run", "--port", "0", env=environ, stderr=DEVNULL, text=True)
    assert process.stdout is not None
    try:
        greeting = process.stdout.readline()
        assert "listens on" in greeting, "the gateway did not start"
        token = (home / "secrets" / "api_token").read_text().strip()
        yield Served(home, greeting.split()[-1], token)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)


@pytest.fixture
def free_port() -> int:
    return own_port()
