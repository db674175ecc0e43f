"""How each gateway run ended: the turns that ran in it, compared with what is in the database
then."""

from collections import Counter
from pathlib import Path

import apsw
from tests.state_machine.stepped_store import SteppedStore

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.turns.stop import StopKind, StopOrder, TurnExitReason
from holdfast.core.turns.turn import OpenTurn
from holdfast.gateway.turns.lanes import Lanes
from holdfast.store.sqlite.reads import sessions


class ProcessEnds:
    """Owns the interruptions of each turn, and every violation that was found.

    A turn that runs when a stop is requested ends, is parked, or is marked; nothing else is
    allowed. Only a killed process leaves a turn without an exit reason.
    """

    def __init__(self) -> None:
        self.interruptions: Counter[tuple[TurnId, TurnExitReason | None]] = (
            Counter()
        )  # None: by a kill
        self.violations: list[str] = []
        self._running: dict[TurnId, SessionId] = {}
        self._interruptions_before: dict[SessionId, int] = {}
        self._suspended_before: set[TurnId] = set()  # by an earlier run, and not resumed since
        self._unended: set[TurnId] = set()  # closed, but not committed yet
        self._restarts = False

    def stop_begins(self, store: SteppedStore, lanes: Lanes, order: StopOrder | None) -> None:
        kind = StopKind.SIGNAL if order is None else order.kind
        self._restarts = kind.restarts
        self._running = {
            lane.running_turn.turn_id: lane.session_id
            for lane in lanes
            if lane.running_turn is not None
        }
        self._unended = {
            lane.turn.turn_id
            for lane in lanes
            if lane.turn is not None and lane.turn.has_agent and lane.running_turn is None
        }
        left = [turn for turn in store.look(sessions.open_turns) if turn.exit_reason is not None]
        self._suspended_before = {turn.turn.id for turn in left} - self._running.keys()
        quiet = not store.writer.requests  # otherwise it is unknown what was written when
        self._interruptions_before = {
            one: _interruptions(store, one) for one in self._running.values() if quiet
        }

    def stopped(self, path: Path, *, disk_failed: bool) -> None:
        """The process has stopped: check what is in its database."""
        with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as db:
            cursor = db.cursor()
            for turn in sessions.open_turns(cursor):
                self._count(turn)
                if (
                    turn.turn.id in self._suspended_before
                    and turn.exit_reason is None
                    and not disk_failed
                ):
                    self.violations.append(
                        f"{turn.turn.id} was about to be resumed, and has no exit reason now"
                    )
                if turn.turn.id in self._running and not disk_failed:
                    session = sessions.session(cursor, turn.turn.session_id)
                    assert session is not None, "a turn of it is open"
                    self._check(turn, 99 if session.suspended else session.interruptions)
        db.close()
        self._running = {}

    def killed(self, store: SteppedStore) -> None:
        for turn in store.look(sessions.open_turns):
            if turn.exit_reason is not None:
                self._count(turn)
            elif turn.was_interrupted:
                self.interruptions[turn.turn.id, None] += 1
        self._running = {}

    def _count(self, turn: OpenTurn) -> None:
        known = self._running.keys() | self._unended
        unknown = turn.exit_reason is None and turn.turn.id not in known
        if turn.was_interrupted and not unknown and turn.turn.id not in self._suspended_before:
            self.interruptions[turn.turn.id, turn.exit_reason] += 1

    def _check(self, turn: OpenTurn, interruptions: int) -> None:
        left, turn_id = turn.exit_reason, turn.turn.id
        mark = TurnExitReason.RESTART_TIMEOUT if self._restarts else TurnExitReason.SHUTDOWN_TIMEOUT
        if left is None and not turn.is_waiting:
            self.violations.append(f"{turn_id} was left without an exit reason")
        if left is not None and left not in (mark, TurnExitReason.PARKED):
            self.violations.append(f"{turn_id} was left as {left}, not as {mark}")
        if left is TurnExitReason.PARKED and not (self._restarts or turn.approvals):
            self.violations.append(f"{turn_id} was parked by a stop that is no restart")
        before = self._interruptions_before.get(turn.turn.session_id)
        if before is not None and interruptions not in (99, before + turn.was_interrupted):
            self.violations.append(
                f"{turn_id} was left as {left}: interruptions {before}, then {interruptions}"
            )


def _interruptions(store: SteppedStore, session_id: SessionId) -> int:
    session = store.look(sessions.session, session_id=session_id)
    return 0 if session is None else session.interruptions
