"""Recorded intent: what the next boot makes of how a process went."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.turns.stop import AskedBy, StopKind, StopOrder
from holdfast.service.intent import IntentFile, Recorded


@pytest.fixture
def file(tmp_path: Path) -> IntentFile:
    return IntentFile(tmp_path / "gateway_state", now=lambda: 7.0)


@pytest.mark.parametrize(
    ("kind", "leaving", "left", "starts"),
    [
        (StopKind.SIGNAL, Recorded.DRAINING, Recorded.RUNNING, True),
        (StopKind.CRASH, Recorded.DRAINING, Recorded.RUNNING, True),
        (StopKind.STOP, Recorded.STOPPED, Recorded.STOPPED, False),
        (StopKind.RESTART, Recorded.STOPPED, Recorded.STOPPED, True),
        (StopKind.REPLACE, Recorded.STOPPED, Recorded.STOPPED, True),
    ],
)
def test_the_next_boot_starts_it_unless_somebody_stopped_it(
    file: IntentFile, kind: StopKind, leaving: Recorded, left: Recorded, starts: bool
) -> None:
    """E3: wherever the process is killed on its way, the file says what was meant."""
    order = StopOrder(kind=kind, by=AskedBy.CLI, at=1.0)
    assert file.read() is None
    file.starting()
    assert (found := file.read()) is not None and found.starts
    file.running()
    assert (found := file.read()) is not None and found.starts
    file.leaving(order, "stop_1")
    found = file.read()
    assert found is not None and (found.state, found.starts) == (leaving, starts)
    assert found.restart == ("stop_1" if kind.restarts else None)
    file.left(order)
    found = file.read()
    assert found is not None and (found.state, found.starts, found.at) == (left, starts, 7.0)


def test_it_is_its_owners_alone_and_damage_is_no_intent(file: IntentFile, tmp_path: Path) -> None:
    path = tmp_path / "gateway_state"
    file.running()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["gateway_state"]
    path.write_text("running")
    assert file.read() is None


def test_a_disk_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match=r"nowhere/gateway_state cannot be written"):
        IntentFile(tmp_path / "nowhere" / "gateway_state", now=lambda: 0.0).running()
