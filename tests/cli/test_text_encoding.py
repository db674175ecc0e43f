"""Arguments, input and output in encodings that cannot hold every character."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.command_line import HOLDFAST, Cli, CliGateway, environment

from holdfast.system import exit_codes


def holdfast(
    folder: Path, *args: str | bytes, stdin: bytes = b"", **environ: str
) -> subprocess.CompletedProcess[bytes]:
    """Run `holdfast` in a new process, since the test is about how it starts."""
    return subprocess.run(
        [HOLDFAST, *args],
        env=environment(folder) | environ,
        input=stdin,
        capture_output=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("command", ["ask", "search", "memory add", "sessions show"])
def test_an_argument_that_is_not_valid_text_is_refused_before_any_work(
    shared_gateway: CliGateway, cli: Cli, tmp_path: Path, command: str
) -> None:
    before = cli("sessions", "list", "--json", **shared_gateway.environ).stdout
    refused = holdfast(tmp_path, *command.split(), b"gr\xfc\xdfe", **shared_gateway.environ)
    assert refused.returncode == exit_codes.USAGE
    assert rb"'gr\xfc\xdfe' is not valid in the encoding of this shell" in refused.stderr
    assert b"Traceback" not in refused.stderr
    assert cli("sessions", "list", "--json", **shared_gateway.environ).stdout == before


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_piped_input_that_is_not_valid_text_is_sent_with_replacement_characters(
    shared_gateway: CliGateway, tmp_path: Path, locale: str
) -> None:
    asked = holdfast(
        tmp_path, "ask", "What is", stdin=b"\xff\xfe", LC_ALL=locale, **shared_gateway.environ
    )
    assert asked.returncode == 0, asked.stderr


def test_a_home_whose_name_is_not_valid_text_is_one_message(tmp_path: Path) -> None:
    refused = holdfast(tmp_path, "status", HOLDFAST_HOME=os.fsdecode(bytes(tmp_path) + b"/h\xfc"))
    assert refused.returncode == exit_codes.CONFIG_EXIT
    assert b"the name of the home directory is not UTF-8" in refused.stderr
    assert b"Traceback" not in refused.stderr


def test_a_character_that_the_terminal_lacks_is_a_question_mark(tmp_path: Path) -> None:
    changed = holdfast(
        tmp_path, "config", "set", "agent.max_steps", "40", PYTHONIOENCODING="latin-1"
    )
    assert changed.returncode == 0, changed.stderr
    assert b"agent.max_steps: 90 ? 40" in changed.stdout


def test_a_program_gets_every_character_whatever_the_encoding(tmp_path: Path) -> None:
    holdfast(tmp_path, "config", "set", "agent.instructions", "✓ done")
    shown = holdfast(tmp_path, "config", "show", "--json", PYTHONIOENCODING="latin-1")
    assert "✓ done" in json.dumps(json.loads(shown.stdout), ensure_ascii=False)
