"""Kills a gateway with SIGKILL in the middle of a job, starts it again, and prints the one answer.

It needs no API key. Its home is temporary and is removed at the end:

    .venv/bin/python examples/pull_the_plug.py
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

HOLDFAST = [sys.executable, "-m", "holdfast.cli"]
BEGAN = time.monotonic()


def tell(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:5.1f} s] {text}", flush=True)


class Gateway:
    """Owns one gateway process at a time, all of them on the same home."""

    def __init__(self, home: str) -> None:
        own = {"HOLDFAST_HOME": home, "HOLDFAST_MODEL_PROVIDER": "demo", "PYTHONUNBUFFERED": "1"}
        self._environ = {**os.environ, **own}
        token = subprocess.run([*HOLDFAST, "token"], env=self._environ, stdout=-1, check=True)
        self._token = token.stdout.decode().strip()
        self._log = Path(home) / "stderr"
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> int:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*HOLDFAST, "run", "--port", "0"],
                env=self._environ,
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        greeting = self._process.stdout.readline()
        if "listens on" not in greeting:
            sys.exit(f"The gateway did not start:\n{self._log.read_text()}")
        self.url = greeting.split()[-1]
        return self._process.pid

    def end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait()
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def ask(self, text: str) -> str:
        """Ask under a fixed message id, so that asking twice is one message."""
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions",
            data=json.dumps({"messages": [{"role": "user", "content": text}]}).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
                "X-Holdfast-Session": "demo",
                "X-Holdfast-Message-Id": "job-1",
            },
        )
        with urllib.request.urlopen(request, timeout=300) as response:
            return str(json.load(response)["choices"][0]["message"]["content"])

    def transcript(self) -> str:
        listed = subprocess.run(
            [*HOLDFAST, "sessions", "list", "--json"], env=self._environ, stdout=-1, check=True
        )
        session = json.loads(listed.stdout)["sessions"][0]["id"]
        shown = [*HOLDFAST, "sessions", "show", session]
        return subprocess.run(shown, env=self._environ, stdout=-1, check=True).stdout.decode()


def ask_until_cut_off(gateway: Gateway, text: str) -> None:
    try:
        gateway.ask(text)
    except (OSError, urllib.error.URLError) as error:
        tell(f"the request was cut off: {error}")


def demonstrate(gateway: Gateway, options: argparse.Namespace) -> None:
    pid = gateway.start()
    tell(f"gateway runs as process {pid}; asking: {options.ask}")
    asking = threading.Thread(target=ask_until_cut_off, args=(gateway, options.ask))
    asking.start()
    time.sleep(options.after)
    tell(f"kill -9 {pid}")
    gateway.end(signal.SIGKILL)
    asking.join()
    time.sleep(options.down)
    tell(f"new gateway runs as process {gateway.start()} and continues the job")
    tell("asking for the same message, by its id …")
    answer = gateway.ask(options.ask)
    tell("answer:")
    print(f"\n{answer}\n")
    if options.transcript:
        print(gateway.transcript())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ask", default="long job", help="what to ask (default: long job)")
    parser.add_argument(
        "--after", type=float, default=5, help="seconds until the kill (default: 5)"
    )
    parser.add_argument(
        "--down", type=float, default=2, help="seconds without a gateway (default: 2)"
    )
    parser.add_argument("--transcript", action="store_true", help="also print the transcript")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
        gateway = Gateway(home)
        try:
            demonstrate(gateway, options)
        finally:
            gateway.end(signal.SIGTERM)


if __name__ == "__main__":
    main()
