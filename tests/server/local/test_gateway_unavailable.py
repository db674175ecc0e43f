"""A gateway that runs but cannot serve: the errors and exit codes of its clients."""

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


class UnavailableApi(BaseHTTPRequestHandler):
    """Answers every request with `store_unavailable`, in the format of `/api/v1`."""

    def do_GET(self) -> None:
        body = b'{"error": {"message": "it is so", "code": "store_unavailable"}}'
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The home of a gateway that refuses every request."""
    with HTTPServer(("127.0.0.1", 0), UnavailableApi) as server, HomeLock(tmp_path) as lock:
        lock.announce(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield tmp_path
        server.shutdown()
        thread.join()


def test_an_unavailable_store_is_not_reported_as_a_stopped_gateway(home: Path) -> None:
    """Exit code 3 would make a script start a gateway, which does not help on a full disk. And the
    file is not read beside a running gateway."""
    with pytest.raises(GatewayDown, match="cannot answer at the moment: it is so") as raised:
        print_jobs(home, as_json=False)
    assert exit_code(raised.value) == exit_codes.FAILED
