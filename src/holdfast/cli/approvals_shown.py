"""Approvals as the command line shows and answers them."""

import time
from urllib.parse import quote

import click
import msgspec

from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import format_duration, format_time, print_json, print_table
from holdfast.core.errors import HoldfastError
from holdfast.core.people.approval import ApprovalState
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.approval_views import (
    ApprovalDecisionParams,
    ApprovalRuleView,
    ApprovalView,
)
from holdfast.server.local.client import GatewayRefused

_MAX_COMMAND_WIDTH = 60
_MAX_APPROVALS = 1000
_NOT_FOUND = 404


def print_approvals(api: ApiClient, *, everything: bool, limit: int, as_json: bool) -> None:
    query = {"limit": limit, "pending": "false" if everything else "true"}
    approvals = api.get("/approvals", list[ApprovalView], query)
    if as_json:
        print_json(msgspec.to_builtins(approvals))
    elif not approvals:
        click.echo("Nothing was ever asked." if everything else "Nothing waits for approval.")
    else:
        print_table(
            ["ID", "STATE", "FOR", "COMMAND", "WHY"],
            [
                [
                    each.id,
                    _state_text(each),
                    each.requester,
                    _one_line(each.command),
                    sanitize(each.reason),
                ]
                for each in approvals
            ],
        )


def answer_approval(api: ApiClient, id_prefix: str | None, answer: ApprovalDecisionParams) -> None:
    """`given`: an id or the beginning of one; None: the only one there is."""
    approval = _find_approval(api, id_prefix)
    ended = api.post(f"/approvals/{approval.id}", answer, ApprovalView)
    click.echo(f"{ended.state.capitalize()}: {_one_line(ended.command)}")


def print_rules(api: ApiClient, *, as_json: bool) -> None:
    rules = api.get("/approval-rules", list[ApprovalRuleView])
    if as_json:
        print_json(msgspec.to_builtins(rules))
    elif not rules:
        click.echo("No approval stands: everything dangerous is asked about.")
    else:
        print_table(
            ["ID", "RULE", "SCOPE", "FOR", "SINCE"],
            [
                [each.id, each.rule, each.scope, each.principal, format_time(each.created_at)]
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
            f"There is no rule {rule_id!r}; `holdfast approvals rules` has them all."
        ) from None
    click.echo("Revoked: it is asked about again.")


def approval_prompt(approval: ApprovalView, *, is_only: bool) -> str:
    """The question, for a chat in the terminal."""
    command = "\n".join(f"  {line}" for line in approval.command.splitlines())
    left = format_duration(max(0.0, approval.deadline - time.time()))
    plain = "yes, no, session or always" if approval.rule else "yes or no"
    how = plain if is_only else f"/approve {approval.number} or /deny {approval.number}"
    return f"? May this run? {approval.reason}\n{command}\n  {how} · {left} left"


def _find_approval(api: ApiClient, id_prefix: str | None) -> ApprovalView:
    if id_prefix is None:
        pending = api.get(
            "/approvals", list[ApprovalView], {"pending": "true", "limit": _MAX_APPROVALS}
        )
        if not pending:
            raise HoldfastError("Nothing waits for approval.")
        if len(pending) > 1:
            raise HoldfastError(
                f"{len(pending)} wait for approval; say which: `holdfast approvals list` has "
                "their ids."
            )
        return pending[0]
    known = api.get("/approvals", list[ApprovalView], {"limit": _MAX_APPROVALS})
    found = [each for each in known if each.id.startswith(id_prefix)]
    if len(found) != 1:
        how_many = f"the beginning of {len(found)} approvals" if found else "no approval"
        raise HoldfastError(f"{id_prefix} is {how_many}; `holdfast approvals list --all` has them.")
    return found[0]


def _state_text(approval: ApprovalView) -> str:
    if approval.state is not ApprovalState.PENDING:
        return approval.state
    return f"pending, {format_duration(max(0.0, approval.deadline - time.time()))} left"


def _one_line(command: str) -> str:
    line = sanitize(" ".join(command.split()))
    return line if len(line) <= _MAX_COMMAND_WIDTH else f"{line[: _MAX_COMMAND_WIDTH - 1]}…"
