"""How the lives of a home ended: what each left of the turns that ran in it, held against what is
in the file then."""

from collections import Counter
from pathlib import Path

import apsw
from tests.state_machine.stepped_store import SteppedStore

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.turns.stop import StopKind, StopOrder, TurnExitReason
from holdfast.core.turns.turn import OpenTurn
from holdfast.gateway.turns.lanes import Lanes
from holdfast.store.sqlite.reads import sessions


class Ends:
    """Owns the record of cuts, turn by turn, and every breach that was found.

    A turn that runs when a gateway is told to go ends, is parked, or is marked: there is no
    fourth thing. Only a death leaves one without a word.
    """

    def __init__(self) -> None:
        self.cuts: Counter[tuple[TurnId, TurnExitReason | None]] = Counter()  # None: by a death
        self.breaches: list[str] = []
        self._running: dict[TurnId, SessionId] = {}
        self._cuts_before: dict[SessionId, int] = {}
        self._left_before: set[TurnId] = set()  # by an earlier life, and not gone on with since
        self._unended: set[TurnId] = set()  # closed, and the disk has not taken that yet
        self._restarts = False

    def begins(self, store: SteppedStore, lanes: Lanes, order: StopOrder | None) -> None:
        kind = StopKind.SIGNAL if order is None else order.kind
        self._restarts = kind.restarts
        self._running = {
            lane.running_turn.turn_id: lane.session_id
            for lane in lanes
            if lane.running_turn is not None
        }
        self._unended = {
            lane.current_turn.turn_id
            for lane in lanes
            if lane.current_turn is not None and lane.running_turn is None
        }
        left = [turn for turn in store.look(sessions.open_turns) if turn.exit_reason is not None]
        self._left_before = {turn.turn.id for turn in left} - self._running.keys()
        quiet = not store.writer.requests  # else what was written and when is not known
        self._cuts_before = {one: _cuts(store, one) for one in self._running.values() if quiet}

    def over(self, path: Path, *, disk_failed: bool) -> None:
        """The process has gone; this is what is in its file."""
        with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as db:
            cursor = db.cursor()
            for turn in sessions.open_turns(cursor):
                self._count(turn)
                if (
                    turn.turn.id in self._left_before
                    and turn.exit_reason is None
                    and not disk_failed
                ):
                    self.breaches.append(f"{turn.turn.id} was about to go on, and has no word now")
                if turn.turn.id in self._running and not disk_failed:
                    session = sessions.session(cursor, turn.turn.session_id)
                    assert session is not None, "a turn of it is open"
                    self._check(turn, 99 if session.suspended else session.interruptions)
        db.close()
        self._running = {}

    def dies(self, store: SteppedStore) -> None:
        for turn in store.look(sessions.open_turns):
            if turn.exit_reason is not None:
                self._count(turn)
            elif turn.was_interrupted:
                self.cuts[turn.turn.id, None] += 1
        self._running = {}

    def _count(self, turn: OpenTurn) -> None:
        known = self._running.keys() | self._unended
        unheard = turn.exit_reason is None and turn.turn.id not in known
        if turn.was_interrupted and not unheard and turn.turn.id not in self._left_before:
            self.cuts[turn.turn.id, turn.exit_reason] += 1

    def _check(self, turn: OpenTurn, cuts: int) -> None:
        left, turn_id = turn.exit_reason, turn.turn.id
        mark = TurnExitReason.RESTART_TIMEOUT if self._restarts else TurnExitReason.SHUTDOWN_TIMEOUT
        if left is None and not turn.is_waiting:
            self.breaches.append(f"{turn_id} was left without a word")
        if left is not None and left not in (mark, TurnExitReason.PARKED):
            self.breaches.append(f"{turn_id} was left as {left}, where {mark} is meant")
        if left is TurnExitReason.PARKED and not (self._restarts or turn.approvals):
            self.breaches.append(f"{turn_id} was parked by a stop that is no restart")
        before = self._cuts_before.get(turn.turn.session_id)
        if before is not None and cuts not in (99, before + turn.was_interrupted):
            self.breaches.append(f"{turn_id} was left as {left}: cuts {before}, then {cuts}")


def _cuts(store: SteppedStore, session_id: SessionId) -> int:
    session = store.look(sessions.session, session_id=session_id)
    return 0 if session is None else session.interruptions
