"""Live feeds: who looks at a session or at the gateway, and what is new to them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from holdfast.core.ids import SessionId
from holdfast.core.messages.events import MessageEnded, TurnEvent

_MAX_PENDING = 512  # pieces; one who is further behind gets the whole of the step instead
_MIN_INTERVAL = 0.02  # seconds between two tellings of pieces: no eye sees more, and each one costs


class SessionFeed:
    """What one reader of a session has not been told yet.

    Facts are not in here: `committed` says that the log has more of them, and the reader asks
    there. What is live is replaceable: one who is too far behind drops the pieces and looks at
    the whole (`stale`). So a reader that takes nothing costs a bounded list.

    A piece after a pause is told at once, those that follow it closely together; facts never
    wait.
    """

    __slots__ = (
        "_loop",
        "_read_at",
        "_wake_scheduled",
        "changed",
        "closed",
        "committed",
        "ends",
        "keepalive_due",
        "pieces",
        "stale",
        "wake",
    )

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._read_at = 0.0
        self._wake_scheduled = False  # the pieces there are will wake the reader
        self.pieces: list[TurnEvent] = []
        self.ends: list[MessageEnded] = []
        self.committed = False
        self.stale = False
        self.changed = False
        self.keepalive_due = False
        self.closed = False

    def add(self, piece: TurnEvent) -> None:
        if self.stale:
            return  # the whole, when it is looked at, has this piece too
        self.pieces.append(piece)
        if not self._wake_scheduled:
            self._wake_scheduled = True
            at = self._read_at + _MIN_INTERVAL
            if at > self._loop.time():
                self._loop.call_at(at, self.wake.set)
            else:
                self.wake.set()
        elif len(self.pieces) > _MAX_PENDING:
            self.mark_stale()

    def take_pieces(self) -> list[TurnEvent]:
        """What is to be told now, for its reader."""
        pieces, self.pieces = self.pieces, []
        self._wake_scheduled = False
        self._read_at = self._loop.time()
        return pieces

    def mark_stale(self) -> None:
        self.stale = True
        self.pieces.clear()


class GatewayChanges:
    """Which sessions have changed since its one reader last looked, and whether the gateway has."""

    __slots__ = ("audit", "closed", "deleted", "gateway", "keepalive_due", "sessions", "wake")

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.sessions: set[SessionId] = set()
        self.deleted: list[SessionId] = []
        self.gateway = False
        self.audit = False  # it has more rows
        self.keepalive_due = False
        self.closed = False


class ShutdownListener:
    """Reads what is told elsewhere, and has to know only when the gateway stops."""

    __slots__ = ("closed", "keepalive_due", "wake")

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.keepalive_due = False
        self.closed = False


class SessionFeeds:
    """Owns who reads what; a session that nobody looks at costs a look-up."""

    def __init__(self) -> None:
        self._feeds: dict[SessionId, list[SessionFeed]] = {}
        self._changes: list[GatewayChanges] = []
        self._listeners: list[ShutdownListener] = []
        self._closed = False

    def publish(self, session_id: SessionId, piece: TurnEvent) -> None:
        """A piece of the running step, to be appended to what is live."""
        feeds = self._feeds.get(session_id)
        if feeds is not None:
            for feed in feeds:
                feed.add(piece)

    def session_committed(self, session_id: SessionId) -> None:
        """The log has more of this session."""
        for feed in self._feeds.get(session_id, ()):
            feed.committed = True
            feed.wake.set()

    def message_ended(self, ended: MessageEnded) -> None:
        if ended.session_id is not None:
            for feed in self._feeds.get(ended.session_id, ()):
                feed.ends.append(ended)
                feed.wake.set()

    def live_step_replaced(self, session_id: SessionId) -> None:
        """What is live is another than it was; its pieces so far are void."""
        for feed in self._feeds.get(session_id, ()):
            feed.mark_stale()
            feed.wake.set()

    def session_changed(self, session_id: SessionId) -> None:
        """The session itself is not what it was: its state, its title, where its route points."""
        for feed in self._feeds.get(session_id, ()):
            feed.changed = True
            feed.mark_stale()
            feed.wake.set()
        for changes in self._changes:
            changes.sessions.add(session_id)
            changes.wake.set()

    def session_deleted(self, session_id: SessionId) -> None:
        for feed in self._feeds.get(session_id, ()):
            feed.closed = True
            feed.wake.set()
        for changes in self._changes:
            changes.sessions.discard(session_id)
            changes.deleted.append(session_id)
            changes.wake.set()

    def gateway_changed(self) -> None:
        """The gateway itself is not what it was: it stops, is to stop, has come further, or an
        account of it stands otherwise."""
        for changes in self._changes:
            changes.gateway = True
            changes.wake.set()

    def audit_changed(self) -> None:
        """The audit has more rows."""
        for changes in self._changes:
            changes.audit = True
            changes.wake.set()

    def close(self) -> None:
        """The gateway stops: every reader is let go, and asks its successor."""
        self._closed = True
        for feed in chain.from_iterable(self._feeds.values()):
            feed.closed = True
            feed.wake.set()
        for changes in self._changes:
            changes.closed = True
            changes.wake.set()
        for attending in self._listeners:
            attending.closed = True
            attending.wake.set()

    @contextmanager
    def read_session(self, session_id: SessionId) -> Iterator[SessionFeed]:
        feed = SessionFeed()
        feed.closed = self._closed
        self._feeds.setdefault(session_id, []).append(feed)
        try:
            yield feed
        finally:
            feeds = self._feeds[session_id]
            feeds.remove(feed)
            if not feeds:
                del self._feeds[session_id]

    @contextmanager
    def read_changes(self) -> Iterator[GatewayChanges]:
        changes = GatewayChanges()
        changes.closed = self._closed
        self._changes.append(changes)
        try:
            yield changes
        finally:
            self._changes.remove(changes)

    @contextmanager
    def listen_for_shutdown(self) -> Iterator[ShutdownListener]:
        """Be let go when the gateway stops, whatever it is that is read."""
        attending = ShutdownListener()
        attending.closed = self._closed
        self._listeners.append(attending)
        try:
            yield attending
        finally:
            self._listeners.remove(attending)
