"""Approvals from the command line: in a chat, and with a command of their own."""

import json
from collections.abc import Callable

from tests.support.command_line import Cli, CliGateway, Terminal

from holdfast.system import exit_codes

SUDO = '[tool terminal {"command": "sudo -n true; echo it ran"}] [then] [text that was it]'


def pending(gateway: CliGateway, cli: Cli) -> list[dict[str, str]]:
    listed = cli("approvals", "list", "--json", **gateway.environ)
    found: list[dict[str, str]] = json.loads(listed.stdout)
    return found


def test_a_chat_shows_an_approval_and_accepts_a_yes(
    shared_gateway: CliGateway, open_terminal: Callable[..., Terminal]
) -> None:
    chat = open_terminal("chat", "--session", "asked", **shared_gateway.environ)
    chat.wait_for_text("/help")
    chat.type_line(SUDO)
    chat.wait_for_text("? May this run? It would run with the rights of another user")
    chat.wait_for_text("sudo -n true; echo it ran")
    chat.wait_for_text("yes, no, session or always")
    chat.type_line("yes")
    chat.wait_for_text("Approved: sudo -n true; echo it ran")
    chat.wait_for_text("that was it")


def test_a_script_can_answer_in_a_chat(shared_gateway: CliGateway, cli: Cli) -> None:
    done = cli("chat", "--session", "piped", stdin=f"{SUDO}\nno\n", **shared_gateway.environ)
    assert "Denied: sudo -n true" in done.stdout
    assert "that was it" in done.stdout


def test_a_script_that_asks_is_told_whose_approval_it_waits_for(
    shared_gateway: CliGateway, cli: Cli
) -> None:
    """Or it would wait in silence until the approval has expired."""
    asking = ("ask", "--session", "alone", "--message-id", "m1", "--timeout")
    pending_approval = "Waiting for approval: sudo -n true; echo it ran"
    while (
        pending_approval not in (late := cli(*asking, "1", SUDO, **shared_gateway.environ)).stderr
    ):
        assert late.returncode == 124
    (row,) = pending(shared_gateway, cli)
    assert f"`holdfast approvals approve {row['id']}`" in late.stderr
    cli("approvals", "deny", row["id"], **shared_gateway.environ)
    assert cli(*asking, "30", SUDO, **shared_gateway.environ).stdout == "that was it\n"


def test_an_approval_is_listed_answered_and_remembered(
    shared_gateway: CliGateway, cli: Cli, open_terminal: Callable[..., Terminal]
) -> None:
    chat = open_terminal("chat", "--session", "listed", **shared_gateway.environ)
    chat.wait_for_text("/help")
    chat.type_line(SUDO)
    chat.wait_for_text("May this run?")
    (row,) = pending(shared_gateway, cli)
    assert "pending, " in cli("approvals", "list", **shared_gateway.environ).stdout
    approved = cli(
        "approvals", "approve", "--scope", "always", row["id"][:-2], **shared_gateway.environ
    )
    assert approved.stdout == "Approved: sudo -n true; echo it ran\n"
    chat.wait_for_text("that was it")
    again = cli("approvals", "deny", row["id"], **shared_gateway.environ)
    assert again.returncode == exit_codes.FAILED
    assert "The operator has already approved this" in again.stderr
    listed = cli("approvals", "list", **shared_gateway.environ).stdout
    assert listed == "No command waits for approval.\n"
    (rule,) = json.loads(cli("approvals", "rules", "--json", **shared_gateway.environ).stdout)
    assert (rule["rule"], rule["scope"]) == ("become-root", "always")
    assert "become-root" in cli("approvals", "rules", **shared_gateway.environ).stdout
    assert cli("approvals", "revoke", rule["id"], **shared_gateway.environ).returncode == 0
    assert "No standing rules" in cli("approvals", "rules", **shared_gateway.environ).stdout
    assert (
        cli("approvals", "revoke", rule["id"], **shared_gateway.environ).returncode
        == exit_codes.FAILED
    )


def test_an_unknown_rule_is_refused_with_how_to_list_them(
    shared_gateway: CliGateway, cli: Cli
) -> None:
    refused = cli("approvals", "revoke", "nope", **shared_gateway.environ)
    assert refused.returncode == exit_codes.FAILED
    assert "There is no rule 'nope'. `holdfast approvals rules` lists" in refused.stderr


def test_a_single_approval_needs_no_id_and_without_one_the_command_says_so(
    shared_gateway: CliGateway, cli: Cli
) -> None:
    refused = cli("approvals", "approve", **shared_gateway.environ)
    assert refused.returncode == exit_codes.FAILED
    assert "No command waits for approval." in refused.stderr
    unknown = cli("approvals", "deny", "ap_nothing", **shared_gateway.environ)
    assert "is no approval" in unknown.stderr
