"""A gateway that is there and cannot do its work: what its clients say, and how they exit."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from holdfast.cli.jobs import print_jobs
from holdfast.cli.root import exit_code
from holdfast.server.local.control_client import GatewayDown
from holdfast.system import exit_codes
from holdfast.system.lock import HomeLock


class Refusing(BaseHTTPRequestHandler):
    """Says that its store takes nothing, in the words of `/api/v1`."""

    def do_GET(self) -> None:
        body = b'{"error": {"message": "it is so", "code": "store_unavailable"}}'
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The home of a gateway that refuses whatever it is asked."""
    with HTTPServer(("127.0.0.1", 0), Refusing) as server, HomeLock(tmp_path) as lock:
        lock.announce(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield tmp_path
        server.shutdown()
        thread.join()


def test_a_store_that_takes_nothing_is_not_told_as_a_gateway_that_is_away(home: Path) -> None:
    """As of `status`: 3 is for a script that would start one, which is no help on a full disk. And
    nobody reads the file beside a gateway that has it."""
    with pytest.raises(GatewayDown, match="cannot answer at the moment: it is so") as told:
        print_jobs(home, as_json=False)
    assert exit_code(told.value) == exit_codes.FAILED
