"""The README and its proof of durability: their commands run in order, as in a new clone."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.doc_pages import REPO, Block, Pages

ADDRESS = "http://127.0.0.1:8787"
RUN = "make run\n"
LINK = re.compile(r"\]\((?!http|#)([^)#]+)")
CODE = re.compile(r"(`+)[^`].*?\1", re.DOTALL)  # contains no links
DOCS = sorted(f"docs/{path.name}" for path in (REPO / "docs").glob("*.md"))
DECISIONS = "docs/decisions/README.md"
PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md", DECISIONS, *DOCS]
FILE = re.compile(r"`([\w/]+\.py)`")
# `agent/loop.py` `run_turn`, and `Parked` in `agent/turn_port.py`
NAMED_IN_FILE = re.compile(r"`([\w/]+\.py)`\s+`([\w.]+)`|`([\w.]+)`\s+in\s+`([\w/]+\.py)`")

NEEDS_VENV = pytest.mark.skipif(
    Path(sys.executable).parent != REPO / ".venv" / "bin",
    reason="`make run` uses the environment in .venv: run this with `make test`",
)


class ReadmeShell:
    """Runs the blocks: `make run` in a first terminal, the rest in a second one."""

    def __init__(self, home: Path, *, port: int) -> None:
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home.parent),
            "HOLDFAST_HOME": str(home),
            "HOLDFAST_GATEWAY_PORT": str(port),
        }
        self._address = f"http://127.0.0.1:{port}"
        self._exported: list[str] = []
        self._gateway: subprocess.Popen[str] | None = None
        self.outputs: list[str] = []

    def type(self, block: Block) -> None:
        if block.text == RUN:
            self._start()
        elif block.language == "python":
            self._second("python -W error - <<'END'\n" + block.text + "END\n")
        else:
            self._second(block.text)

    def _start(self) -> None:
        if self._gateway is not None:
            self._gateway.communicate(timeout=60)  # the block before has killed it
        self._gateway = subprocess.Popen(
            ["make", "run"], cwd=REPO, env=self._environ, stdout=subprocess.PIPE, text=True
        )
        assert self._gateway.stdout is not None
        greeting = self._gateway.stdout.readline()
        assert greeting.endswith(f"listens on {self._address}\n")

    def _second(self, text: str) -> None:
        text = text.replace(ADDRESS, self._address)
        script = "\n".join([*self._exported, text, "wait"])
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=REPO,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0 or "kill -9" in text, done.stderr
        self._exported += [line for line in text.splitlines() if line.startswith("export ")]
        self.outputs.append(done.stdout)

    def close(self) -> None:
        lock = Path(self._environ["HOLDFAST_HOME"]) / "gateway.lock"
        if self._gateway is None:
            return
        if self._gateway.poll() is None:
            os.kill(json.loads(lock.read_text())["pid"], 15)
        self._gateway.communicate(timeout=60)


@pytest.fixture
def shell(tmp_path: Path, free_port: int) -> Iterator[ReadmeShell]:
    made = ReadmeShell(tmp_path / "home", port=free_port)
    try:
        yield made
    finally:
        made.close()


@NEEDS_VENV
@pytest.mark.timeout(180)  # twenty seconds of it are the demo's eight steps
def test_the_commands_of_the_readme_do_what_it_says(page: Pages, shell: ReadmeShell) -> None:
    blocks = [b for b in page("README.md").blocks if b.language in ("sh", "python")]
    assert blocks[0].text == RUN
    for block in blocks:
        shell.type(block)
    said = "\n".join(shell.outputs)
    assert 'content":"This is what came back' in said and "Linux" in said
    assert "All 8 steps are done" in said
    assert "note · " in said
    assert '"error":{' not in said


@NEEDS_VENV
@pytest.mark.timeout(180)
def test_the_commands_of_the_durability_page_do_what_it_says(
    page: Pages, shell: ReadmeShell
) -> None:
    for block in page("docs/durability.md").blocks:
        if block.language == "sh":
            shell.type(block)
    said = "\n".join(shell.outputs)
    assert "All 8 steps are done" in said
    for step in range(1, 9):
        # Only in the JSON of the answer, a line break is written as two characters.
        assert said.count(f"step {step} of 8\\n") == 1
    assert "note · " in said
    assert '"error":{' not in said


@pytest.mark.parametrize("path", PAGES)
def test_the_links_of_a_page_lead_somewhere(path: str, page: Pages) -> None:
    targets = LINK.findall(CODE.sub("", page(path).text))
    folder = (REPO / path).parent
    assert [target for target in targets if not (folder / target).exists()] == []


def test_the_names_in_the_architecture_exist_where_it_says(page: Pages) -> None:
    """Each file that it names exists, and contains the class or function named with it."""
    text = page("ARCHITECTURE.md").text
    named = {name for name in FILE.findall(text) if not any(_source(name))}
    assert named == set()
    for before, inside, outside, behind in NAMED_IN_FILE.findall(text):
        source = "".join(path.read_text() for path in _source(before or behind))
        for name in (inside or outside).split("."):
            assert re.search(rf"(class|def) {name}\b", source), (before or behind, name)


def _source(name: str) -> Iterator[Path]:
    return (REPO / "src" / "holdfast").rglob(name)
