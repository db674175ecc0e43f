"""What is measured: the floor and the gateway, each started as a real process and asked alike."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from processes import HERE, BenchmarkFailed, ServerProcess, running

from holdfast.server.local.control_client import ControlClient, read_status
from holdfast.system.paths import Paths

HOLDFAST = Path(sys.executable).with_name("holdfast")
START_LIMIT = 300.0
PROBES = ("status socket", "control socket", "/status in a chat")  # the floor has /healthz


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A server under measurement; `probes` are the ways to ask it how it is, by name."""

    name: str
    url: str
    token: str
    server: ServerProcess
    started_in: float  # seconds from its start to its first good answer
    probes: dict[str, Callable[[], object]]
    home: Path | None = None  # of a gateway


@contextmanager
def floor(directory: Path, *, model_url: str) -> Iterator[Subject]:
    port = free_port()
    database = directory / f"floor-{port}.db"
    where = ["--model", model_url, "--db", str(database), "--port", str(port)]
    command = [sys.executable, str(HERE / "floor.py"), *where]
    began = time.perf_counter()
    with running(command, log=directory / "floor.log") as server:
        url = f"http://127.0.0.1:{port}"
        started_in = wait_until_ready(url, server, began=began)
        yield Subject(
            name="floor",
            url=url,
            token="none",
            server=server,
            started_in=started_in,
            probes=dict.fromkeys(PROBES, lambda: get(url + "/healthz")),
        )


@contextmanager
def gateway(
    directory: Path,
    *,
    model_url: str,
    program: Path = HOLDFAST,
    home: Path | None = None,
    **settings: str,
) -> Iterator[Subject]:
    """`holdfast run` on that home, or else a fresh one; `program` may be that of another checkout.
    `settings` are HOLDFAST_… variables without the prefix."""
    port = free_port()
    if home is None:
        home = directory / f"home-{port}"
        home.mkdir(mode=0o700)
    env = gateway_env(home, port=port, model_url=model_url, **settings)
    began = time.perf_counter()
    log = directory / f"gateway-{port}.log"
    with running([program, "run"], log=log, env=env, prints_first_line=False) as server:
        url = f"http://127.0.0.1:{port}"
        started_in = wait_until_ready(url, server, began=began)
        token = token_of(env, program=program)
        yield Subject(
            name="gateway",
            url=url,
            token=token,
            server=server,
            started_in=started_in,
            probes=gateway_probes(home, url=url, token=token),
            home=home,
        )


def gateway_probes(home: Path, *, url: str, token: str) -> dict[str, Callable[[], object]]:
    paths = Paths(home)
    control = ControlClient(paths)
    probes = (
        lambda: read_status(paths),
        lambda: control.get("/status"),
        lambda: say(url, "/status", token=token),
    )
    return dict(zip(PROBES, probes, strict=True))


def gateway_env(home: Path, *, port: int, model_url: str, **settings: str) -> dict[str, str]:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "BENCH_KEY": "sk-bench",
        "HOLDFAST_HOME": str(home),
        "HOLDFAST_GATEWAY_PORT": str(port),
        "HOLDFAST_MODEL_PROVIDER": "openai",
        "HOLDFAST_MODEL_NAME": "instant",
        "HOLDFAST_MODEL_BASE_URL": model_url,
        "HOLDFAST_MODEL_API_KEY": "env:BENCH_KEY",
    }
    return env | {f"HOLDFAST_{name}": value for name, value in settings.items()}


def token_of(env: dict[str, str], *, program: Path = HOLDFAST) -> str:
    done = subprocess.run([program, "token"], env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkFailed(f"holdfast token exited {done.returncode}: {done.stderr}")
    return done.stdout.strip()


def free_port() -> int:
    """A port that was free a moment ago: known before the start, so that readiness can be
    asked for from the first instant on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(url: str) -> None:
    request("GET", url)


def say(url: str, text: str, *, token: str) -> None:
    """A message in a session of its own, as a user would send it."""
    body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": text}]})
    headers = {"Authorization": f"Bearer {token}", "X-Holdfast-Session": "probe"}
    headers["Content-Type"] = "application/json"
    request("POST", url + "/v1/chat/completions", body=body, headers=headers)


def request(
    method: str, url: str, *, body: str | None = None, headers: dict[str, str] | None = None
) -> None:
    """One request on a new connection; raises unless it is answered with 200."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request(method, parts.path, body, headers or {})
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise ConnectionError(f"{url} answered {response.status}")
    finally:
        connection.close()


def wait_until_ready(url: str, server: ServerProcess, *, began: float) -> float:
    while True:
        try:
            get(url + "/healthz")
        except OSError as error:
            elapsed = time.perf_counter() - began
            if server.process.poll() is not None or elapsed > START_LIMIT:
                what = f"{url} was not ready in {elapsed:.1f} s ({error})"
                raise BenchmarkFailed(f"{what}; see {server.tail()}") from error
            time.sleep(0.002)
        else:
            return time.perf_counter() - began
