"""A gateway that is there and cannot do its work: what its clients say, and how they exit."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from holdfast.cli.root import exit_code
from holdfast.control.api_client import ApiClient
from holdfast.control.client import GatewayDown
from holdfast.control.v1.job_views import JobList
from holdfast.core.secret import Secret
from holdfast.service import exits
from holdfast.service.lock import HomeLock
from holdfast.service.paths import Paths


class Unable(BaseHTTPRequestHandler):
    """Says why it cannot, in the words of `/api/v1`: the code is the last part of the path."""

    def do_GET(self) -> None:
        code = self.path.rpartition("/")[2]
        body = f'{{"error": {{"message": "it is so", "code": "{code}"}}}}'.encode()
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiClient]:
    with HTTPServer(("127.0.0.1", 0), Unable) as server, HomeLock(tmp_path) as lock:
        lock.announce(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield ApiClient(Paths(tmp_path), token=Secret("x"))
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("code", "exits_with"), [("store", exits.FAILED), ("not_ready", exits.GATEWAY_DOWN)]
)
def test_a_store_that_takes_nothing_is_not_told_as_a_gateway_that_is_away(
    api: ApiClient, code: str, exits_with: int
) -> None:
    """As of `status`: 3 is for a script that would start one, which is no help on a full disk."""
    with pytest.raises(GatewayDown, match="cannot answer at the moment: it is so") as unable:
        api.get(f"/{code}", JobList)
    assert exit_code(unable.value) == exits_with
