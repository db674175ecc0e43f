"""`holdfast memory`: notes shown and changed from the shell, with a gateway and without one."""

import json

from tests.support.command_line import Cli, CliGateway

from holdfast.system import exit_codes


def test_notes_are_added_shown_edited_and_forgotten(shared_gateway: CliGateway, cli: Cli) -> None:
    def memory(*args: str, **more: str) -> str:
        done = cli("memory", *args, **more, **shared_gateway.environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "There are no notes" in memory("show")
    assert "9 of 4000 characters" in memory("add", "likes tea")
    memory("add", "--about", "world", "the server is kelp")
    shown = memory("show")
    assert "person:owner" in shown and "likes tea" in shown and "world" in shown
    assert "changed" in memory("edit", "1", "likes coffee")
    (notebook,) = json.loads(memory("show", "--json"))
    assert [note["text"] for note in notebook["notes"]] == ["likes coffee", "the server is kelp"]
    assert "Note 2 is forgotten" in memory("forget", "2")
    notes = cli("memory", "clear", stdin="n\n", **shared_gateway.environ)
    assert notes.returncode != 0 and "likes coffee" in memory("show")
    memory("add", "--owner", "person:x:default:ann", "afraid of cats")
    unsaid = cli("memory", "clear", "--yes", **shared_gateway.environ)
    assert unsaid.returncode == exit_codes.FAILED and "--owner" in unsaid.stderr
    for owner in ("person:owner", "person:x:default:ann"):
        memory("clear", "--yes", "--owner", owner)
    assert "There are no notes" in memory("show")


def test_an_unknown_note_is_refused(shared_gateway: CliGateway, cli: Cli) -> None:
    for args in (("edit", "77", "x"), ("forget", "77")):
        refused = cli("memory", *args, "--owner", "person:owner", **shared_gateway.environ)
        assert refused.returncode == exit_codes.FAILED
        assert "person:owner has no note 77. `holdfast memory show`" in refused.stderr


def test_if_one_of_several_notes_is_unknown_none_is_deleted(
    shared_gateway: CliGateway, cli: Cli
) -> None:
    owner = ("--owner", "person:x:default:bob")
    cli("memory", "add", *owner, "likes rain", **shared_gateway.environ)
    refused = cli("memory", "forget", *owner, "1", "77", **shared_gateway.environ)
    assert refused.returncode == exit_codes.FAILED
    assert "likes rain" in cli("memory", "show", *owner, **shared_gateway.environ).stdout
    cleared = cli("memory", "clear", *owner, stdin="y\n", **shared_gateway.environ)
    assert "Forget the only note of" in cleared.stderr


def test_the_audit_says_what_was_changed(shared_gateway: CliGateway, cli: Cli) -> None:
    owner = ("--owner", "person:x:default:eve")
    cli("memory", "add", *owner, "likes snow", **shared_gateway.environ)
    cli("memory", "clear", "--yes", *owner, **shared_gateway.environ)
    lines = cli(
        "audit", "--kind", "memory", "--text", "eve", **shared_gateway.environ
    ).stdout.splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["add", "clear"]


def test_without_a_gateway_notes_can_be_read_and_not_changed(cli: Cli) -> None:
    assert "There are no notes" in cli("memory", "show").stdout
    refused = cli("memory", "add", "x")
    assert refused.returncode == exit_codes.GATEWAY_DOWN
    assert "No gateway is running" in refused.stderr


def test_a_provider_that_is_not_installed_is_an_error_of_the_configuration(cli: Cli) -> None:
    refused = cli("run", "--port", "0", HOLDFAST_MEMORY_PROVIDERS="nots")
    assert refused.returncode == exit_codes.CONFIG_EXIT
    assert "memory.providers names 'nots'" in refused.stderr
    assert "Did you mean 'notes'?" in refused.stderr
