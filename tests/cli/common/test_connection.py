"""The client of the control socket: what it sends, and what it says when it is refused."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest

from holdfast.server.local.control_client import ControlClient, GatewayDown, GatewayRefused
from holdfast.system.paths import Paths, private_dir


class ControlHandler(BaseHTTPRequestHandler):
    """Answers requests on a control socket, and echoes what it received."""

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
    with ThreadingUnixStreamServer(str(paths.control_socket), ControlHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_the_client_posts_json_and_raises_the_error_of_the_gateway(
    paths: Paths, control: None
) -> None:
    client = ControlClient(paths)
    assert client.post("/x", {"a": 1}) == {"path": "/x", "body": {"a": 1}}
    with pytest.raises(GatewayRefused, match="no /nowhere") as caught:
        client.get("/nowhere")
    assert caught.value.status == 404


def test_the_client_says_how_to_start_a_gateway(paths: Paths) -> None:
    with pytest.raises(GatewayDown, match="Start it with `holdfast run`"):
        ControlClient(paths).get("/status")
