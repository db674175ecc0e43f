"""`holdfast judge` prints the verdict about a command, as text and as JSON."""

import json

from click.testing import CliRunner

from holdfast.cli.root import cli


def test_the_command_prints_level_rule_and_reason() -> None:
    ended = CliRunner().invoke(cli, ["judge", "sudo ls"])
    assert ended.exit_code == 0
    assert "dangerous" in ended.output
    assert "become-root" in ended.output
    assert "rights of another user" in ended.output


def test_the_command_prints_json_for_programs() -> None:
    ended = CliRunner().invoke(cli, ["judge", "--json", "rm -rf /"])
    found = json.loads(ended.output)
    assert (found["level"], found["part"]) == ("forbidden", "/")
    assert found["rule"] == "delete-the-system"


def test_a_harmless_command_has_no_reason() -> None:
    ended = CliRunner().invoke(cli, ["judge", "ls -la"])
    assert ended.output.strip() == "level  harmless: runs without approval"
