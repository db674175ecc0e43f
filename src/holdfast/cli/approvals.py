"""`holdfast approvals`: lists and answers pending approvals, and manages standing rules."""

import time
from urllib.parse import quote

import click
import msgspec

from holdfast.cli.common.connection import api_client_for
from holdfast.cli.common.language import state_text
from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option, one_line, print_json, print_table, sanitize
from holdfast.core.errors import HoldfastError
from holdfast.core.people.approval import ApprovalScope, ApprovalState
from holdfast.core.text.locale_format import format_duration, format_time
from holdfast.core.text.translation import _
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.sessions import (
    ApprovalDecisionParams,
    ApprovalRuleView,
    ApprovalVerdict,
    ApprovalView,
)
from holdfast.server.local.control_client import GatewayRefused

_approval_argument = click.argument("approval", metavar="[ID]", required=False)


@click.group("approvals")
@home_option
def command() -> None:
    """List dangerous commands that wait for approval, and answer them.

    Name an approval by its id or the beginning of it. If only one is pending, you can leave the id
    out. Needs a running gateway.

    \b
    Examples:
      holdfast approvals list
      holdfast approvals approve --scope session
      holdfast approvals deny --why "Not before the backup is through."
    """


@command.command("list")
@home_option
@json_option
@click.option(
    "--all", "everything", is_flag=True, help="Include approvals that were already decided."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
def list_approvals(as_json: bool, everything: bool, limit: int) -> None:
    """List pending approvals, the newest first."""
    api = api_client_for(chosen_home())
    print_approvals(api, everything=everything, limit=limit, as_json=as_json)


@command.command("approve")
@home_option
@_approval_argument
@click.option(
    "--scope",
    type=click.Choice(["once", "session", "always"]),
    default="once",
    show_default=True,
    help="Also approve similar commands: in the same conversation, or always.",
)
def approve(approval: str | None, scope: str) -> None:
    """Approve a command."""
    decision = ApprovalDecisionParams(answer=ApprovalVerdict.APPROVE, scope=ApprovalScope(scope))
    answer_approval(api_client_for(chosen_home()), approval, decision)


@command.command("deny")
@home_option
@_approval_argument
@click.option("--why", default="", help="Why you deny it; the agent reads this.")
def deny(approval: str | None, why: str) -> None:
    """Deny a command."""
    decision = ApprovalDecisionParams(answer=ApprovalVerdict.DENY, comment=why)
    answer_approval(api_client_for(chosen_home()), approval, decision)


@command.command("rules")
@home_option
@json_option
def rules(as_json: bool) -> None:
    """List the standing approval rules."""
    print_rules(api_client_for(chosen_home()), as_json=as_json)


@command.command("revoke")
@home_option
@click.argument("rule", metavar="RULE-ID")
def revoke_rule(rule: str) -> None:
    """Revoke a standing rule."""
    delete_rule(api_client_for(chosen_home()), rule)


_MAX_COMMAND_WIDTH = 60
_MAX_APPROVALS = 1000
_NOT_FOUND = 404


def print_approvals(api: ApiClient, *, everything: bool, limit: int, as_json: bool) -> None:
    query = {"limit": limit, "pending": "false" if everything else "true"}
    approvals = api.get("/approvals", list[ApprovalView], query)
    if as_json:
        print_json(msgspec.to_builtins(approvals))
    elif not approvals:
        click.echo(
            _("There were no approvals yet.") if everything else _("No command waits for approval.")
        )
    else:
        print_table(
            [_("ID"), _("STATE"), _("FOR"), _("COMMAND"), _("WHY")],
            [
                [
                    each.id,
                    _state_text(each),
                    each.requester,
                    one_line(each.command, width=_MAX_COMMAND_WIDTH),
                    sanitize(each.reason),
                ]
                for each in approvals
            ],
        )


def answer_approval(api: ApiClient, id_prefix: str | None, answer: ApprovalDecisionParams) -> None:
    """`id_prefix` None: the only pending approval."""
    approval = _find_approval(api, id_prefix)
    decided = api.post(f"/approvals/{approval.id}", answer, ApprovalView)
    state = state_text(decided.state).capitalize()
    click.echo(f"{state}: {one_line(decided.command, width=_MAX_COMMAND_WIDTH)}")


def print_rules(api: ApiClient, *, as_json: bool) -> None:
    rules = api.get("/approval-rules", list[ApprovalRuleView])
    if as_json:
        print_json(msgspec.to_builtins(rules))
    elif not rules:
        click.echo(_("No standing rules: every dangerous command needs approval."))
    else:
        print_table(
            [_("ID"), _("RULE"), _("TARGET"), _("SCOPE"), _("FOR"), _("UNTIL")],
            [
                [
                    each.id,
                    each.rule,
                    one_line(each.target or "", width=_MAX_COMMAND_WIDTH),
                    each.scope,
                    each.principal,
                    format_time(each.expires_at),
                ]
                for each in rules
            ],
        )


def delete_rule(api: ApiClient, rule_id: str) -> None:
    try:
        api.request("DELETE", f"/approval-rules/{quote(rule_id, safe='')}")
    except GatewayRefused as refused:
        if refused.status != _NOT_FOUND:
            raise
        raise HoldfastError(
            "There is no rule {rule!r}. `holdfast approvals rules` lists all rules.",
            rule=rule_id,
        ) from None
    click.echo(_("The rule is revoked: such commands need approval again."))


def approval_prompt(approval: ApprovalView, *, is_only: bool) -> str:
    """The question to the user of a chat in the terminal."""
    command = "\n".join(f"  {line}" for line in approval.command.splitlines())
    left = format_duration(max(0.0, approval.deadline - time.time()))
    if not is_only:
        how = _("/approve {number} or /deny {number}").format(number=approval.number)
    elif approval.rule:
        how = _("yes, no, session or always")
    else:
        how = _("yes or no")
    return _("? May this run? {reason}\n{command}\n  {how} · {time} left").format(
        reason=approval.reason, command=command, how=how, time=left
    )


def _find_approval(api: ApiClient, id_prefix: str | None) -> ApprovalView:
    if id_prefix is None:
        pending = api.get(
            "/approvals", list[ApprovalView], {"pending": "true", "limit": _MAX_APPROVALS}
        )
        if not pending:
            raise HoldfastError("No command waits for approval.")
        if len(pending) > 1:
            raise HoldfastError(
                "{n} commands wait for approval. Choose one by its id: `holdfast approvals list` "
                "shows the ids.",
                n=len(pending),
            )
        return pending[0]
    known = api.get("/approvals", list[ApprovalView], {"limit": _MAX_APPROVALS})
    found = [each for each in known if each.id.startswith(id_prefix)]
    if not found:
        raise HoldfastError(
            "There is no approval {id}. `holdfast approvals list --all` lists all approvals.",
            id=id_prefix,
        )
    if len(found) > 1:
        raise HoldfastError(
            "{n} approvals have an id that begins with {id}. Type more of the id; "
            "`holdfast approvals list --all` shows the ids.",
            n=len(found),
            id=id_prefix,
        )
    return found[0]


def _state_text(approval: ApprovalView) -> str:
    if approval.state is not ApprovalState.PENDING:
        return state_text(approval.state)
    left = format_duration(max(0.0, approval.deadline - time.time()))
    return _("pending, {time} left").format(time=left)
