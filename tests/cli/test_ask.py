"""`holdfast ask` in scripts: what it prints, how it exits, and that nothing is asked twice."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.command_line import Cli, CliGateway, Terminal
from tests.support.held_command import HELD_CALL, release

from holdfast.system import exit_codes
from holdfast.system.paths import Paths
from holdfast.testing.misbehaving_model.process import ModelProcess


def test_only_the_answer_is_printed(shared_gateway: CliGateway, cli: Cli) -> None:
    done = cli(
        "ask",
        '[tool terminal {"command": "true"}] [then] [text just this]',
        **shared_gateway.environ,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "just this\n", "")


def test_standard_input_is_appended(shared_gateway: CliGateway, cli: Cli) -> None:
    done = cli("ask", "what is", "this?", stdin="some\nlines\n", **shared_gateway.environ)
    assert done.stdout == "You said: what is this?\n\nsome\nlines\n"
    assert cli("ask", stdin="only this", **shared_gateway.environ).stdout == "You said: only this\n"


def test_asking_nothing_is_a_usage_error(shared_gateway: CliGateway, cli: Cli) -> None:
    refused = cli("ask", stdin="", **shared_gateway.environ)
    assert refused.returncode == exit_codes.USAGE
    assert "The question is empty" in refused.stderr


def test_a_named_session_remembers_and_a_fresh_one_does_not(
    shared_gateway: CliGateway, cli: Cli, model: ModelProcess
) -> None:
    for words in (["--session", "memory", "one"], ["--session", "memory", "two"], ["three"]):
        assert cli("ask", *words, **shared_gateway.environ).returncode == 0
    *_, second, third = model.requests()["requests"]
    assert len(second["messages"]) == len(third["messages"]) + 2


def test_json_output_has_the_outcome(shared_gateway: CliGateway, cli: Cli) -> None:
    document = json.loads(cli("ask", "--json", "[text yes]", **shared_gateway.environ).stdout)
    assert document["state"] == "answered"
    assert document["answer"] == "yes"
    assert document["session"].startswith("s_")
    assert document["message_id"].startswith("cli-")
    failed = cli("ask", "--json", "[status 400]", **shared_gateway.environ)
    assert failed.returncode == exit_codes.FAILED
    assert json.loads(failed.stdout)["state"] == "failed"


def test_a_failure_is_printed_on_standard_error(shared_gateway: CliGateway, cli: Cli) -> None:
    failed = cli("ask", "[status 400]", **shared_gateway.environ)
    assert failed.returncode == exit_codes.FAILED
    assert failed.stdout == ""
    assert "could not be answered" in failed.stderr


def test_without_a_reply_in_time_the_exit_code_is_that_of_timeout_and_the_turn_continues(
    shared_gateway: CliGateway, cli: Cli, model: ModelProcess
) -> None:
    before = model.requests()["count"]
    asked = ["--session", "slow", "--message-id", "m1", f"{HELD_CALL} [then] [text at last]"]
    late = cli("ask", "--timeout", "0.5", "--json", *asked, **shared_gateway.environ)
    assert late.returncode == 124
    answer = json.loads(late.stdout)
    assert "the agent keeps working" in answer["reason"]
    release(Paths(shared_gateway.home), answer["session"])
    assert cli("ask", *asked, **shared_gateway.environ).stdout == "at last\n"
    assert (
        model.requests()["count"] == before + 2
    )  # its call and its end: attached, not asked again


def test_a_gateway_killed_meanwhile_is_waited_for_and_the_message_sent_once(
    gateway: CliGateway, cli: Cli, model: ModelProcess
) -> None:
    before = model.requests()["count"]

    def pull_the_plug() -> None:
        while model.requests()["count"] == before:
            time.sleep(0.02)
        gateway.kill()
        time.sleep(0.3)
        gateway.start()

    killing = threading.Thread(target=pull_the_plug)
    killing.start()
    answered = cli("ask", "--session", "once", "[latency 1.5] [text survived]")
    killing.join()
    assert (answered.returncode, answered.stdout) == (0, "survived\n")
    shown = json.loads(cli("sessions", "show", "once", "--json").stdout)
    assert [r["message"]["type"] for r in shown["records"]].count("user") == 1


def test_files_are_given_to_the_agent(shared_gateway: CliGateway, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("kelp")
    done = cli(
        "ask",
        "--file",
        str(tmp_path / "notes.txt"),
        '[tool terminal {"command": "cat uploads/*"}]',
        **shared_gateway.environ,
    )
    assert "kelp" in done.stdout
    missing = cli("ask", "--file", "/nowhere", "x", **shared_gateway.environ)
    assert missing.returncode == exit_codes.USAGE


def test_without_a_gateway_it_exits_with_3(cli: Cli) -> None:
    down = cli("ask", "hello")
    assert down.returncode == exit_codes.GATEWAY_DOWN
    assert "holdfast run" in down.stderr


def test_progress_is_shown_to_a_person_and_the_answer_once(
    shared_gateway: CliGateway, open_terminal: Callable[..., Terminal]
) -> None:
    terminal = open_terminal(
        "ask",
        '[tool terminal {"command": "echo hey"}] [then] [text the end]',
        **shared_gateway.environ,
    )
    assert terminal.wait_for_exit() == 0
    assert "▸ terminal: echo hey … ok" in terminal.text
    assert terminal.text.count("the end\n") == 1


def test_a_person_sees_that_the_model_is_asked_again(
    shared_gateway: CliGateway, open_terminal: Callable[..., Terminal]
) -> None:
    question = "[status 503 1] [times 1] [text the end]"
    terminal = open_terminal("ask", question, **shared_gateway.environ)
    terminal.wait_for_screen("↻ The model is overloaded; retrying in")
    assert terminal.wait_for_exit() == 0
    assert "(attempt 2 of 5)" in terminal.text


@pytest.mark.parametrize("timeout", ["0", "-1", "soon"])
def test_an_invalid_timeout_is_a_usage_error(cli: Cli, timeout: str) -> None:
    assert cli("ask", "--timeout", timeout, "x").returncode == exit_codes.USAGE


@pytest.mark.parametrize("command", [["ask", "x"], ["chat"]])
def test_a_session_without_a_name_is_a_usage_error(cli: Cli, command: list[str]) -> None:
    refused = cli(*command, "--session", "")
    assert refused.returncode == exit_codes.USAGE
    assert "Invalid value for '--session': The name is empty" in refused.stderr
