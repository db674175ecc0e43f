"""`holdfast search`: through the running gateway, or from the store where none runs."""

import asyncio
import json
from pathlib import Path

from tests.cli.stored_turn import store_answered_turn
from tests.support.command_line import Cli, CliGateway

from holdfast.system import exit_codes
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths


def test_words_are_found_through_the_gateway(shared_gateway: CliGateway, cli: Cli) -> None:
    cli("ask", "--session", "search", "[text the capstan turns]", **shared_gateway.environ)
    shown = cli("search", "capst", "turns", **shared_gateway.environ)
    assert "assistant: the capstan turns" in shown.stdout
    found = json.loads(cli("search", "--json", "capstan", **shared_gateway.environ).stdout)["found"]
    assert {hit["session"]["chat"] for hit in found} == {"search"}
    narrowed = cli(
        "search", "--session", "search", "--days", "1", "capstan", **shared_gateway.environ
    )
    assert "capstan" in narrowed.stdout
    assert cli("search", "--platform", "api", "capstan", **shared_gateway.environ).stdout == (
        "No message found.\n"
    )
    again = cli("search", "--rebuild", "capstan", **shared_gateway.environ)
    assert "Search index rebuilt" in again.stdout and "capstan" in again.stdout


def test_words_are_found_with_no_gateway(cli: Cli, tmp_path: Path) -> None:
    """K1: with no gateway running the CLI takes the lock itself."""
    paths = Paths(tmp_path / "home")
    assert cli("search", "late").stdout == "No message found.\n"
    paths.home.mkdir(mode=0o700)
    asyncio.run(store_answered_turn(paths))
    assert "It is late." in cli("search", "late").stdout
    assert "It is late." in cli("search", "--session", "s_1", "late").stdout
    made = json.loads(cli("search", "--rebuild", "--json").stdout)
    assert (made["messages"], made["pending_sessions"]) == (2, 0)
    with HomeLock(paths.home):
        assert cli("search", "late").returncode == exit_codes.HOME_IN_USE


def test_a_search_without_words_is_a_usage_error(cli: Cli) -> None:
    assert cli("search").returncode == 2
