"""A word that is wanted: whoever waits for an answer hears that a command waits for a person."""

import click

from holdfast.cli.common.harmless import sanitize
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.approval_views import ApprovalView
from holdfast.server.api.views.message_views import MessageView


class PendingApprovalNotifier:
    """Owns which approvals were told of, each once. On standard error: a script that waits may be
    read by nobody else, and would wait until the approval has expired."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._notified: set[str] = set()

    def notify(self, message: MessageView) -> None:
        if message.session_id is None:
            return
        query = {"pending": "true", "session": message.session_id}
        for approval in self._api.get("/approvals", list[ApprovalView], query):
            if approval.id not in self._notified:
                self._notified.add(approval.id)
                click.echo(_approval_notice(approval), err=True)


def _approval_notice(approval: ApprovalView) -> str:
    return (
        f"It waits for a person's word: {sanitize(approval.command)}\n"
        f"  {sanitize(approval.reason)}\n"
        f"  `holdfast approvals approve {approval.id}` lets it run; `deny` does not."
    )
