"""`holdfast chat` at a real terminal, with a real gateway that is stopped, killed and restarted."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.command_line import Cli, CliGateway, Terminal

from holdfast.system import exit_codes
from holdfast.testing.misbehaving_model.process import ModelProcess

OpenTerminal = Callable[..., Terminal]

CTRL_C, CTRL_D, TAB, UP = "\x03", "\x04", "\t", "\x1b[A"


def workspace(gateway: CliGateway, file: str) -> Path:
    """Wait until a command has made a file of that name; the workspace it is in."""
    deadline = time.monotonic() + 60
    while not (found := list(gateway.home.glob(f"workspaces/*/{file}"))):
        assert time.monotonic() < deadline, f"no command has made {file}"
        time.sleep(0.01)
    [made] = found
    return made.parent


def test_a_message_is_typed_and_its_reply_streams_in(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c1", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("[text some **bold** and `code` here]")
    terminal.wait_for_screen("\nsome bold and code here")
    terminal.wait_for_prompt()
    assert "\x1b[1mbold\x1b[0m" in terminal.raw
    assert re.search(r"\x1b\[[0-9;]*36[0-9;]*mcode\x1b\[0m", terminal.raw)
    terminal.type_keys(CTRL_D)
    assert terminal.wait_for_exit() == 0
    assert terminal.cursor_column == 0, "the shell continues on a line of its own"


def test_a_tool_step_is_one_line(shared_gateway: CliGateway, open_terminal: OpenTerminal) -> None:
    terminal = open_terminal("chat", "--session", "c2", **shared_gateway.environ)
    terminal.wait_for_prompt()
    command = "touch c2; echo one; until test -e go; do sleep 0.05; done; echo two"
    terminal.type_line(f'[tool terminal {{"command": "{command}"}}] [then] [text done]')
    terminal.wait_for_screen(f"▸ terminal: {command} … one")
    workspace(shared_gateway, "c2").joinpath("go").touch()
    terminal.wait_for_screen(f"▸ terminal: {command} … ok ")
    terminal.wait_for_screen("done")
    terminal.wait_for_prompt()


def test_ctrl_c_stops_the_running_turn_and_the_chat_continues(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c3", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("[delay 2] [text a b c d e f g h i j k l m n o p q r s t u v w x y z]")
    terminal.wait_for_screen("\na b")
    terminal.type_keys(CTRL_C)
    terminal.wait_for_screen("■ stopped by its user")
    assert terminal.screen.count("z") == 1, "only as it was typed"
    terminal.wait_for_prompt()
    terminal.type_line("[text still here]")
    terminal.wait_for_screen("\nstill here")
    terminal.wait_for_prompt()


def test_ctrl_c_at_the_prompt_clears_the_line(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c4", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_keys("never sent")
    terminal.wait_for_screen("never sent")
    terminal.type_keys(CTRL_C)
    terminal.wait_for_prompt()
    terminal.type_line("[text only this]")
    terminal.wait_for_screen("\nonly this")
    terminal.type_keys(CTRL_D)
    terminal.wait_for_exit()
    assert "You said" not in terminal.screen


def test_a_gateway_killed_during_a_reply_loses_nothing(
    gateway: CliGateway, model: ModelProcess, open_terminal: OpenTerminal
) -> None:
    """Nothing is lost and nothing comes twice: the same text is caught up with in silence."""
    count = {"match": "count", "text": "one two three four five six seven eight nine ten"}
    model.script({**count, "fault": "stall"}, count)  # half of it, until the next request
    terminal = open_terminal("chat")
    terminal.wait_for_prompt()
    terminal.type_line("count")
    terminal.wait_for_screen("one two three")
    gateway.kill()
    terminal.wait_for_screen(
        "reconnecting … (The connection to the gateway was lost: it closed the connection"
    )
    gateway.start()
    terminal.wait_for_screen("connected again")
    terminal.wait_for_prompt()  # whatever of it had come before is not said again
    for word in ("two", "five", "nine"):
        assert terminal.screen.count(word) == 1, terminal.screen


def test_a_message_typed_while_the_gateway_is_down_is_sent_once_it_is_back(
    gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat")
    terminal.wait_for_prompt()
    gateway.kill()
    terminal.wait_for_screen("reconnecting …")
    terminal.type_line("[text heard you]")
    terminal.wait_for_screen("The message will be sent when the gateway is back.")
    gateway.start()
    terminal.wait_for_screen("\nheard you")
    terminal.wait_for_prompt()
    assert terminal.screen.count("\nheard you") == 1


def test_a_chat_continues_its_session_and_joins_a_running_turn(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c7", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("[text first answer]")
    terminal.wait_for_screen("\nfirst answer")
    terminal.wait_for_prompt()
    call = '[tool terminal {"command": "touch c7; until test -e go; do sleep 0.05; done"}]'
    words = "alpha beta gamma delta epsilon zeta eta theta iota"
    terminal.type_line(f"[delay 0.2] [text {words}] {call} [then] [text kappa]")
    terminal.wait_for_screen("\nalpha beta")
    terminal.type_keys(CTRL_D)
    assert terminal.wait_for_exit() == 0
    assert "The agent keeps working" in terminal.screen

    again = open_terminal("chat", "--session", "c7", **shared_gateway.environ)
    again.wait_for_screen("> [text first answer]")
    again.wait_for_screen("\nfirst answer")
    again.wait_for_screen("> [delay 0.2]")
    again.wait_for_screen("\nalpha beta")
    again.wait_for_screen("theta iota")
    again.wait_for_screen("▸ terminal: touch c7")
    workspace(shared_gateway, "c7").joinpath("go").touch()
    again.wait_for_screen("\nkappa")
    again.wait_for_prompt()
    assert again.screen.count("\nalpha beta") == 1


def test_text_typed_during_a_turn_follows_the_busy_mode(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c8", "--mode", "queue", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("[delay 0.15] [text one two three four five six seven]")
    terminal.wait_for_screen("\none")
    terminal.type_line("[text the second]")
    terminal.wait_for_screen("seven")
    terminal.wait_for_screen("\nthe second")
    terminal.wait_for_prompt()


def test_several_lines_are_one_message(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c9", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("first \\")
    terminal.wait_for_screen("\n…")
    terminal.type_line("second")
    terminal.wait_for_screen("You said: first\nsecond")
    terminal.wait_for_prompt()
    terminal.type_line('"""')
    terminal.wait_for_screen("\n…")
    terminal.type_line("in a block")
    terminal.wait_for_screen("\n…")
    terminal.type_line('"""')
    terminal.wait_for_screen("You said: in a block")
    terminal.wait_for_prompt()
    terminal.type_keys("\x1b[200~pasted\rlines\x1b[201~\r")
    terminal.wait_for_screen("You said: pasted\nlines")


def test_commands_complete_and_the_history_is_kept_private(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c10", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_keys("/he" + TAB)
    terminal.wait_for_screen("\n> /help")
    terminal.type_keys("\r")
    terminal.wait_for_screen("Anything else you write goes to the agent.")
    terminal.wait_for_prompt()
    terminal.type_keys(CTRL_D)
    terminal.wait_for_exit()
    history = shared_gateway.home / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    again = open_terminal("chat", "--session", "c10", **shared_gateway.environ)
    again.wait_for_prompt()
    again.type_keys(UP)
    again.wait_for_screen("/help")


def test_a_message_queued_by_command_is_answered_once_on_the_screen(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    """/queue says when, and what follows it is a message like any other."""
    terminal = open_terminal("chat", "--session", "c10q", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("/queue [text for later]")
    terminal.wait_for_screen("\nfor later")
    terminal.wait_for_prompt()
    terminal.type_line("/status")
    terminal.wait_for_screen("Session:")
    assert terminal.screen.count("for later") == 2, "as it was typed, and as it was answered"


def test_a_new_session_replaces_the_old_one(
    shared_gateway: CliGateway, open_terminal: OpenTerminal, cli: Cli
) -> None:
    terminal = open_terminal("chat", "--session", "c11", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("[text before]")
    terminal.wait_for_screen("\nbefore")
    terminal.wait_for_prompt()
    terminal.type_line("/new")
    terminal.wait_for_screen("A new conversation begins.")
    terminal.wait_for_prompt()
    terminal.type_line("[text after]")
    terminal.wait_for_screen("\nafter")
    terminal.type_keys(CTRL_D)
    terminal.wait_for_exit()
    again = open_terminal("chat", "--session", "c11", **shared_gateway.environ)
    again.wait_for_screen("> [text after]")
    assert "before" not in again.screen
    again.type_keys(CTRL_D)
    again.wait_for_exit()
    anew = cli(
        "chat", "--session", "c11", "--new", stdin="[text fresh]\n", **shared_gateway.environ
    )
    assert anew.stdout == "fresh\n"


def test_model_output_cannot_control_the_terminal(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c12", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line('[tool terminal {"command": "printf x"}] [then] [text done]')
    terminal.wait_for_screen("done")
    terminal.wait_for_prompt()
    terminal.type_keys("\x1b[200~[text a\x1bPowned\x07b]\x1b[201~\r")
    terminal.wait_for_screen("\na\N{REPLACEMENT CHARACTER}Powned\N{REPLACEMENT CHARACTER}b")
    assert "\x1bPowned" not in terminal.raw


def test_a_pipe_is_a_conversation_too(shared_gateway: CliGateway, cli: Cli) -> None:
    done = cli(
        "chat",
        "--session",
        "c13",
        stdin="[text one]\n[text two\\\n more]\n",
        **shared_gateway.environ,
    )
    assert done.returncode == 0
    assert done.stdout == "one\ntwo\n more\n"
    assert "\x1b" not in done.stdout


def test_a_dumb_terminal_gets_plain_lines(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c14", TERM="dumb", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("[text plain **text**]")
    terminal.wait_for_screen("\nplain **text**\n")
    terminal.wait_for_prompt()
    assert "\x1b" not in terminal.raw
    terminal.type_keys(CTRL_D)
    assert terminal.wait_for_exit() == 0


def test_without_a_gateway_the_chat_says_how_to_start_one(cli: Cli) -> None:
    down = cli("chat", stdin="")
    assert down.returncode == exit_codes.GATEWAY_DOWN
    assert "holdfast run" in down.stderr
    assert "Traceback" not in down.stderr


def test_a_reply_longer_than_the_screen_is_shown_once(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c15", **shared_gateway.environ)
    terminal.wait_for_prompt()
    lines = [f"line{number:03} 家族" for number in range(90)]
    text = "\n".join(["[delay 0.005] [text", *lines, "end]"])
    terminal.type_keys(f"\x1b[200~{text}\x1b[201~")
    terminal.wait_for_screen("end]")
    terminal.type_keys("\r")
    terminal.wait_for_screen("\nend\n")
    terminal.wait_for_prompt()
    shown = terminal.screen.rpartition("end]\n")[2].splitlines()
    assert shown == [*lines, "end", ">"]


def test_messages_typed_in_one_go_are_sent_one_after_the_other(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal(
        "chat", "--session", "c16", "--mode", "queue", **shared_gateway.environ
    )
    terminal.wait_for_prompt()
    terminal.type_keys("[text the first]\r[text the second]\r")
    terminal.wait_for_screen("\nthe first")
    terminal.wait_for_screen("\nthe second")
    terminal.wait_for_prompt()


def test_the_lines_of_a_message_can_be_edited_until_it_is_sent(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c17", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("first \\")
    terminal.wait_for_screen("\n…")
    terminal.type_keys(f"second{UP}\x05!")  # up to the first line, to its end
    terminal.wait_for_screen("> first !")
    terminal.type_keys("\r")
    terminal.wait_for_screen("You said: first !\nsecond")


def test_without_colours_a_reply_is_rendered_without_them(
    shared_gateway: CliGateway, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal("chat", "--session", "c18", NO_COLOR="1", **shared_gateway.environ)
    terminal.wait_for_prompt()
    terminal.type_line("[text some `code` here]")
    terminal.wait_for_screen("\nsome code here")
    terminal.wait_for_prompt()
    styles = ";".join(re.findall(r"\x1b\[([0-9;]*)m", terminal.raw)).split(";")
    assert set(styles).isdisjoint(str(number) for number in (*range(30, 49), *range(90, 108)))
