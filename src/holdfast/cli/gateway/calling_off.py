"""Calling off: a start that fails and is tried again and again is told to stop trying."""

import time
from pathlib import Path

from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.service.intent import IntentFile
from holdfast.service.offspring import cancel_respawn
from holdfast.system.lock import HomeInUse, HomeLock, read_holder
from holdfast.system.paths import Paths


def cancel_pending_start(home: Path) -> bool:
    """True if no gateway runs here and whoever was about to start one will not: a starter of a
    successor, or a container's boot. It stays down, as after any stop."""
    return read_holder(home) is None and cancel_respawn(str(Paths(home).run)) and record_stop(home)


def record_stop(home: Path) -> bool:
    """Write down that a person has stopped it; False: somebody holds the home after all."""
    paths = Paths(home)
    order = StopOrder(kind=StopKind.STOP, by=StopRequester.CLI, at=time.time())
    try:
        with HomeLock(home, purpose="stop"):
            IntentFile(paths.intent, now=time.time).record_stopping(order, "")
    except HomeInUse:
        return False  # it has just been started after all
    return True
