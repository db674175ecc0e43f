"""The examples: each opens with a sentence, explains itself, and does what it says."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.doc_pages import REPO, DocsGateway, Pages
from tests.support.held_command import HELD_COMMAND

EXAMPLES = sorted((REPO / "examples").glob("*.py"))


def run(example: str, *args: str, environ: dict[str, str], timeout: float = 100) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", REPO / "examples" / example, *args],
        env=environ,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_opens_with_a_sentence_and_explains_itself(
    example: Path, tmp_path: Path
) -> None:
    first = example.read_text().partition("\n")[0]
    output = run(example.name, "--help", environ={"HOME": str(tmp_path)})
    assert first.startswith('"""')
    assert " ".join(first.strip('"').split()) in " ".join(output.split())


def test_every_example_is_listed_in_the_readme_of_the_folder(page: Pages) -> None:
    listed = page("examples/README.md").text
    assert [path.name for path in EXAMPLES if f"({path.name})" not in listed] == []


def test_ask_prints_the_answer(docs_gateway: DocsGateway) -> None:
    assert "42" in run("ask.py", "run echo $((6 * 7))", environ=docs_gateway.environ)


def test_ask_repeats_a_message_without_asking_twice(docs_gateway: DocsGateway) -> None:
    asked = ("run echo once >> asked.log; cat asked.log", "--session", "twice", "--id", "one")
    first = run("ask.py", *asked, environ=docs_gateway.environ)
    assert run("ask.py", *asked, environ=docs_gateway.environ) == first
    assert first.count("once") == 1


def test_the_openai_client_streams_and_is_remembered(docs_gateway: DocsGateway) -> None:
    said = run("openai_client.py", environ=docs_gateway.environ)
    assert "hello again" in said


def release_command(folder: Path) -> None:
    """Release the held command of the only session in a home of this folder."""
    while not (workspaces := [*folder.glob("*/workspaces/*")]):
        time.sleep(0.05)
    [workspace] = workspaces
    (workspace / "go").touch()


def test_killing_the_gateway_loses_nothing_and_repeats_nothing(
    docs_gateway: DocsGateway, tmp_path: Path
) -> None:
    """H2: the command that ran over the kill is attached to, and its effect is there once."""
    program = [sys.executable, "-W", "error", REPO / "examples" / "pull_the_plug.py"]
    command = f"run {HELD_COMMAND}; echo ran >> ran.log; cat ran.log"
    options = ("--ask", command, "--after", "4", "--down", "0", "--transcript")
    environ = {**docs_gateway.environ, "HOLDFAST_HOME": "", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*program, *options], env=environ, stdout=subprocess.PIPE, text=True
    ) as showing:
        assert showing.stdout is not None
        output = ""
        for line in showing.stdout:
            output += line
            if "new gateway runs" in line:
                release_command(tmp_path)
    assert showing.returncode == 0, output
    answer, transcript = output.split("] answer:")[1].split("\n  session", 1)
    assert answer.count("ran") == 1
    assert "note ·" in transcript


def test_the_bot_answers_the_configured_users(docs_gateway: DocsGateway) -> None:
    said = run("bot.py", "run echo $((6 * 7))", environ=docs_gateway.environ)
    assert "42" in said
    assert said.count("bot, in mallory's: ") == said.count("holdfast pairing approve") == 1
