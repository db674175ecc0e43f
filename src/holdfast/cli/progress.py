"""Progress: what happens while somebody waits for an answer, on standard error."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.cli.chat.conversation import Conversation
from holdfast.cli.chat.screen import Screen
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.following import Follower, Happened, Lost
from holdfast.server.api.views.event_views import EndedEvent


class StepsOnly(Screen):
    """A screen for the steps alone: the answer itself goes elsewhere."""

    def stream(self, piece: str) -> None:
        if piece:
            self.passing("answering …")


class Shown:
    """Owns what has been shown so far of the end of messages."""

    def __init__(self) -> None:
        self._ended: set[int] = set()
        self._news = threading.Condition()

    def ended(self, message: int) -> None:
        with self._news:
            self._ended.add(message)
            self._news.notify_all()

    def until(self, message: int, *, within: float) -> bool:
        """True once all steps of this message are on the screen; False if that takes longer."""
        with self._news:
            return self._news.wait_for(lambda: message in self._ended, within)


@contextmanager
def progress(api: ApiClient, session_id: str, *, asked: str) -> Iterator[Shown | None]:
    """Show the steps of a session for a person who watches; nothing where nobody does."""
    if not sys.stderr.isatty():
        yield None
        return
    screen = StepsOnly(sys.stderr)
    records = api.session(session_id, limit=1).records
    conversation = Conversation(screen)
    conversation.typed(asked)
    shown = Shown()

    # In the follower's thread: the one that waits has nothing else to show.
    def show() -> None:
        for what in follower.take():
            if isinstance(what, Happened):
                conversation.take(what)
                if isinstance(what.body, EndedEvent):
                    shown.ended(what.body.id)
            elif isinstance(what, Lost):
                screen.passing("reconnecting …")

    after = records[-1].seq if records else 0
    # Named before its thread begins, which may have something to show at once.
    follower = Follower(api, session_id, after=after, wake=show)
    with follower:
        yield shown
    screen.clear()
