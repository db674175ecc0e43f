"""examples/linechat: a package with a platform of its own, installed beside Holdfast."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.doc_pages import HOLDFAST, REPO

EXAMPLE = REPO / "examples" / "linechat"
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
PYTHON = [sys.executable, "-W", "error"]
TOKEN = "linechat-secret"
_TIMEOUT = 100


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as an installer installs it, without network access."""
    site = tmp_path_factory.mktemp("linechat") / "site"
    shutil.copytree(EXAMPLE / "src", site, ignore=shutil.ignore_patterns("__pycache__"))
    about = site / f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}.dist-info"
    about.mkdir()
    named = f"Name: {PROJECT['name']}\nVersion: {PROJECT['version']}\n"
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\n{named}")
    lines = []
    for group, points in PROJECT["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in points.items())]
    (about / "entry_points.txt").write_text("\n".join([*lines, ""]))
    return site


@pytest.fixture
def environ(site: Path, tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(site),
        "HOLDFAST_HOME": str(tmp_path / "home"),
        "LINECHAT_TOKEN": TOKEN,
    }


def test_the_platform_is_small_and_passes_the_conformance_suite(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """As its author would run it, in a folder of its own."""
    folder = EXAMPLE / "src/linechat"
    plugin = [(folder / name).read_text() for name in ("plugin.py", "platform.py")]
    assert len([line for text in plugin for line in text.splitlines() if line.strip()]) < 150
    work = tmp_path / "work"
    work.mkdir()
    shutil.copytree(EXAMPLE / "tests", work / "tests")
    shutil.copy(EXAMPLE / "pyproject.toml", work)
    done = subprocess.run(
        [*PYTHON, "-m", "pytest", "-q", "-rs", "-p", "pytest_asyncio.plugin", "tests"],
        cwd=work,
        env=environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        timeout=_TIMEOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert all("there" in line or "declares" in line for line in skipped), skipped
    assert "24 passed" in done.stdout


@pytest.fixture
def port(environ: dict[str, str]) -> Iterator[int]:
    """The port of a linechat server in its own process."""
    command = [*PYTHON, "-m", "linechat_server", "--port", "0", "--token", TOKEN]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline().split(";")[0].rpartition(":")[2])
        finally:
            server.terminate()


@pytest.fixture
def gateway(environ: dict[str, str], port: int) -> Iterator[None]:
    """A gateway with a linechat, and with a table for a platform that cannot be loaded."""
    home = Path(environ["HOLDFAST_HOME"])
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text(f"""
[gateway]
port = 0
[model]
provider = "demo"
[platforms.linechat]
token = "env:LINECHAT_TOKEN"
port = {port}
allow = ["ann"]
[platforms.pigeon]
loft = "north"
""")
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([str(HOLDFAST), "run"], env=environ, **pipes) as process:
        try:
            assert process.stdout is not None
            assert "http://" in process.stdout.readline()
            yield
        finally:
            process.terminate()
            process.communicate(timeout=_TIMEOUT)


@pytest.fixture
def broken_plugin(site: Path) -> Iterator[None]:
    """Another package, whose plugin cannot be loaded."""
    (about := site / "pigeon_post-1.0.dist-info").mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon-post\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[holdfast.platforms]\npigeon = pigeon_post:PLUGIN\n")
    yield
    shutil.rmtree(about)


def test_a_gateway_answers_over_linechat_beside_a_broken_plugin(
    broken_plugin: None, environ: dict[str, str], port: int, gateway: None
) -> None:
    """A fault of one account does not affect the others."""
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT) as line:
        line.sendall(b'{"person": "ann"}\n{"text": "run echo $((6 * 7))"}\n')
        with line.makefile() as replies:
            answer = json.loads(replies.readline())
    assert (answer["by"], answer["chat"]) == ("bot", "ann")
    assert "42" in answer["text"]
    done = subprocess.run(
        [str(HOLDFAST), "platforms", "list", "--json"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=True,
    )
    found = {each["name"]: each for each in json.loads(done.stdout)}
    assert found["linechat"]["connected"]
    assert found["pigeon"]["state"] == "blocked"
    assert "pigeon-post" in found["pigeon"]["error"]
