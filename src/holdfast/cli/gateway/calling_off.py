"""Calling off: a start that fails and is tried again and again is told to stop trying."""

import time
from pathlib import Path

from holdfast.core.turns.stop import AskedBy, StopKind, StopOrder
from holdfast.service.intent import IntentFile
from holdfast.service.offspring import call_off
from holdfast.system.lock import HomeInUse, HomeLock, read_holder
from holdfast.system.paths import Paths


def called_off(home: Path) -> bool:
    """True if no gateway runs here and whoever was about to start one will not: a starter of a
    successor, or a container's boot. It stays down, as after any stop."""
    return read_holder(home) is None and call_off(str(Paths(home).run)) and stays_down(home)


def stays_down(home: Path) -> bool:
    """Write down that a person has stopped it; False: somebody holds the home after all."""
    paths = Paths(home)
    order = StopOrder(kind=StopKind.STOP, by=AskedBy.CLI, at=time.time())
    try:
        with HomeLock(home, purpose="stop"):
            IntentFile(paths.intent, now=time.time).leaving(order, "")
    except HomeInUse:
        return False  # it has just been started after all
    return True
