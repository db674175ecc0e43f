"""`holdfast chat` at a real terminal, with a real gateway that is stopped, killed and restarted."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.command_line import CliGateway, Terminal

from holdfast.system import exit_codes
from holdfast.testing.misbehaving_model.process import ModelProcess

Cli = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Terminal]

CTRL_C, CTRL_D, TAB, UP = "\x03", "\x04", "\t", "\x1b[A"


def workspace(gateway: CliGateway, file: str) -> Path:
    """The one in which a command has made a file of that name, once it has."""
    deadline = time.monotonic() + 60
    while not (found := list(gateway.home.glob(f"workspaces/*/{file}"))):
        assert time.monotonic() < deadline, f"no command has made {file}"
        time.sleep(0.01)
    [made] = found
    return made.parent


def test_a_message_is_typed_and_its_reply_streams_in(
    shared_gateway: CliGateway, open_terminal: Start
) -> None:
    person = open_terminal("chat", "--session", "c1", **shared_gateway.where)
    person.sees("> ")
    person.says("[text some **bold** and `code` here]")
    person.sees("some bold and `code` here")
    person.sees("> ")
    # A word can be streamed in several pieces, each with its own style codes.
    raw = person.raw.replace("\x1b[0m\x1b[1m", "").replace("\x1b[0m\x1b[36m", "")
    assert "\x1b[1mbold\x1b[0m" in raw
    assert "\x1b[36m`code`\x1b[0m" in raw
    person.types(CTRL_D)
    assert person.leaves() == 0
    assert person.text.endswith("> \n"), "the shell goes on in a line of its own"


def test_a_tool_step_is_one_folded_line(shared_gateway: CliGateway, open_terminal: Start) -> None:
    person = open_terminal("chat", "--session", "c2", **shared_gateway.where)
    person.sees("> ")
    command = "touch c2; echo one; until test -e go; do sleep 0.05; done; echo two"
    person.says(f'[tool terminal {{"command": "{command}"}}] [then] [text done]')
    person.sees(f"▸ terminal: {command} … one")
    workspace(shared_gateway, "c2").joinpath("go").touch()
    person.sees(f"▸ terminal: {command} … ok ")
    person.sees("done")
    person.sees("> ")


def test_what_runs_is_stopped_by_ctrl_c_and_the_chat_goes_on(
    shared_gateway: CliGateway, open_terminal: Start
) -> None:
    person = open_terminal("chat", "--session", "c3", **shared_gateway.where)
    person.sees("> ")
    person.says("[delay 2] [text a b c d e f g h i j k l m n o p q r s t u v w x y z]")
    person.sees("\na b")
    person.types(CTRL_C)
    rest = person.sees("■ stopped by its user")
    assert "z" not in rest
    person.sees("> ")
    person.says("[text still here]")
    person.sees("\nstill here")
    person.sees("> ")


def test_ctrl_c_at_the_prompt_clears_the_line(
    shared_gateway: CliGateway, open_terminal: Start
) -> None:
    person = open_terminal("chat", "--session", "c4", **shared_gateway.where)
    person.sees("> ")
    person.types("never sent")
    person.sees("never sent")
    # Python's readline misses a signal in the instant between its echo and its next wait.
    person.until_it_waits()
    person.types(CTRL_C)
    person.sees("> ")
    person.says("[text only this]")
    person.sees("\nonly this")
    person.types(CTRL_D)
    person.leaves()
    assert "You said" not in person.text


def test_a_gateway_killed_in_the_middle_of_a_reply_costs_nothing(
    gateway: CliGateway, model: ModelProcess, open_terminal: Start
) -> None:
    """Nothing is lost and nothing comes twice: the same text is caught up with in silence."""
    count = {"match": "count", "text": "one two three four five six seven eight nine ten"}
    model.script({**count, "fault": "stall"}, count)  # half of it, until somebody asks again
    person = open_terminal("chat")
    person.sees("> ")
    person.says("count")
    before = person.sees("three")
    gateway.kill()
    person.sees("reconnecting … (the connection to the gateway was lost: it hung up")
    gateway.start()
    person.sees("connected again")
    person.sees("> ")  # whatever of it had come before is not said again
    for word in ("two", "five", "nine"):
        assert person.text.count(word) == 1, person.text
    assert "one two" in before


def test_a_message_typed_while_the_gateway_is_down_is_sent_once_it_is_back(
    gateway: CliGateway, open_terminal: Start
) -> None:
    person = open_terminal("chat")
    person.sees("> ")
    gateway.kill()
    person.sees("reconnecting …")
    person.says("[text heard you]")
    person.sees("It is sent as soon as the gateway is back.")
    gateway.start()
    person.sees("\nheard you")
    person.sees("> ")
    assert person.text.count("\nheard you") == 1


def test_a_chat_goes_on_where_it_was_and_joins_what_still_runs(
    shared_gateway: CliGateway, open_terminal: Start
) -> None:
    person = open_terminal("chat", "--session", "c7", **shared_gateway.where)
    person.sees("> ")
    person.says("[text first answer]")
    person.sees("\nfirst answer")
    person.sees("> ")
    call = '[tool terminal {"command": "touch c7; until test -e go; do sleep 0.05; done"}]'
    words = "alpha beta gamma delta epsilon zeta eta theta iota"
    person.says(f"[delay 0.2] [text {words}] {call} [then] [text kappa]")
    person.sees("\nalpha beta")
    person.types(CTRL_D)
    assert person.leaves() == 0
    assert "The work goes on" in person.text

    again = open_terminal("chat", "--session", "c7", **shared_gateway.where)
    again.sees("> [text first answer]")
    again.sees("\nfirst answer")
    again.sees("> [delay 0.2]")
    again.sees("\nalpha beta")
    again.sees("theta iota")
    again.sees("▸ terminal: touch c7")
    workspace(shared_gateway, "c7").joinpath("go").touch()
    again.sees("\nkappa")
    again.sees("> ")
    assert again.text.count("\nalpha beta") == 1


def test_what_is_typed_meanwhile_does_what_the_mode_says(
    shared_gateway: CliGateway, open_terminal: Start
) -> None:
    person = open_terminal("chat", "--session", "c8", "--mode", "queue", **shared_gateway.where)
    person.sees("> ")
    person.says("[delay 0.15] [text one two three four five six seven]")
    person.sees("\none")
    person.says("[text the second]")
    person.sees("seven")
    person.sees("\nthe second")
    person.sees("> ")


def test_several_lines_are_one_message(shared_gateway: CliGateway, open_terminal: Start) -> None:
    person = open_terminal("chat", "--session", "c9", **shared_gateway.where)
    person.sees("> ")
    person.says("first \\")
    person.sees("… ")
    person.says("second")
    person.sees("You said: first \nsecond")
    person.sees("> ")
    person.says('"""')
    person.sees("… ")
    person.says("in a block")
    person.sees("… ")
    person.says('"""')
    person.sees("You said: in a block")
    person.sees("> ")
    person.types("\x1b[200~pasted\rlines\x1b[201~\r")
    person.sees("You said: pasted\nlines")


def test_commands_complete_and_the_history_is_kept_private(
    shared_gateway: CliGateway, open_terminal: Start
) -> None:
    person = open_terminal("chat", "--session", "c10", **shared_gateway.where)
    person.sees("> ")
    person.types("/he" + TAB)
    person.sees("/help ")
    person.types("\r")
    person.sees("Anything else you write goes to the agent.")
    person.sees("> ")
    person.types(CTRL_D)
    person.leaves()
    history = shared_gateway.home / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    again = open_terminal("chat", "--session", "c10", **shared_gateway.where)
    again.sees("> ")
    again.types(UP)
    again.sees("/help")


def test_what_is_queued_by_command_is_answered_once_on_the_screen(
    shared_gateway: CliGateway, open_terminal: Start
) -> None:
    """/queue says when, and what follows it is a message like any other."""
    person = open_terminal("chat", "--session", "c10q", **shared_gateway.where)
    person.sees("> ")
    person.says("/queue [text for later]")
    person.sees("\nfor later")
    person.sees("> ")
    person.says("/status")
    person.sees("Session:")
    assert person.text.count("for later") == 2, "as it was typed, and as it was answered"


def test_a_new_conversation_takes_the_place_of_the_old(
    shared_gateway: CliGateway, open_terminal: Start, cli: Cli
) -> None:
    person = open_terminal("chat", "--session", "c11", **shared_gateway.where)
    person.sees("> ")
    person.says("[text before]")
    person.sees("\nbefore")
    person.sees("> ")
    person.says("/new")
    person.sees("A new conversation begins.")
    person.sees("> ")
    person.says("[text after]")
    person.sees("\nafter")
    person.types(CTRL_D)
    person.leaves()
    again = open_terminal("chat", "--session", "c11", **shared_gateway.where)
    again.sees("> [text after]")
    assert "before" not in again.text
    again.types(CTRL_D)
    again.leaves()
    anew = cli("chat", "--session", "c11", "--new", stdin="[text fresh]\n", **shared_gateway.where)
    assert anew.stdout == "fresh\n"


def test_what_a_model_writes_cannot_steer_the_terminal(
    shared_gateway: CliGateway, open_terminal: Start
) -> None:
    person = open_terminal("chat", "--session", "c12", **shared_gateway.where)
    person.sees("> ")
    person.says('[tool terminal {"command": "printf x"}] [then] [text done]')
    person.sees("done")
    person.sees("> ")
    person.types("[text a\x16\x1bPowned\x16\x07b]\r")
    person.sees("\na\N{REPLACEMENT CHARACTER}Powned\N{REPLACEMENT CHARACTER}b")
    assert "\x1bPowned" not in person.raw


def test_a_pipe_is_a_conversation_too(shared_gateway: CliGateway, cli: Cli) -> None:
    done = cli(
        "chat",
        "--session",
        "c13",
        stdin="[text one]\n[text two\\\n more]\n",
        **shared_gateway.where,
    )
    assert done.returncode == 0
    assert done.stdout == "one\ntwo\n more\n"
    assert "\x1b" not in done.stdout


def test_a_dumb_terminal_gets_plain_lines(shared_gateway: CliGateway, open_terminal: Start) -> None:
    person = open_terminal("chat", "--session", "c14", TERM="dumb", **shared_gateway.where)
    person.sees("> ")
    person.says("[text plain **text**]")
    person.sees("\nplain **text**\n")
    person.sees("> ")
    assert "\x1b" not in person.raw
    person.types(CTRL_D)
    assert person.leaves() == 0


def test_without_a_gateway_one_is_told_how_to_start_it(cli: Cli) -> None:
    down = cli("chat", stdin="")
    assert down.returncode == exit_codes.GATEWAY_DOWN
    assert "holdfast run" in down.stderr
    assert "Traceback" not in down.stderr
