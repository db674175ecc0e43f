"""A word that is wanted: whoever waits for an answer hears that a command waits for a person."""

import click

from holdfast.cli.common.harmless import safe
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.approval_views import ApprovalView
from holdfast.server.api.views.message_views import MessageView


class WordWanted:
    """Owns which approvals were told of, each once. On standard error: a script that waits may be
    read by nobody else, and would wait until the approval has expired."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._told: set[str] = set()

    def tell(self, view: MessageView) -> None:
        if view.session_id is None:
            return
        query = {"pending": "true", "session": view.session_id}
        for approval in self._api.get("/approvals", list[ApprovalView], query):
            if approval.id not in self._told:
                self._told.add(approval.id)
                click.echo(_said(approval), err=True)


def _said(approval: ApprovalView) -> str:
    return (
        f"It waits for a person's word: {safe(approval.command)}\n"
        f"  {safe(approval.why)}\n"
        f"  `holdfast approvals approve {approval.id}` lets it run; `deny` does not."
    )
