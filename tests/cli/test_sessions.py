"""`holdfast sessions` with a running gateway: found by name, followed, exported and imported."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.command_line import HOLDFAST, Cli, CliGateway, Terminal, environment

from holdfast.system import exit_codes


def test_sessions_are_listed_and_shown_by_name_id_and_its_beginning(
    shared_gateway: CliGateway, cli: Cli
) -> None:
    cli(
        "ask",
        "--session",
        "garden",
        '[tool terminal {"command": "echo x; exit 3"}]',
        **shared_gateway.environ,
    )
    listed = json.loads(cli("sessions", "list", "--json", **shared_gateway.environ).stdout)[
        "sessions"
    ]
    [session] = [each for each in listed if each["chat"] == "garden"]
    table = cli("sessions", "list", **shared_gateway.environ).stdout.splitlines()
    [row] = [line for line in table if session["id"] in line]
    at = table[0].index
    assert row[at("TITLE") : at("MESSAGES")].strip() == session["title"]
    assert row[at("CHAT") :] == "web:garden"
    for name in ("garden", session["id"], session["id"][:-2]):
        shown = cli("sessions", "show", name, **shared_gateway.environ)
        assert "▸ terminal: echo x; exit 3" in shown.stdout
        assert "tool terminal · failed (exit code 3) · " in shown.stdout
        assert "1 answered" in shown.stdout


def test_the_title_of_a_session_is_seen_on_a_terminal_of_80_columns(
    shared_gateway: CliGateway, cli: Cli, tmp_path: Path
) -> None:
    cli("ask", "--session", "greenhouse", "tomatoes", **shared_gateway.environ)
    terminal = Terminal(
        "sessions", "list", environ=environment(tmp_path) | shared_gateway.environ, columns=80
    )
    assert terminal.wait_for_exit() == 0
    terminal.close()
    lines = terminal.text.splitlines()
    assert "TITLE" in lines[0]
    assert all(len(line) <= 80 for line in lines)
    [shown] = [line for line in lines if "tomatoes" in line]
    found = json.loads(cli("sessions", "list", "--json", **shared_gateway.environ).stdout)
    assert shown.split()[0] in {each["id"] for each in found["sessions"]}, "an id is never cut"


def test_a_wrong_name_is_answered_with_the_nearest(shared_gateway: CliGateway, cli: Cli) -> None:
    cli("ask", "--session", "kitchen", "hi", **shared_gateway.environ)
    for command in ("show", "follow", "export", "delete"):
        refused = cli("sessions", command, "kitchn", **shared_gateway.environ)
        assert refused.returncode == exit_codes.FAILED
        assert "Did you mean kitchen?" in refused.stderr


def test_a_session_is_exported_imported_and_deleted(
    shared_gateway: CliGateway, cli: Cli, tmp_path: Path
) -> None:
    cli("ask", "--session", "moving", "[text house]", **shared_gateway.environ)
    file = tmp_path / "out.jsonl"
    assert (
        cli("sessions", "export", "moving", "-o", str(file), **shared_gateway.environ).returncode
        == 0
    )
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == cli("sessions", "export", "moving", **shared_gateway.environ).stdout
    again = cli("sessions", "export", "moving", "-o", str(file), **shared_gateway.environ)
    assert "already exists" in again.stderr

    taken = cli("sessions", "import", "--json", str(file), **shared_gateway.environ)
    copy = json.loads(taken.stdout)["id"]
    assert "house" in cli("sessions", "show", copy, **shared_gateway.environ).stdout
    kept = cli("sessions", "delete", copy, stdin="n\n", **shared_gateway.environ)
    assert kept.returncode != 0
    assert cli("sessions", "delete", "--yes", copy, **shared_gateway.environ).returncode == 0
    gone = cli("sessions", "show", copy, **shared_gateway.environ)
    assert gone.returncode == exit_codes.FAILED
    assert "There is no session" in gone.stderr


def test_an_invalid_import_is_refused_with_a_reason(shared_gateway: CliGateway, cli: Cli) -> None:
    for lines in ("", "not json\n", '{"a": 1}\n'):
        refused = cli("sessions", "import", stdin=lines, **shared_gateway.environ)
        assert refused.returncode == exit_codes.FAILED
        assert "Traceback" not in refused.stderr


def test_a_session_is_watched_live(
    shared_gateway: CliGateway, cli: Cli, open_terminal: Callable[..., Terminal]
) -> None:
    cli("ask", "--session", "stage", "[text act one]", **shared_gateway.environ)
    watcher = open_terminal("sessions", "follow", "stage", **shared_gateway.environ)
    watcher.wait_for_text("act one")
    cli("ask", "--session", "stage", "[text act two]", **shared_gateway.environ)
    watcher.wait_for_text("> [text act two]")
    watcher.wait_for_text("\nact two")
    watcher.type_keys("\x03")
    assert watcher.wait_for_exit() == 0


def test_events_are_followed_as_json(shared_gateway: CliGateway, cli: Cli) -> None:
    cli("ask", "--session", "events", "[text told]", **shared_gateway.environ)
    with subprocess.Popen(
        [HOLDFAST, "sessions", "follow", "events", "--json"],
        env=shared_gateway.environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        events = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.kill()
    assert [event["event"] for event in events] == ["record", "record", "live"]
    assert events[1]["data"]["message"]["text"] == "told"


def test_a_link_opens_the_page(shared_gateway: CliGateway, cli: Cli) -> None:
    first, second = (cli("link", **shared_gateway.environ).stdout.strip() for _ in range(2))
    assert first.startswith(f"{shared_gateway.address}/")
    assert first != second
    assert json.loads(cli("link", "--json", **shared_gateway.environ).stdout)["link"] != second
    assert cli("link").returncode == exit_codes.GATEWAY_DOWN


def test_an_ended_session_can_be_read_and_is_shown_as_ended(
    shared_gateway: CliGateway, cli: Cli
) -> None:
    cli("ask", "--session", "closed", "[text the old one]", **shared_gateway.environ)
    listed = json.loads(cli("sessions", "list", "--json", **shared_gateway.environ).stdout)[
        "sessions"
    ]
    [old] = [each["id"] for each in listed if each["chat"] == "closed"]
    assert (
        cli("chat", "--session", "closed", "--new", stdin="", **shared_gateway.environ).returncode
        == 0
    )
    refused = cli("chat", "--session", old, stdin="hello?\n", **shared_gateway.environ)
    assert "the old one" in refused.stdout
    assert "has ended" in refused.stdout
    assert refused.returncode == 0


def test_the_sessions_of_subagents_are_listed_on_request(
    shared_gateway: CliGateway, cli: Cli
) -> None:
    task = json.dumps({"tasks": [{"task": "dig [text dug]"}]})
    text = f"[tool delegate {task}] [then] [text done]"
    assert "done" in cli("ask", "--session", "digging", text, **shared_gateway.environ).stdout
    plain = cli("sessions", "list", **shared_gateway.environ).stdout
    assert "web:digging" in plain
    assert "internal:" not in plain
    listed = cli("sessions", "list", "--subagents", "--json", **shared_gateway.environ).stdout
    sessions = json.loads(listed)["sessions"]
    assert "house" not in {each["platform"] for each in sessions}  # its stored name
    internal = [each["id"] for each in sessions if each["platform"] == "internal"]
    # Not all of them are this child's: the same gateway runs the jobs of other tests.
    shown = [cli("sessions", "show", each, **shared_gateway.environ).stdout for each in internal]
    assert ["dug" in each for each in shown].count(True) == 1
