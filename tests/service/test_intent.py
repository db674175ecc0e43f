"""Recorded intent: what the next boot makes of how a process went."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.service.intent import IntentFile, IntentState


@pytest.fixture
def file(tmp_path: Path) -> IntentFile:
    return IntentFile(tmp_path / "gateway_state", now=lambda: 7.0)


@pytest.mark.parametrize(
    ("kind", "leaving", "left", "starts"),
    [
        (StopKind.SIGNAL, IntentState.DRAINING, IntentState.RUNNING, True),
        (StopKind.CRASH, IntentState.DRAINING, IntentState.RUNNING, True),
        (StopKind.STOP, IntentState.STOPPED, IntentState.STOPPED, False),
        (StopKind.RESTART, IntentState.STOPPED, IntentState.STOPPED, True),
        (StopKind.REPLACE, IntentState.STOPPED, IntentState.STOPPED, True),
    ],
)
def test_the_next_boot_starts_the_gateway_unless_it_was_stopped(
    file: IntentFile, kind: StopKind, leaving: IntentState, left: IntentState, starts: bool
) -> None:
    """E3: wherever the process is killed on its way, the file says what was meant."""
    order = StopOrder(kind=kind, by=StopRequester.CLI, at=1.0)
    assert file.read() is None
    file.record_starting()
    assert (found := file.read()) is not None and found.should_start
    file.record_running()
    assert (found := file.read()) is not None and found.should_start
    file.record_stopping(order, "stop_1")
    found = file.read()
    assert found is not None and (found.state, found.should_start) == (leaving, starts)
    assert found.restart == ("stop_1" if kind.restarts else None)
    file.record_stopped(order)
    found = file.read()
    assert found is not None and (found.state, found.should_start, found.at) == (left, starts, 7.0)


def test_the_intent_file_is_private_and_a_damaged_one_is_ignored(
    file: IntentFile, tmp_path: Path
) -> None:
    path = tmp_path / "gateway_state"
    file.record_running()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["gateway_state"]
    path.write_text("running")
    assert file.read() is None


def test_an_unwritable_intent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match=r"nowhere/gateway_state cannot be written"):
        IntentFile(tmp_path / "nowhere" / "gateway_state", now=lambda: 0.0).record_running()
