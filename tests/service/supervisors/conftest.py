"""Fixtures of a machine with a fake systemd."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.supervisors.fakes.manager import SystemdManager
from tests.service.supervisors.machine import (
    FAKES,
    REPO,
    SPEED,
    FakeSystemd,
    Machine,
    end_descendants,
)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine in a short path, since sockets are in it."""
    root = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    for folder in ("bin", "run", "ann", "machine"):
        (root / folder).mkdir(mode=0o700)
    machine = Machine(root)
    machine.variables["HOLDFAST_MODEL_PROVIDER"] = "demo"
    machine.fake("systemctl", FAKES / "client.py")
    machine.fake("systemd-run", FAKES / "client.py")
    try:
        yield machine
    finally:
        # A watcher of an ended process may still be writing.
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def systemd_in_process(machine: Machine) -> Iterator[FakeSystemd]:
    """A fake systemd in the test's own process, for tests in which it starts nothing."""
    folders = [machine.units, machine.root / "machine"]
    manager = SystemdManager(machine.runtime, folders, speed=SPEED)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(manager.listen(), loop).result()
    try:
        yield FakeSystemd(machine)
    finally:
        loop.call_soon_threadsafe(server.close)
        asyncio.run_coroutine_threadsafe(server.wait_closed(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def systemd(machine: Machine) -> Iterator[FakeSystemd]:
    manager = subprocess.Popen(
        [sys.executable, FAKES / "manager.py", machine.runtime, machine.units, str(SPEED)],
        env=machine.environ | {"HOLDFAST_GATEWAY_PORT": "0"},
        cwd=REPO,
        stdout=subprocess.PIPE,
    )
    assert manager.stdout is not None
    try:
        assert manager.stdout.readline() == b"listening\n"
        yield FakeSystemd(machine)
    finally:
        end_descendants(manager.pid)
        manager.kill()
        manager.communicate()
