"""The container: what the image and the compose file promise, and the boot that they run.

No Docker daemon is needed: both files are read, and the command that the image runs is run here.
"""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import pytest
import yaml
from tests.service.supervisors.machine import HOLDFAST, REPO, Machine

from holdfast.core.config.settings import GatewaySettings
from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.service.supervisors.unit import stop_seconds_needed

Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """The Dockerfile as Docker reads it: comments gone, continued lines joined."""
    lines = [line for line in (REPO / "Dockerfile").read_text().splitlines() if line[:1] != "#"]
    whole = "\n".join(lines).replace("\\\n", " ")
    found = (line.split(None, 1) for line in whole.splitlines() if line.strip())
    return [(name.upper(), rest.strip()) for name, rest in found]


def stages() -> list[list[Instruction]]:
    stages_found: list[list[Instruction]] = []
    for name, rest in instructions():
        if name == "FROM":
            stages_found.append([])
        if stages_found:
            stages_found[-1].append((name, rest))
    return stages_found


def last(name: str) -> str:
    (*_, found) = [rest for each, rest in stages()[-1] if each == name]
    return found


def variables() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(last("ENV")))


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    document = yaml.safe_load((REPO / "compose.yaml").read_text())
    assert set(document["volumes"]) == {"holdfast"}
    found: dict[str, Any] = document["services"]["holdfast"]
    return found


def ignored(path: str) -> bool:
    """By .dockerignore, of whose lines the last that fits counts."""
    verdict = False
    for line in (REPO / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if pattern and not pattern.startswith("#") and fnmatch(path, pattern):
            verdict = not line.startswith("!")
    return verdict


def test_what_the_image_copies_is_there_and_reaches_the_build() -> None:
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from="):
            for source in rest.split()[:-1]:
                assert (REPO / source).exists(), source
                assert not ignored(source.removeprefix("./")), source
    assert ignored("tests"), "the build gets no more than it needs"
    assert ignored(".venv")


def test_the_image_runs_the_boot_as_an_unprivileged_user() -> None:
    """E3: the container's boot; the issue: a non-root user, a volume, a healthcheck."""
    user, _, group = last("USER").partition(":")
    assert user.isdigit() and group.isdigit() and 0 not in (int(user), int(group))
    assert variables()["HOLDFAST_HOME"] == last("VOLUME") == variables()["HOME"]
    assert f"--mode 0700 {last('VOLUME')}" in " ".join(rest for _, rest in stages()[-1])
    assert last("STOPSIGNAL") == "SIGTERM"
    assert (last("ENTRYPOINT"), last("CMD")) == ('["holdfast"]', '["gateway", "boot"]')
    assert int(last("EXPOSE")) == GatewaySettings().port
    assert "bubblewrap" in " ".join(rest for name, rest in stages()[-1] if name == "RUN")
    assert re.search(r'CMD \["holdfast", "status", "--quiet"\]', last("HEALTHCHECK"))


def test_the_variables_of_the_image_are_ones_that_the_gateway_knows(machine: Machine) -> None:
    machine.variables |= {
        name: value for name, value in variables().items() if name.startswith("HOLDFAST_")
    } | {"HOLDFAST_HOME": str(machine.home)}
    machine.call("config", "check")


def test_compose_gives_a_stop_the_time_it_may_need(service: dict[str, Any]) -> None:
    """E1: so that a stop always has time to clean up."""
    assert int(service["stop_grace_period"].removesuffix("s")) >= stop_seconds_needed(
        GatewaySettings()
    )


def test_compose_keeps_the_data_and_lets_only_this_machine_in(service: dict[str, Any]) -> None:
    assert service["volumes"] == [f"holdfast:{last('VOLUME')}"]
    assert service["ports"] == [f"127.0.0.1:{last('EXPOSE')}:{last('EXPOSE')}"]
    assert service["restart"] == "unless-stopped"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "init" not in service, "the boot is the first process"
    assert all("=" not in each for each in service["environment"]), "passed on, never empty"


def test_the_files_are_docker_compose_files(service: dict[str, Any]) -> None:
    """`docker compose config` where there is one; it needs no daemon."""
    probe = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("docker compose is not installed")
    subprocess.run(["docker", "compose", "config", "--quiet"], cwd=REPO, check=True)


@pytest.fixture
def boot(machine: Machine) -> Iterator["subprocess.Popen[bytes]"]:
    """What the image runs, beside a supervisor that is not there."""
    for name in ("systemctl", "systemd-run"):
        (machine.bin / name).unlink()
    machine.variables |= {"HOLDFAST_GATEWAY_PORT": "0", "PATH": str(machine.bin)}
    process = subprocess.Popen(
        [HOLDFAST, "gateway", "boot"], env=machine.environ, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=100) == 0


def healthy(machine: Machine) -> bool:
    return machine.call("status", "--quiet", code=None).exit_code == 0


def test_a_container_is_stopped_and_started_by_the_same_commands(
    machine: Machine, boot: "subprocess.Popen[bytes]"
) -> None:
    """E3: an operator's stop leaves the boot idle; `holdfast gateway start` reaches it; a restart
    ends with 75, after which the boot starts it again."""
    machine.until(lambda: _state(machine) == "running")
    assert healthy(machine)
    machine.call("gateway", "stop")
    assert not healthy(machine)
    assert boot.poll() is None
    # The gateway has ended; the boot is notified of that a moment later.
    machine.until(lambda: "container: idle" in machine.call("gateway", "status", code=3).stdout)
    assert "starting" in machine.call("gateway", "start").stdout
    machine.until(lambda: _state(machine) == "running")
    before = read_status(machine.paths)["pid"]
    machine.call("gateway", "restart")
    assert read_status(machine.paths)["pid"] != before
    assert os.path.exists(f"/proc/{boot.pid}")


def _state(machine: Machine) -> str:
    try:
        return str(read_status(machine.paths)["state"])
    except GatewayDown:
        return "down"
