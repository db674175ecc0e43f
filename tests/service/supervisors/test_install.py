"""Installing: shown first, compared, written once, and removed only where it is ours."""

import os
import pwd
import re
import shlex
from pathlib import Path

import pytest
from tests.service.supervisors.machine import FakeSystemd, Machine

from holdfast.service.supervisors import systemd_unit

DOCTOR = 0  # nothing else is wrong with a home that is just made
RELOAD = ["systemctl", "--user", "daemon-reload"]
ENABLE = ["systemctl", "--user", "enable", "holdfast.service"]


def test_a_unit_is_written_for_this_home_and_enabled(systemd_in_process: FakeSystemd) -> None:
    """E2: the command that the warning names exists."""
    machine = systemd_in_process.machine
    output = machine.call("gateway", "install", "--user").stdout
    assert systemd_unit.parse_home(machine.unit.read_text()) == machine.home
    assert machine.calls == [RELOAD, ENABLE]
    assert str(machine.unit) in output
    assert "loginctl enable-linger ann" in output
    assert "holdfast gateway start" in output
    assert systemd_in_process.show()["UnitFileState"] == "enabled"


def test_an_unchanged_unit_is_left_alone(systemd_in_process: FakeSystemd) -> None:
    machine = systemd_in_process.machine
    machine.call("gateway", "install", "--user")
    before = machine.unit.stat().st_mtime_ns
    output = machine.call("gateway", "install", "--user", "--force").stdout
    assert "nothing was changed" in output
    assert machine.unit.stat().st_mtime_ns == before
    assert machine.calls == [RELOAD, ENABLE]


def test_a_unit_that_is_different_is_shown_and_needs_force(systemd_in_process: FakeSystemd) -> None:
    """E2: `holdfast gateway install --force` repairs what differs."""
    machine = systemd_in_process.machine
    machine.call("gateway", "install", "--user")
    machine.variables["HOLDFAST_GATEWAY_RESTART_DRAIN_TIMEOUT"] = "300"
    refused = machine.call("gateway", "install", "--user", code=1)
    assert "-TimeoutStopSec=90" in refused.stdout
    assert "+TimeoutStopSec=340" in refused.stdout
    assert "--force" in refused.stderr
    assert systemd_unit.parse_stop_seconds(machine.unit.read_text()) == 90
    machine.call("gateway", "install", "--user", "--force")
    assert systemd_unit.parse_stop_seconds(machine.unit.read_text()) == 340
    assert machine.calls[-2:] == [RELOAD, ENABLE]


def test_a_dry_run_shows_unit_and_calls_and_does_nothing(machine: Machine) -> None:
    """Without any systemd behind it, too."""
    output = machine.call("gateway", "install", "--user", "--dry-run").stdout
    assert "ExecStart=" in output
    assert "$ systemctl --user daemon-reload" in output
    assert not machine.unit.exists()
    assert not machine.home.exists()
    assert machine.calls == []


def test_nothing_is_written_where_no_systemd_listens(machine: Machine) -> None:
    refused = machine.call("gateway", "install", "--user", code=1)
    assert "holdfast gateway boot" in refused.stderr
    assert not machine.unit.exists()


def test_two_homes_have_two_units_and_find_each_its_own(systemd_in_process: FakeSystemd) -> None:
    machine = systemd_in_process.machine
    other = machine.root / "ann" / "my bot %1"
    machine.call("gateway", "install", "--user")
    machine.call("gateway", "install", "--user", "--home", str(other))
    assert sorted(file.name for file in machine.units.iterdir()) == [
        "holdfast-my-bot-1.service",
        "holdfast.service",
    ]
    machine.call("gateway", "uninstall", "--home", str(other))
    assert [file.name for file in machine.units.iterdir()] == ["holdfast.service"]


def test_a_name_that_another_home_has_is_refused(systemd_in_process: FakeSystemd) -> None:
    machine = systemd_in_process.machine
    machine.call("gateway", "install", "--user", "--name", "bot")
    other = str(machine.root / "ann" / "bot")
    refused = machine.call("gateway", "install", "--user", "--home", other, "--force", code=1)
    assert "--name" in refused.stderr
    second = machine.call("gateway", "install", "--user", "--name", "second", code=1)
    assert "already installed" in second.stderr
    assert "is up to date" in machine.call("gateway", "install", "--user").stdout


def test_only_a_unit_that_we_wrote_is_removed(systemd_in_process: FakeSystemd) -> None:
    machine = systemd_in_process.machine
    machine.units.mkdir(parents=True)
    machine.unit.write_text(f"[Service]\nExecStart=/bin/true --home {machine.home}\n")
    refused = machine.call("gateway", "uninstall", code=1)
    assert "is not removed" in refused.stderr
    assert machine.unit.exists()


def test_uninstalling_a_missing_unit_says_so(systemd_in_process: FakeSystemd) -> None:
    for words in (["uninstall"], ["start"]):
        refused = systemd_in_process.machine.call("gateway", *words, code=1)
        assert "holdfast gateway install" in refused.stderr


def test_variables_that_the_service_will_not_see_are_reported(
    systemd_in_process: FakeSystemd,
) -> None:
    machine = systemd_in_process.machine
    machine.variables["HOLDFAST_AGENT_MAX_STEPS"] = "7"
    output = machine.call("gateway", "install", "--user").stdout
    assert "HOLDFAST_AGENT_MAX_STEPS" in output
    assert str(machine.home / ".env") in output


def test_a_system_unit_runs_as_the_named_user(machine: Machine) -> None:
    output = machine.call(
        "gateway", "install", "--system", "--run-as", "daemon", "--dry-run"
    ).stdout
    assert systemd_unit.get_value(output, "User") == "daemon"
    assert systemd_unit.get_value(output, "StateDirectory") == "holdfast"
    assert systemd_unit.parse_home(output) == Path("/var/lib/holdfast")
    assert "$ systemctl enable holdfast.service" in output
    unknown = machine.call("gateway", "install", "--system", "--run-as", "nobody-here", code=1)
    assert "useradd --system nobody-here" in unknown.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a system unit is installed by root")
def test_a_system_unit_is_written_found_repaired_and_removed(
    systemd_in_process: FakeSystemd,
) -> None:
    """E2: by the very command that the warning names, without its name or scope."""
    machine = systemd_in_process.machine
    home = machine.root / "srv" / "it's a bot"
    named = ("--home", str(home))
    machine.call("gateway", "install", "--system", "--run-as", "daemon", "--name", "b", *named)
    unit = machine.root / "machine/holdfast-b.service"
    assert systemd_unit.get_value(unit.read_text(), "User") == "daemon"
    assert home.stat().st_uid == (home / "logs").stat().st_uid == pwd.getpwnam("daemon").pw_uid
    assert machine.calls == [["systemctl", "daemon-reload"], ["systemctl", "enable", unit.name]]
    unit.write_text(unit.read_text().replace("TimeoutStopSec=90", "TimeoutStopSec=5"))
    output = machine.call("doctor", "--skip", "model", "--skip", "sandbox", *named).stdout
    (remedy,) = re.findall(r"fix: +holdfast (gateway install --force .*)", output)
    machine.call(*shlex.split(remedy))
    assert systemd_unit.parse_stop_seconds(unit.read_text()) == 90
    assert systemd_unit.get_value(unit.read_text(), "User") == "daemon"
    machine.call("gateway", "uninstall", *named)
    assert not unit.exists()


@pytest.mark.parametrize("words", [("--user", "--run-as", "daemon"), ("--name", "a b")])
def test_invalid_install_options_are_refused(machine: Machine, words: tuple[str, ...]) -> None:
    machine.call("gateway", "install", *words, code=1)
    assert machine.calls == []


def test_the_doctor_compares_the_unit_with_the_configuration(
    systemd_in_process: FakeSystemd,
) -> None:
    """E2: doctor's check is the same function."""
    machine = systemd_in_process.machine
    machine.call("gateway", "install", "--user")
    skipped = [word for name in ("model", "sandbox") for word in ("--skip", name)]
    machine.home.mkdir(exist_ok=True)
    assert "matches the configuration" in machine.call("doctor", *skipped, code=DOCTOR).stdout
    machine.variables["HOLDFAST_GATEWAY_RESTART_DRAIN_TIMEOUT"] = "300"
    output = machine.call("doctor", *skipped, code=DOCTOR).stdout
    assert "340 s" in output
    assert "holdfast gateway install --force" in output
