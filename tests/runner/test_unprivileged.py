"""A gateway that is not root: the same isolation, by a user namespace of bubblewrap."""

import asyncio
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.system.bubblewrap import bwrap_programs

NOBODY_UID = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
SOURCE = Path(__file__).parents[2] / "src"

SCRIPT = """
import asyncio, json, sys, time
from pathlib import Path
from holdfast.core.config.settings import RunnerSettings, SandboxMode
from holdfast.runner.program.process_tree import living_descendants, start_time
from holdfast.runner.bubblewrap import SandboxProbe
from holdfast.runner.runners import Runners
from holdfast.system.egress import EgressPolicy

class Clock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

rows = []

async def note(row):
    rows.append(row)

FORK = '''python3 -c "
import os, time
for n in range(80):
    if not os.fork(): time.sleep(20); os._exit(0)
print(n)"'''

async def main():
    home = Path(sys.argv[1])
    (home / ".env").write_text("sk-very-secret")
    settings = RunnerSettings(sandbox=SandboxMode.REQUIRED, processes=40, file_mb=1)
    probe = SandboxProbe(settings, runs=home / "runs", programs=sys.argv[2:])
    runners = Runners(
        home, settings, clock=Clock(), on_started=note, on_ended=note, egress=EgressPolicy,
        probe=probe,
    )
    sandbox = runners.sandbox("s_1")
    outputs = {}
    async def record(name, command):
        outputs[name] = (await sandbox.run(name, command, limit=60)).output
    if not await runners.probe():
        return print(json.dumps({"no sandbox": runners.why_unsandboxed}))
    await record("state", "cd /tmp; export WORD=kept")
    await record("kept", "pwd; echo $WORD; whoami")
    await record("secret", f"cat {home}/.env; ls {home}")
    await record("rights", "grep CapEff /proc/self/status; grep CapBnd /proc/self/status")
    await record("writes", "for p in / /usr /etc /dev /run /opt; do touch $p/x && echo wrote; done")
    await record("looks", "ls /proc/1/fd; kill -9 1; echo alive")
    await record("proxy", "curl -sS --noproxy '' http://127.0.0.1:9/")
    await record("large", "head -c 3000000 /dev/zero >big; stat -c %s big")
    await sandbox.run("left", "setsid nohup sleep 3431 >/dev/null 2>&1 & true", limit=60)
    await record("forks", FORK)
    below = {pid: start_time(pid) for pid in living_descendants(rows[0].pid)}
    outputs["below"] = len(below)
    await runners.end_session("s_1")
    outputs["left"] = [pid for pid, began in below.items() if start_time(pid) == began]
    print(json.dumps(outputs))

asyncio.run(main())
"""


@pytest.fixture
def foreign_home() -> Iterator[Path]:
    """A home that belongs to the user nobody, in a folder that this user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
    os.chown(folder, NOBODY_UID, NOBODY_UID)
    yield folder
    shutil.rmtree(folder)


def _skip_reason() -> str:
    if os.getuid() != 0:
        return "the other tests run without root already"
    if not Path(SYSTEM_PYTHON).exists():
        return f"needs {SYSTEM_PYTHON}, which every user can run: apt install python3"
    return ""


async def _run_as_nobody(home: Path, bwrap: str) -> dict[str, Any]:
    paths = f"{SOURCE}:{sysconfig.get_path('purelib')}"
    check = f"import sys; assert sys.version_info[:2] == {sys.version_info[:2]}; import holdfast"
    for source in (check + "; import msgspec", SCRIPT):
        child = await asyncio.create_subprocess_exec(
            SYSTEM_PYTHON,
            "-B",
            "-c",
            source,
            str(home),
            bwrap,
            env={"PYTHONPATH": paths},
            user=NOBODY_UID,
            group=NOBODY_UID,
            extra_groups=[],
            cwd="/",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        report, errors = await child.communicate()
        if child.returncode and source is not SCRIPT:
            pytest.skip("another user cannot import this package: its folder is closed to others")
    assert child.returncode == 0, errors.decode()
    outputs: dict[str, Any] = json.loads(report)
    return outputs


@pytest.mark.skipif(bool(_skip_reason()), reason=_skip_reason())
@pytest.mark.parametrize("bwrap", bwrap_programs())
async def test_a_gateway_without_root_has_the_same_isolation_and_limits(
    foreign_home: Path, bwrap: str
) -> None:
    """With the system's bubblewrap and with that of the wheel."""
    outputs = await _run_as_nobody(foreign_home, bwrap)
    if "no sandbox" in outputs:
        pytest.skip(f"this kernel grants users no namespaces: {outputs['no sandbox']}")
    assert outputs["kept"] == "/tmp\nkept\nagent\n"
    assert "sk-very-secret" not in outputs["secret"] and "No such file" in outputs["secret"]
    assert outputs["rights"].split()[1::2] == ["0" * 16] * 2
    assert "wrote" not in outputs["writes"]
    assert "off limits" in outputs["proxy"]
    assert "ermission denied" in outputs["looks"] and outputs["looks"].endswith("alive\n")
    assert "Resource temporarily unavailable" in outputs["forks"]
    assert outputs["large"].split()[-1] == str(1 << 20)
    assert outputs["below"] > 30 and outputs["left"] == []
