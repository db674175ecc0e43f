"""`holdfast ask` shows the steps of its session on standard error, from the first one."""

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from holdfast.cli.ask import show_progress
from holdfast.core.secrets import Secret
from holdfast.core.turns.turn_state import LaneState
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.sessions import SessionDetail, SessionView
from holdfast.server.local.control_client import GatewayDown
from holdfast.system.paths import Paths

SESSION = SessionView(
    id="s_1",
    title="",
    platform="web",
    chat="c",
    state=LaneState.IDLE,
    current=True,
    suspended=False,
    model=None,
    messages=0,
    created_at=1.0,
    active_at=1.0,
    ended_at=None,
)


class TerminalBuffer(io.StringIO):
    def isatty(self) -> bool:
        return True


class DisconnectingClient(ApiClient):
    """A client whose gateway answers once, and is down when its events are followed."""

    def read_session(self, session_id: str, *, limit: int) -> SessionDetail:
        return SessionDetail(session=SESSION, turns=[], records=[], more=False, live=None)

    def open_response(self, *args: Any, **more: Any) -> NoReturn:
        raise GatewayDown("it is away")


@pytest.fixture
def long_switch_interval() -> Iterator[None]:
    """A new thread runs until it waits, before the thread that started it continues."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5)
    yield
    sys.setswitchinterval(before)


def test_the_first_event_of_a_followed_session_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long_switch_interval: None
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := TerminalBuffer())
    api = DisconnectingClient(Paths(tmp_path), token=Secret("a token"))
    deadline = time.monotonic() + 30
    with show_progress(api, "s_1", question="why?"):
        while "reconnecting …" not in screen.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)
