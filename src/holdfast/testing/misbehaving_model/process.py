"""The misbehaving model as a child process, for tests and benchmarks that call it."""

import json
import subprocess
import sys
from types import TracebackType
from typing import Any
from urllib.request import Request, urlopen


class ModelProcess:
    """Owns the process: it runs while the context is open, and dies with its owner.

    The methods block for one round trip on loopback; `script` and `requests` have the shapes
    that the package's docstring describes.
    """

    def __init__(self, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "holdfast.testing.misbehaving_model",
            "--until-eof",
            *options,
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the misbehaving model did not start: {command}")
        self.port: int = json.loads(line)["port"]
        self.pid = self._process.pid

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def script(self, *steps: dict[str, Any]) -> None:
        self._request("/script", json.dumps(steps).encode())

    def reset(self) -> None:
        self._request("/reset", b"")

    def requests(self, *, last: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self._request(f"/requests?last={last}", None)
        return found

    def close(self) -> None:
        """Ends it, by force if it does not go by itself. Idempotent."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def __enter__(self) -> "ModelProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _request(self, path: str, body: bytes | None) -> Any:
        request = Request(f"http://127.0.0.1:{self.port}{path}", data=body)
        with urlopen(request, timeout=10) as response:
            return json.load(response)
