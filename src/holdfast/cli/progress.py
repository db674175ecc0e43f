"""Progress: what happens while somebody waits for an answer, on standard error."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.cli.chat.conversation import ConversationView
from holdfast.cli.chat.screen import Screen
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.following import ReceivedEvent, SessionFollower, StreamLost
from holdfast.server.api.views.event_views import EndedEvent


class StepsOnlyScreen(Screen):
    """A screen for the steps alone: the answer itself goes elsewhere."""

    def stream(self, piece: str) -> None:
        if piece:
            self.print_transient("answering …")


class ProgressTracker:
    """Owns what has been shown so far of the end of messages."""

    def __init__(self) -> None:
        self._ended: set[int] = set()
        self._condition = threading.Condition()

    def mark_ended(self, message: int) -> None:
        with self._condition:
            self._ended.add(message)
            self._condition.notify_all()

    def wait_until_ended(self, message: int, *, timeout: float) -> bool:
        """True once all steps of this message are on the screen; False if that takes longer."""
        with self._condition:
            return self._condition.wait_for(lambda: message in self._ended, timeout)


@contextmanager
def show_progress(
    api: ApiClient, session_id: str, *, question: str
) -> Iterator[ProgressTracker | None]:
    """Show the steps of a session for a person who watches; nothing where nobody does."""
    if not sys.stderr.isatty():
        yield None
        return
    screen = StepsOnlyScreen(sys.stderr)
    records = api.read_session(session_id, limit=1).records
    conversation = ConversationView(screen)
    conversation.add_typed(question)
    shown = ProgressTracker()

    # In the follower's thread: the one that waits has nothing else to show.
    def show() -> None:
        for what in follower.take():
            if isinstance(what, ReceivedEvent):
                conversation.handle_event(what)
                if isinstance(what.body, EndedEvent):
                    shown.mark_ended(what.body.id)
            elif isinstance(what, StreamLost):
                screen.print_transient("reconnecting …")

    after = records[-1].seq if records else 0
    # Named before its thread begins, which may have something to show at once.
    follower = SessionFollower(api, session_id, after=after, wake=show)
    with follower:
        yield shown
    screen.clear()
