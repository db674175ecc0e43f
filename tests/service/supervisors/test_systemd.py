"""A gateway that systemd keeps: real processes, started, restarted, killed and stopped by a fake
that does what systemd does."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from tests.service.supervisors.machine import HOLDFAST, FakeSystemd, Machine

from holdfast.service.intent import Intent
from holdfast.system.lock import read_holder

ASKING = ["systemctl", "--user", "--no-block", "restart", "holdfast.service"]
# Goes on in the runner until the test lets it: the gateway may come and go meanwhile.
COMMAND = "run echo began > began; until [ -e go ]; do sleep 0.05; done; echo done >> log; cat log"


@pytest.fixture
def installed(systemd: FakeSystemd) -> FakeSystemd:
    """A fake systemd with an installed unit, whose gateway is ready."""
    systemd.machine.call("gateway", "install", "--user")
    systemd.machine.call("gateway", "start")
    assert systemd.is_running(), systemd.machine.diagnostics
    return systemd


@contextmanager
def held_command(machine: Machine) -> Iterator["subprocess.Popen[str]"]:
    """A request whose command runs until `release_command`."""
    asking = subprocess.Popen(
        [HOLDFAST, "ask", "--session", "long", COMMAND],
        env=machine.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        machine.until(lambda: [*machine.paths.workspaces.glob("*/began")])
        yield asking
    finally:
        asking.kill()
        asking.communicate()


def release_command(machine: Machine, asking: "subprocess.Popen[str]") -> str:
    (began,) = machine.paths.workspaces.glob("*/began")
    began.with_name("go").touch()
    answer, errors = asking.communicate(timeout=100)
    assert asking.returncode == 0, f"{answer}{errors}{machine.diagnostics}"
    return answer


def address_of(machine: Machine) -> str:
    """Its address: a port that the system chose, so another one if the socket was not stored."""
    holder = read_holder(machine.home)
    assert holder is not None, machine.diagnostics
    return holder.address


def intent(machine: Machine) -> Intent:
    return msgspec.json.decode(machine.paths.intent.read_bytes(), type=Intent)


def test_a_restart_asks_systemd_parks_turns_and_the_successor_resumes_them(
    installed: FakeSystemd,
) -> None:
    """E1: asked, exit 0, the unit is started again; the runner survives in its scope; C2: the turn
    parks and is answered once, without a note."""
    machine, before, address = installed.machine, installed.pid, address_of(installed.machine)
    with held_command(machine) as asking:
        output = machine.call("gateway", "restart").stdout
        machine.until(lambda: installed.is_running(but=before))
        assert f"process {installed.pid}" in output
        answer = release_command(machine, asking)
    assert answer.count("done") == 1
    assert address_of(machine) == address, "systemd has kept the listening socket"
    assert ASKING in machine.calls
    assert "exited 0" in machine.events
    (scope,) = [call for call in machine.calls if call[0] == "systemd-run"]
    assert {"--user", "--scope", "--collect"} < set(scope)
    assert any(word.startswith("--unit=holdfast-runner-") for word in scope)
    assert not any(event.startswith("swept") for event in machine.events), machine.events


def test_runners_and_restarts_work_when_systemd_calls_fail(installed: FakeSystemd) -> None:
    """E1: if systemd-run fails, the runner starts without it and the log says what that costs; if
    asking for a restart fails, exit code 75 asks, and RestartForceExitStatus makes it count."""
    machine, before = installed.machine, installed.pid
    machine.refuse("systemd-run")
    machine.refuse("restart")
    assert "42" in machine.call("ask", "run echo $((6 * 7))").stdout
    machine.wait_for_log("runner_without_scope")
    machine.wait_for_log("a restart or crash of the gateway kills it")
    machine.call("gateway", "restart")
    machine.until(lambda: installed.is_running(but=before))
    assert "exited 75" in machine.events
    swept = [event for event in machine.events if event.startswith("swept")]
    assert swept, "a runner without a scope ends with the unit: that is what a scope is for"


def test_a_killed_gateway_is_started_again_and_its_runner_is_still_there(
    installed: FakeSystemd,
) -> None:
    """E1: neither a restart nor a crash of the unit kills a runner; J2: it is attached to."""
    machine, before = installed.machine, installed.pid
    with held_command(machine) as asking:
        os.kill(before, signal.SIGKILL)
        machine.until(lambda: installed.is_running(but=before))
        assert release_command(machine, asking).count("done") == 1
    assert "state activating (auto-restart)" in machine.events
    assert int(installed.show()["NRestarts"]) == 1


def test_an_operators_stop_keeps_the_gateway_down(installed: FakeSystemd) -> None:
    """E3: recorded as stopped; exit 0; nothing starts it again, and `start` does. A SIGTERM that
    no operator of ours sent leaves `running` for the next boot."""
    machine, before = installed.machine, installed.pid
    machine.call("gateway", "stop")
    assert installed.show()["ActiveState"] == "inactive"
    assert not intent(machine).should_start
    assert "exited 0" in machine.events
    output = machine.call("gateway", "status", code=3)
    assert "holdfast.service is inactive (dead)" in output.stdout
    machine.call("gateway", "start")
    machine.until(lambda: installed.is_running(but=before))
    assert "active (running)" in machine.call("gateway", "status").stdout
    assert "login?key=" not in machine.diagnostics, "the journal contains no login link"
    stopping = ["systemctl", "--user", "stop", "holdfast.service"]
    subprocess.run(stopping, env=machine.environ, check=True)
    assert installed.show()["ActiveState"] == "inactive"
    assert intent(machine).should_start


def test_a_wrong_configuration_is_not_tried_again(systemd: FakeSystemd) -> None:
    """E1: exit 78, which no supervisor restarts."""
    machine = systemd.machine
    machine.call("gateway", "install", "--user")
    machine.home.mkdir(exist_ok=True)
    machine.paths.config_file.write_text("[gateway]\nprot = 1\n")
    machine.call("gateway", "start", code=1)
    shown = systemd.show()
    assert (shown["ActiveState"], shown["NRestarts"]) == ("failed", "0")
    assert "exited 78" in machine.events
    assert "did you mean `port`" in machine.diagnostics


def test_a_start_that_fails_is_tried_again_until_an_operator_stops_it(systemd: FakeSystemd) -> None:
    """The issue: starts that fail again and again wait, and are never given up silently."""
    machine = systemd.machine
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        over = machine.units / "holdfast.service.d" / "port.conf"
        over.parent.mkdir(parents=True)
        port = taken.getsockname()[1]
        over.write_text(f"[Service]\nEnvironment=HOLDFAST_GATEWAY_PORT={port}\n")
        machine.call("gateway", "install", "--user")
        machine.call("gateway", "start", code=1)
        machine.until(lambda: int(systemd.show()["NRestarts"]) >= 2)
    machine.call("gateway", "stop")
    assert systemd.show()["ActiveState"] == "inactive"
    assert "exited 1" in machine.events


def test_unit_drift_is_reported_at_start_and_in_status(installed: FakeSystemd) -> None:
    """E2: naming the command that repairs it, which does."""
    machine = installed.machine
    text = machine.unit.read_text()
    machine.unit.write_text(text.replace("TimeoutStopSec=90", "TimeoutStopSec=5"))
    output = machine.call("gateway", "status").stdout
    assert "holdfast gateway install --force" in output
    machine.call("gateway", "restart")
    machine.wait_for_log("unit_drift")
    machine.call("gateway", "install", "--user", "--force")
    assert "holdfast gateway install" not in machine.call("gateway", "status").stdout
    machine.call("gateway", "uninstall")
    assert installed.machine.events[-1] == "state inactive (dead)"
    assert not machine.unit.exists()
    assert machine.home.is_dir()
