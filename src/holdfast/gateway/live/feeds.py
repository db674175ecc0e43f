"""Live feeds: who reads a session or the gateway, and what each reader has not been sent yet."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, Flag, auto
from itertools import chain
from typing import TypeVar

from holdfast.core.errors import InvalidTransition
from holdfast.core.ids import SessionId
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.ports.command import Committed
from holdfast.core.ports.store_commands import (
    DeleteSession,
    EndSession,
    ExpireSession,
    ImportSession,
    OpenNewSession,
    OpenSession,
    RenameSession,
    ReplaceSessionTitle,
    SuspendSession,
)
from holdfast.core.sessions.session import CommandEffect, CommandOutcome
from holdfast.core.turns.turn import BeginTurn, EndTurn

_MAX_PENDING = 512  # pieces; a reader that is further behind gets the whole step instead
# Seconds between two batches of pieces: more often is not visible, and each batch costs.
_MIN_INTERVAL = 0.02


class News(Flag):
    """What a reader lacks. Each flag is set until the reader takes it; `CLOSED` stays
    set."""

    RECORDS = auto()  # the transcript has new records
    SESSION = auto()  # the session itself: its state, its title, its route
    GATEWAY = auto()  # the state of the gateway or of an account
    AUDIT = auto()  # the audit log has new rows
    KEEPALIVE = auto()  # the connection has been idle
    CLOSED = auto()  # the session was deleted, or the gateway stops


_NO_NEWS = News(0)


class Subscription:
    """Owns what one reader has not been told yet. Used directly by readers that only need to know
    when the gateway stops."""

    __slots__ = ("_news", "wake")

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self._news = _NO_NEWS

    @property
    def closed(self) -> bool:
        return News.CLOSED in self._news

    def tell(self, news: News) -> None:
        self._news |= news
        self.wake.set()

    def take(self, news: News) -> bool:
        """Take this news; True if there was any."""
        assert News.CLOSED not in news, "a closed subscription stays closed"
        found = self._news & news
        self._news &= ~news
        return bool(found)


S = TypeVar("S", bound=Subscription)


class PieceState(Enum):
    """How much of the running step a reader has."""

    SENT = auto()  # all of it
    PENDING = auto()  # pieces are collected, and the reader wakes for them
    STALE = auto()  # its pieces were dropped or are invalid: it needs the whole step


PIECE_TRANSITIONS: Mapping[PieceState, frozenset[PieceState]] = {
    PieceState.SENT: frozenset({PieceState.PENDING, PieceState.STALE}),
    PieceState.PENDING: frozenset({PieceState.SENT, PieceState.STALE}),
    PieceState.STALE: frozenset({PieceState.SENT}),
}


class SessionFeed(Subscription):
    """Owns what one reader of a session has not been sent yet.

    Records are not in here: `News.RECORDS` reports that the transcript has new ones, and the reader
    fetches them there. Live content is replaceable: a reader that is too far behind drops the
    pieces and gets the whole step (`PieceState.STALE`). So a reader that takes nothing costs a
    bounded list.

    A piece after a pause is sent at once, and pieces that follow it closely are sent together.
    Records never wait.
    """

    __slots__ = ("_loop", "_read_at", "ends", "pieces", "state")

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._read_at = 0.0
        self.state = PieceState.SENT
        self.pieces: list[TurnEvent] = []
        self.ends: list[MessageEnded] = []

    def add(self, piece: TurnEvent) -> None:
        if self.state is PieceState.STALE:
            return  # the whole step includes this piece
        self.pieces.append(piece)
        if self.state is PieceState.SENT:
            self._set_state(PieceState.PENDING)
            at = self._read_at + _MIN_INTERVAL
            if at > self._loop.time():
                self._loop.call_at(at, self.wake.set)
            else:
                self.wake.set()
        elif len(self.pieces) > _MAX_PENDING:
            self.mark_stale()

    def take_pieces(self) -> list[TurnEvent]:
        """Take the pieces to send now; none if the reader sends the whole step instead."""
        pieces, self.pieces = self.pieces, []
        self._set_state(PieceState.SENT)
        self._read_at = self._loop.time()
        return pieces

    def mark_stale(self) -> None:
        self._set_state(PieceState.STALE)
        self.pieces.clear()

    def _set_state(self, to: PieceState) -> None:
        if to is not self.state and to not in PIECE_TRANSITIONS[self.state]:
            raise InvalidTransition(
                "a reader cannot go from {state} to {to}", state=self.state, to=to
            )
        self.state = to


class GatewayChanges(Subscription):
    """Owns which sessions have changed or were deleted since its reader last looked."""

    __slots__ = ("deleted", "sessions")

    def __init__(self) -> None:
        super().__init__()
        self.sessions: set[SessionId] = set()
        self.deleted: list[SessionId] = []


# These change the session itself: its state, its title, where its route points.
_SESSION_CHANGES = (
    BeginTurn,
    EndTurn,
    RenameSession,
    ReplaceSessionTitle,
    SuspendSession,
    OpenSession,
    OpenNewSession,
    EndSession,
    ExpireSession,
    ImportSession,
)


class SessionFeeds:
    """Owns the readers. A session without one costs a lookup."""

    def __init__(self) -> None:
        # Dicts as ordered sets: thousands of readers may leave at once.
        self._feeds: dict[SessionId, dict[SessionFeed, None]] = {}
        self._changes: dict[GatewayChanges, None] = {}
        self._listeners: dict[Subscription, None] = {}
        self._closed = False

    def publish(self, session_id: SessionId, piece: TurnEvent) -> None:
        """A piece of the running step, to be appended to the live view."""
        feeds = self._feeds.get(session_id)
        if feeds is not None:
            for feed in feeds:
                feed.add(piece)

    def on_committed(self, event: Committed) -> None:
        """Tell the readers of a session that more of it is stored or that it has changed, and the
        readers of the gateway that the audit log has new rows."""
        if not self._feeds and not self._changes:
            return
        if event.audited:
            self.audit_changed()
        command = event.command
        session_id = command.scope.session_id
        if isinstance(command, CommandEffect):
            forked = None if command.fork is None else command.fork.session_id
            parent = _parent_of_background(event.result)
            for each in (session_id, command.new_session, command.resume, forked, parent):
                if each is not None:
                    self.session_changed(each)
        elif session_id is None:
            return
        elif isinstance(command, DeleteSession):
            self.session_deleted(session_id)
        elif isinstance(command, _SESSION_CHANGES) and _has_changed(event):
            self.session_changed(session_id)
        for feed in self._feeds.get(session_id, ()) if session_id is not None else ():
            feed.tell(News.RECORDS)

    def message_ended(self, ended: MessageEnded) -> None:
        if ended.session_id is not None:
            for feed in self._feeds.get(ended.session_id, ()):
                feed.ends.append(ended)
                feed.wake.set()

    def live_step_replaced(self, session_id: SessionId) -> None:
        """Report that the live step was replaced: the pieces sent so far are invalid."""
        for feed in self._feeds.get(session_id, ()):
            feed.mark_stale()
            feed.wake.set()

    def session_changed(self, session_id: SessionId) -> None:
        """Report that the session itself changed: its state, its title, where its route points."""
        for feed in self._feeds.get(session_id, ()):
            feed.mark_stale()
            feed.tell(News.SESSION)
        for changes in self._changes:
            changes.sessions.add(session_id)
            changes.wake.set()

    def session_deleted(self, session_id: SessionId) -> None:
        for feed in self._feeds.get(session_id, ()):
            feed.tell(News.CLOSED)
        for changes in self._changes:
            changes.sessions.discard(session_id)
            changes.deleted.append(session_id)
            changes.wake.set()

    def gateway_changed(self) -> None:
        """Report that the gateway itself changed: it stops, will stop or has reached another phase,
        or one of its accounts has another state."""
        for changes in self._changes:
            changes.tell(News.GATEWAY)

    def audit_changed(self) -> None:
        """Report that the audit log has new rows."""
        for changes in self._changes:
            changes.tell(News.AUDIT)

    def close(self) -> None:
        """End every reader, because the gateway stops. Readers reconnect to its successor."""
        self._closed = True
        feeds = chain.from_iterable(self._feeds.values())
        for subscription in chain[Subscription](feeds, self._changes, self._listeners):
            subscription.tell(News.CLOSED)

    @contextmanager
    def read_session(self, session_id: SessionId) -> Iterator[SessionFeed]:
        feed = self._opened(SessionFeed())
        self._feeds.setdefault(session_id, {})[feed] = None
        try:
            yield feed
        finally:
            feeds = self._feeds[session_id]
            del feeds[feed]
            if not feeds:
                del self._feeds[session_id]

    @contextmanager
    def read_changes(self) -> Iterator[GatewayChanges]:
        changes = self._opened(GatewayChanges())
        self._changes[changes] = None
        try:
            yield changes
        finally:
            del self._changes[changes]

    @contextmanager
    def listen_for_shutdown(self) -> Iterator[Subscription]:
        """A subscription for readers of something else, which end when the gateway stops."""
        listener = self._opened(Subscription())
        self._listeners[listener] = None
        try:
            yield listener
        finally:
            del self._listeners[listener]

    def _opened(self, subscription: S) -> S:
        if self._closed:
            subscription.tell(News.CLOSED)
        return subscription


def _has_changed(event: Committed) -> bool:
    """Whether a command of `_SESSION_CHANGES` has changed the session itself."""
    if isinstance(event.command, EndTurn):
        return any(end.ends_session for end in event.command.inbox_ends)
    if isinstance(event.command, OpenSession | OpenNewSession):
        # If the route pointed to another session by then, that one continues unchanged.
        return bool(event.result == event.command.session_id)
    return event.result is not False


def _parent_of_background(outcome: CommandOutcome) -> SessionId | None:
    """The session that a background subagent works for; its commit may have opened that session."""
    accepted = outcome.background
    subagent = None if accepted is None else accepted.row.inbound.subagent
    return None if subagent is None else subagent.parent
