"""Progress: what happens while somebody waits for an answer, on standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.cli.conversation import Conversation
from holdfast.cli.screen import Screen
from holdfast.control.api_client import ApiClient
from holdfast.control.following import Follower, Happened, Lost


class StepsOnly(Screen):
    """A screen for the steps alone: the answer itself goes elsewhere."""

    def stream(self, piece: str) -> None:
        if piece:
            self.passing("answering …")


@contextmanager
def progress(api: ApiClient, session_id: str, *, asked: str) -> Iterator[None]:
    """Show the steps of a session for a person who watches; nothing where nobody does."""
    if not sys.stderr.isatty():
        yield
        return
    screen = StepsOnly(sys.stderr)
    records = api.session(session_id, limit=1).records
    conversation = Conversation(screen)
    conversation.typed(asked)

    # In the follower's thread: the one that waits has nothing else to show.
    def show() -> None:
        for what in follower.take():
            if isinstance(what, Happened):
                conversation.take(what)
            elif isinstance(what, Lost):
                screen.passing("reconnecting …")

    after = records[-1].seq if records else 0
    with Follower(api, session_id, after=after, wake=show) as follower:
        yield
    screen.clear()
