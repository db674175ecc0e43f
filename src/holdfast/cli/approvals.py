"""`holdfast approvals`: what waits for a person's word, answering it, and the words that stand."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option

_approval_argument = click.argument("approval", metavar="[ID]", required=False)


@click.group("approvals")
@home_option
def command() -> None:
    """List dangerous commands that wait for approval, and answer them.

    An approval is named by its id or the beginning of it; where only one is pending, it need not
    be named. The running gateway is asked.

    \b
    Examples:
      holdfast approvals list
      holdfast approvals approve --scope session
      holdfast approvals deny --why "Not before the backup is through."
    """


@command.command("list")
@home_option
@json_option
@click.option("--all", "everything", is_flag=True, help="Those that have ended, too.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
def list_approvals(as_json: bool, everything: bool, limit: int) -> None:
    """What waits, the newest first."""
    from holdfast.cli.approvals_shown import print_approvals  # noqa: PLC0415 - not for --help
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - as above

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
    help="Also what is like it: in its conversation, or for good.",
)
def approve(approval: str | None, scope: str) -> None:
    """Let it run."""
    from holdfast.cli.approvals_shown import answer_approval  # noqa: PLC0415 - not for --help
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - as above
    from holdfast.core.people.approval import ApprovalScope  # noqa: PLC0415 - as above
    from holdfast.server.api.views.approval_views import ApprovalDecisionParams, ApprovalVerdict  # noqa: PLC0415 - as above

    said = ApprovalDecisionParams(answer=ApprovalVerdict.APPROVE, scope=ApprovalScope(scope))
    answer_approval(api_client_for(chosen_home()), approval, said)


@command.command("deny")
@home_option
@_approval_argument
@click.option("--why", default="", help="What the agent is told.")
def deny(approval: str | None, why: str) -> None:
    """Do not let it run."""
    from holdfast.cli.approvals_shown import answer_approval  # noqa: PLC0415 - not for --help
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - as above
    from holdfast.server.api.views.approval_views import ApprovalDecisionParams, ApprovalVerdict  # noqa: PLC0415 - as above

    said = ApprovalDecisionParams(answer=ApprovalVerdict.DENY, comment=why)
    answer_approval(api_client_for(chosen_home()), approval, said)


@command.command("rules")
@home_option
@json_option
def rules(as_json: bool) -> None:
    """The approvals that stand."""
    from holdfast.cli.approvals_shown import print_rules  # noqa: PLC0415 - not for --help
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - as above

    print_rules(api_client_for(chosen_home()), as_json=as_json)


@command.command("revoke")
@home_option
@click.argument("rule", metavar="RULE-ID")
def revoke_rule(rule: str) -> None:
    """Take a standing approval back."""
    from holdfast.cli.approvals_shown import delete_rule  # noqa: PLC0415 - not for --help
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - as above

    delete_rule(api_client_for(chosen_home()), rule)
