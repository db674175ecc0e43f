"""Progress: the steps of a session on standard error, from the very first on."""

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from holdfast.cli.ask import show_progress
from holdfast.core.secrets import Secret
from holdfast.core.turns.turn import LaneState
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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class GoneAtOnce(ApiClient):
    """A gateway that answers once, and is away when it is followed."""

    def read_session(self, session_id: str, *, limit: int) -> SessionDetail:
        return SessionDetail(session=SESSION, turns=[], records=[], more=False, live=None)

    def open_response(self, *args: Any, **more: Any) -> NoReturn:
        raise GatewayDown("it is away")


@pytest.fixture
def unhurried() -> Iterator[None]:
    """A thread that begins goes on until it waits: whoever has started it comes second."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5)
    yield
    sys.setswitchinterval(before)


def test_the_first_event_of_a_followed_session_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unhurried: None
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    api = GoneAtOnce(Paths(tmp_path), token=Secret("a token"))
    deadline = time.monotonic() + 30
    with show_progress(api, "s_1", question="why?"):
        while "reconnecting …" not in screen.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)
