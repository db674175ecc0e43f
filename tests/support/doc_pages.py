"""A page of the docs, with its fenced blocks and tables, and the gateway that its commands use."""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class DocsGateway:
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
