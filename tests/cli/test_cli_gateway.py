"""The commands that ask a gateway: one that runs, one that hangs, and none."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest

from holdfast.control.client import ControlClient, ControlRefused, GatewayDown
from holdfast.control.heartbeat import Heartbeat
from holdfast.control.status_thread import StatusThread
from holdfast.service import exits
from holdfast.service.clock import SystemClock
from holdfast.service.lock import HomeLock
from holdfast.service.paths import Paths, private_dir

Cli = Callable[..., subprocess.CompletedProcess[str]]


class Answers(BaseHTTPRequestHandler):
    """A control socket's answers, and an echo to see what arrived."""

    def do_GET(self) -> None:
        if self.path == "/status":
            self._answer({"ledger": {"answered": 3}})
        else:
            self._answer({"error": {"message": f"no {self.path}"}}, status=404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer({"path": self.path, "body": json.loads(body)})

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *args: Any) -> None:
        pass

    def _answer(self, document: object, *, status: int = 200) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "home").mkdir(mode=0o700)
    return Paths(tmp_path / "home")


@pytest.fixture
def control(paths: Paths) -> Iterator[None]:
    private_dir(paths.run)
    with ThreadingUnixStreamServer(str(paths.control_socket), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_status_without_a_gateway_says_how_to_start_one(cli: Cli, paths: Paths) -> None:
    down = cli("status")
    assert down.returncode == exits.GATEWAY_DOWN == 3
    assert "No gateway is running" in down.stderr
    assert "holdfast run" in down.stderr
    down = cli("status", "--json")
    assert down.returncode == 3
    assert json.loads(down.stdout)["state"] == "down"


def test_status_names_a_holder_that_does_not_answer_yet(cli: Cli, paths: Paths) -> None:
    with HomeLock(paths.home):
        down = cli("status")
        assert "has held this home since" in down.stderr
        assert json.loads(cli("status", "--json").stdout)["held_by"]["purpose"] == "gateway"


def test_status_shows_a_running_gateway(cli: Cli, paths: Paths, control: None) -> None:
    with StatusThread(paths, clock=SystemClock()) as status:
        status.publish({"state": "running", "address": "http://127.0.0.1:8787"})
        shown = cli("status")
        document = json.loads(cli("status", "--json").stdout)
    assert shown.returncode == 0
    assert "is running" in shown.stdout
    assert "http://127.0.0.1:8787" in shown.stdout
    assert "answered 3" in shown.stdout
    assert document["snapshot"]["ledger"] == {"answered": 3}


def test_status_of_a_hanging_gateway_fails_and_says_so(cli: Cli, paths: Paths) -> None:
    class Loopless:
        def call_later(self, *args: Any) -> None:
            """A loop that never turns."""

    with StatusThread(paths, clock=SystemClock(), hanging_after=0.0) as status:
        status.publish({"state": "running"})
        with Heartbeat(Loopless(), clock=SystemClock()) as heart:  # type: ignore[arg-type]
            status.watch(heart)
            shown = cli("status")
    assert shown.returncode == exits.FAILED
    assert "is hanging" in shown.stdout


def test_the_client_posts_json_and_raises_what_the_gateway_says(
    paths: Paths, control: None
) -> None:
    client = ControlClient(paths)
    assert client.post("/x", {"a": 1}) == {"path": "/x", "body": {"a": 1}}
    with pytest.raises(ControlRefused, match="no /nowhere") as caught:
        client.get("/nowhere")
    assert caught.value.status == 404


def test_the_client_says_how_to_start_a_gateway(paths: Paths) -> None:
    with pytest.raises(GatewayDown, match="Start it with `holdfast run`"):
        ControlClient(paths).get("/status")
