"""docs/terminal.md says what happens: its transcripts are typed and run."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.command_line import HOLDFAST, CliGateway, Terminal, environment

PAGE = Path(__file__).parents[2] / "docs" / "terminal.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^````{kind}\n(.*?)^````$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[CliGateway]:
    gateway = CliGateway(tmp_path)
    gateway.configure(
        '[model]\nprovider = "demo"\n[runner]\nsandbox = "off"\nsandbox_off_as_root = true\n'
    )
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()


def pattern(expected: str) -> str:
    """A text in which an ellipsis stands for anything, and figures for any."""
    text = re.escape(expected).replace("…", ".*")
    return re.sub(r"(?: |\\ )+", r"\\s+", re.sub(r"\d+\\\.\d+", r"[0-9.]+", text))


def test_the_commands_print_what_the_page_says(demo: CliGateway, tmp_path: Path) -> None:
    path = f"{HOLDFAST.parent}:{os.environ['PATH']}"
    steps = [
        step.partition("\n")
        for block in blocks("console")
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    assert len(steps) > 6
    for command, _, expected in steps:
        done = subprocess.run(
            ["bash", "-c", command],
            env=environment(tmp_path) | {"PATH": path},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        assert re.search(pattern(expected.strip()), done.stdout.strip(), re.DOTALL), (
            command,
            done.stdout,
        )


def test_the_chat_goes_as_the_page_says(
    demo: CliGateway, open_terminal: Callable[..., Terminal]
) -> None:
    [block] = blocks("transcript")
    command, *lines = block.splitlines()
    terminal = open_terminal(*command.removeprefix("$ holdfast ").split())
    for line in lines:
        if line.startswith("> "):
            terminal.wait_for_prompt()
            terminal.type_line(line.removeprefix("> "))
        elif line:
            terminal.wait_for_screen(re.sub(r"\d+\.\d+ s$", "", line))
    terminal.wait_for_prompt()
