"""Other processes of the gateway's user cannot read its memory, and still find it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY_UID = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
PACKAGES = f"{Path(__file__).parents[2] / 'src'}:{sysconfig.get_path('purelib')}"

# Runs as the gateway's user, in a process of its own.
ATTACK = """
import json, os, subprocess, sys
from pathlib import Path
from holdfast.core.errors import HoldfastError
from holdfast.system.lock import read_holder, verify_holder

home = Path(sys.argv[1])
gateway = subprocess.Popen(
    [sys.executable, "-m", "holdfast.cli", "run"], stdout=subprocess.PIPE, text=True
)
assert gateway.stdout.readline(), "the gateway did not start"
outcome = {}
for name in ("mem", "environ", "fd", "maps"):
    try:
        path = f"/proc/{gateway.pid}/{name}"
        os.listdir(path) if name == "fd" else open(path, "rb").read(16)
        outcome[name] = "read"
    except OSError as error:
        outcome[name] = type(error).__name__
limits = Path(f"/proc/{gateway.pid}/limits").read_text().splitlines()
outcome["core"] = next(line.split()[4:6] for line in limits if "core file" in line)
try:
    outcome["found"] = verify_holder(home, read_holder(home)) is not None
except HoldfastError as error:
    outcome["found"] = str(error)
status = [sys.executable, "-m", "holdfast.cli", "status", "--json"]
outcome["status"] = json.loads(subprocess.run(status, stdout=subprocess.PIPE).stdout)["state"]
gateway.terminate()
gateway.communicate()
outcome["exit"] = gateway.returncode
print(json.dumps(outcome))
"""


@pytest.fixture
def foreign_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
    os.chown(folder, NOBODY_UID, NOBODY_UID)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_the_same_user_cannot_read_the_gateways_memory(foreign_folder: Path) -> None:
    home = foreign_folder / "home"
    environ = {
        "PYTHONPATH": PACKAGES,
        "PATH": os.environ["PATH"],
        "HOME": str(foreign_folder),
        "HOLDFAST_HOME": str(home),
        "HOLDFAST_GATEWAY_PORT": "0",
        "HOLDFAST_MODEL_PROVIDER": "demo",
    }

    def as_nobody(source: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [SYSTEM_PYTHON, "-B", "-c", source, str(home)],
            env=environ,
            user=NOBODY_UID,
            group=NOBODY_UID,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )

    check = f"import sys; assert sys.version_info[:2] == {sys.version_info[:2]}; import msgspec"
    if not Path(SYSTEM_PYTHON).exists() or as_nobody(f"{check}; import holdfast").returncode:
        pytest.skip("another user cannot import this package")
    done = as_nobody(ATTACK)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        **dict.fromkeys(("mem", "environ", "fd", "maps"), "PermissionError"),
        "core": ["0", "0"],
        "found": True,
        "status": "running",
        "exit": 0,
    }
