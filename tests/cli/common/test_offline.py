"""K1: with no gateway running, the command line takes the lock, and the endpoints of the API answer
from the store in its process."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.stored_turn import store_answered_turn
from tests.support.command_line import Cli

from holdfast.system import exit_codes
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "home").mkdir(mode=0o700)
    made = Paths(tmp_path / "home")
    asyncio.run(store_answered_turn(made))
    return made


def test_sessions_are_listed_from_the_store(cli: Cli, paths: Paths) -> None:
    """K1: with no gateway running the CLI takes the lock itself."""
    [session] = json.loads(cli("sessions", "list", "--json").stdout)["sessions"]
    assert session["id"] == "s_1"
    assert session["messages"] == 2
    assert session["resume_pending"], "it is told as a gateway would tell it"
    assert "s_1" in cli("sessions", "list").stdout
    with HomeLock(paths.home):
        pass


def test_a_session_is_read_from_the_store(cli: Cli, paths: Paths) -> None:
    shown = cli("sessions", "show", "s_1")
    assert "what is it?" in shown.stdout
    assert "It is late." in shown.stdout
    assert "1 answered" in shown.stdout
    document = json.loads(cli("sessions", "show", "s_1", "--json").stdout)
    assert [turn["id"] for turn in document["turns"]] == ["t_1"]
    assert cli("sessions", "show", "s_9").returncode == exit_codes.FAILED


def test_a_broken_configuration_hides_no_conversation(cli: Cli, paths: Paths) -> None:
    paths.config_file.write_text("[gateway]\nprot = 1\n")
    assert "s_1" in cli("sessions", "list").stdout
    assert cli("memory", "show").stdout == "There are no notes.\n"


def test_the_configured_secrets_are_redacted(cli: Cli, paths: Paths) -> None:
    """As a gateway redacts them: the same endpoints answer."""
    paths.config_file.write_text('[model]\nprovider = "openai"\napi_key = "env:KEY"\n')
    shown = cli("sessions", "show", "s_1", KEY="It is late.")
    assert "[redacted]" in shown.stdout and "It is late." not in shown.stdout


def test_a_locked_home_is_not_read(cli: Cli, paths: Paths) -> None:
    """K1: one process owns the data."""
    with HomeLock(paths.home):
        refused = cli("sessions", "list")
    assert refused.returncode == exit_codes.HOME_IN_USE
    assert "is in use" in refused.stderr


def test_a_home_without_a_store_has_no_sessions(cli: Cli, tmp_path: Path) -> None:
    assert cli("sessions", "list").stdout == "No sessions.\n"
    assert not (tmp_path / "home").exists()


def test_a_home_without_accounts_says_how_to_add_one(cli: Cli) -> None:
    assert "`holdfast platforms add telegram`" in cli("platforms", "list").stdout


def test_a_file_that_is_not_a_database_is_refused_with_a_reason(cli: Cli, paths: Paths) -> None:
    for file in paths.home.glob("state.db*"):
        file.unlink()
    paths.db.write_text("not a database at all\n" * 500)
    refused = cli("sessions", "list")
    assert refused.returncode == exit_codes.FAILED
    assert "Traceback" not in refused.stderr
