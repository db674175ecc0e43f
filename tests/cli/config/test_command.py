"""`holdfast config set`, `history`, `diff` and `rollback`, with a gateway and without one."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.command_line import Cli, CliGateway, Terminal

from holdfast.cli.config.command import complete_words
from holdfast.core.config.versions import ConfigSource, NewConfigVersion
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system import exit_codes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_keys_are_set_without_a_gateway_and_say_when_they_take_effect(cli: Cli, home: Path) -> None:
    values = ("agent.max_steps", "40", "model.provider", "demo", "gateway.watch", "true")
    done = cli("config", "set", *values)
    assert done.returncode == 0, done.stderr
    assert "agent.max_steps: 90 → 40\n  takes effect at the next turn" in done.stdout
    assert "gateway.watch: true, as before; only holdfast.toml changes" in done.stdout
    assert "No gateway is running: the change applies from the next start." in done.stdout
    file = home / "holdfast.toml"
    agent, model, gateway = "[agent]\nmax_steps = 40\n", '[model]\nprovider = "demo"\n', "[gateway]"
    assert file.read_text() == f"{agent}\n{model}\n{gateway}\nwatch = true\n"
    assert file.stat().st_mode & 0o777 == 0o600
    again = cli("config", "set", "agent.max_steps", "40", "--json")
    assert json.loads(again.stdout)["changes"] == []


def test_a_configuration_that_a_start_would_refuse_is_not_written(cli: Cli, home: Path) -> None:
    refused = cli("config", "set", "platforms.telegram.token", "123:secret-secret")
    assert refused.returncode == exit_codes.CONFIG_EXIT
    assert "is a secret itself" in refused.stderr
    assert 'write "env:TELEGRAM_TOKEN" here' in refused.stderr
    assert "secret-secret" not in refused.stderr + refused.stdout
    assert "Nothing was written" in refused.stderr
    assert not (home / "holdfast.toml").exists()
    unpaired = cli("config", "set", "gateway.port")
    assert "gateway.port has no value" in unpaired.stderr
    overridden = cli("config", "set", "gateway.port", "80", HOLDFAST_GATEWAY_PORT="7000")
    assert "HOLDFAST_GATEWAY_PORT takes precedence over holdfast.toml" in overridden.stdout
    none = cli("config", "history")
    assert "No configuration is saved yet" in none.stdout


def test_tab_completes_keys_and_then_their_values() -> None:
    assert complete_words((), "gateway.busy") == ["gateway.busy_mode"]
    assert complete_words(("gateway.busy_mode",), "") == ["interrupt", "queue", "steer"]
    assert complete_words(("auxiliary.titles",), "f") == ["false"]
    assert complete_words(("model.name", "x"), "platforms.irc.ni") == ["platforms.irc.nick"]
    assert "platforms.irc." in complete_words((), "plat")
    assert complete_words(("nonsense",), "") == []


def test_a_running_gateway_applies_a_change_and_its_history_outlives_it(
    cli: Cli, gateway: CliGateway, open_terminal: Callable[..., Terminal]
) -> None:
    file = gateway.home / "holdfast.toml"
    began = file.read_text()
    done = cli(
        "config", "set", "agent.max_steps", "40", "runner.output_kb", "64", **gateway.environ
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"The gateway has applied configuration \d+\.", done.stdout)
    assert "Restart required for: runner.output_kb" in done.stdout
    shown = cli("config", "show", **gateway.environ).stdout
    assert re.search(r"runner\.output_kb .* 64 +\(restart required; running with 32\)", shown)
    elsewhere = cli("config", "show", **gateway.environ, HOLDFAST_AGENT_MAX_STEPS="7").stdout
    assert "7  (the running gateway has 40: holdfast.toml)" in elsewhere
    refused = cli("config", "set", "agent.toolsets", "nonsense", **gateway.environ)
    assert "Nothing was written" in refused.stderr
    refused = cli("config", "set", "agent.max_steps", "0", **gateway.environ)
    assert refused.returncode == exit_codes.CONFIG_EXIT
    assert "agent.max_steps: the value does not fit this key" in refused.stderr
    assert "max_steps = 40" in file.read_text()

    listed = json.loads(cli("config", "history", "--json", **gateway.environ).stdout)
    newest, first = listed["versions"]
    assert (newest["active"], first["source"]) == (True, "start")
    assert newest["changed"] == ["agent.max_steps", "runner.output_kb"]
    number = str(first["number"])
    diff = cli("config", "diff", number, str(newest["number"]), **gateway.environ).stdout
    assert "+max_steps = 40" in diff
    answer = json.loads(cli("config", "diff", number, "--json", **gateway.environ).stdout)
    assert (answer["from"], answer["to"], sorted(answer["changed"])) == (1, None, newest["changed"])
    assert "+max_steps = 40" in answer["diff"]
    unasked = cli("config", "rollback", number, stdin="", **gateway.environ)
    assert "nothing changed" in unasked.stderr
    check_rollback_refused(
        open_terminal, file, number, "(409): The configuration was changed after you read it"
    )
    back = cli("config", "rollback", number, "--yes", **gateway.environ)
    assert back.returncode == 0, back.stderr
    assert file.read_text() == began
    gateway.stop()
    history = cli("config", "history", **gateway.environ).stdout
    assert "command line (rollback)  agent.max_steps, runner.output_kb" in history
    assert re.search(r"^1 .* start *$", history, re.MULTILINE)
    check_rollback_refused(open_terminal, file, number, "was changed elsewhere a moment ago")
    again = cli("config", "rollback", str(newest["number"]), "--yes", **gateway.environ)
    assert "applies from the next start" in again.stdout
    assert "max_steps = 40" in file.read_text()


def test_a_rolled_back_configuration_keeps_its_password_and_does_not_show_it(
    cli: Cli, home: Path
) -> None:
    text = '[platforms.webhook]\nurl = "https://me:hunter2hunter2@example.org/in"\n'
    new = NewConfigVersion(at=1.0, by="start", source=ConfigSource.START, text=text, signature="")

    async def save() -> int:
        async with SqliteStore(home / "state.db") as store:
            return await store.write(new)

    home.mkdir(mode=0o700)
    number = str(asyncio.run(save()))
    shown = cli("config", "diff", number, "--json")
    done = cli("config", "rollback", number, "--yes")
    assert done.returncode == 0, done.stderr
    assert (home / "holdfast.toml").read_text() == text
    for run in (shown, done):
        assert "https://me:***@example.org/in" in run.stdout
        assert "hunter2" not in run.stdout + run.stderr


def check_rollback_refused(
    open_terminal: Callable[..., Terminal], file: Path, number: str, why: str
) -> None:
    """A rollback that was confirmed for one change is refused if the file changed meanwhile."""
    terminal = open_terminal("config", "rollback", number)
    terminal.wait_for_text(f"Restore configuration {number}?")
    file.write_text(f"{file.read_text()}# by somebody else\n")
    terminal.type_line("y")
    terminal.wait_for_text(why)
    assert terminal.wait_for_exit() != 0
    assert file.read_text().endswith("# by somebody else\n")
