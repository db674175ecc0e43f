"""A gateway that launchd keeps: its property list, and real processes under a faithful fake."""

import os
import plistlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.supervisors.machine import FAKES, SPEED, Machine

from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.service.supervisors.launchd import parse_plist, plist_home, render_plist
from holdfast.service.supervisors.unit import Unit, UnitScope
from holdfast.system import exit_codes
from holdfast.system.exit_codes import launchd_exit_code

UNIT = Unit(
    name="holdfast",
    scope=UnitScope.USER,
    home=Path("/Users/ann/.holdfast"),
    program=("/usr/local/bin/holdfast",),
    stop_seconds=340.5,
)
LAUNCHD = {"XPC_SERVICE_NAME": "holdfast", "HOLDFAST_UNIT": "holdfast"}


def test_the_property_list_has_the_keys_that_restart_and_stop_need() -> None:
    """E1: started again after any exit but 0, not at once, with time to clean up."""
    document = plistlib.loads(render_plist(UNIT))
    assert document["ProgramArguments"] == list(UNIT.command)
    assert document["KeepAlive"] == {"SuccessfulExit": False}
    assert document["ThrottleInterval"] == 10
    assert document["ExitTimeOut"] == 341
    assert document["RunAtLoad"] is True
    assert document["EnvironmentVariables"]["HOLDFAST_UNIT"] == document["Label"] == "holdfast"
    assert document["StandardErrorPath"] == "/Users/ann/.holdfast/logs/launchd.log"
    assert "UserName" not in document


@settings(deadline=None)
@given(name=st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp"))))
def test_any_home_is_read_back_as_it_was_written(name: str) -> None:
    home = Path(f"/Users/ann/{name.replace('/', '-')}x")
    written = Unit(**{**{key: getattr(UNIT, key) for key in UNIT.__struct_fields__}, "home": home})
    assert plist_home(parse_plist(render_plist(written))) == home


def test_an_invalid_property_list_is_read_as_nothing() -> None:
    assert parse_plist(b"[Service]\n") == {}
    assert parse_plist(plistlib.dumps([1])) == {}


@pytest.mark.parametrize(
    ("code", "environ", "reported"),
    [
        (exit_codes.CONFIG_EXIT, LAUNCHD, exit_codes.OK),
        (exit_codes.FAILED, LAUNCHD, exit_codes.FAILED),
        (exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE, LAUNCHD, 75),
        (exit_codes.CONFIG_EXIT, {}, exit_codes.CONFIG_EXIT),
        (
            exit_codes.CONFIG_EXIT,
            {"XPC_SERVICE_NAME": "application.Terminal"},
            exit_codes.CONFIG_EXIT,
        ),
    ],
)
def test_an_invalid_configuration_exits_differently_only_under_launchd(
    code: int, environ: dict[str, str], reported: int
) -> None:
    """E1: 78 is what no supervisor restarts; launchd restarts whatever is not 0."""
    assert launchd_exit_code(code, environ) == reported


@pytest.fixture
def mac(machine: Machine) -> Iterator[Machine]:
    """A machine whose supervisor is launchd, and on which nothing is left running."""
    for name in ("systemctl", "systemd-run"):
        (machine.bin / name).unlink()
    machine.fake("launchctl", FAKES / "launchctl.py")
    machine.variables |= {"FAKE_SPEED": str(SPEED), "HOLDFAST_GATEWAY_PORT": "0"}
    try:
        yield machine
    finally:
        machine.cli("gateway", "uninstall", code=None)


def status(machine: Machine) -> dict[str, Any] | None:
    try:
        return read_status(machine.paths)
    except GatewayDown:
        return None


def running(machine: Machine, *, but: int = 0) -> int:
    """The process of a gateway that takes messages and is not that one; 0: there is none."""
    found = status(machine)
    ready = found is not None and found["state"] == "running" and found["pid"] != but
    return int(found["pid"]) if found is not None and ready else 0


def test_an_installation_says_first_that_agents_have_no_tools(mac: Machine) -> None:
    """Also one that only shows what it would do."""
    for options in (["--dry-run"], []):
        output = mac.call("gateway", "install", "--user", *options).stdout
        assert output.startswith("On macOS, the tools of agents do not work"), output


def test_a_gateway_is_started_restarted_and_stopped_by_launchd(mac: Machine) -> None:
    """E1: loaded and started; a restart ends with 75 and is started again; so is a killed one; an
    operator's stop ends with 0, is unloaded, and stays down."""
    plist = mac.root / "ann/Library/LaunchAgents/holdfast.plist"
    mac.call("gateway", "install", "--user")
    assert plist_home(parse_plist(plist.read_bytes())) == mac.home
    mac.call("gateway", "start")
    first = mac.until(lambda: running(mac))
    mac.call("gateway", "restart")
    assert "exited 75" in mac.events
    second = mac.until(lambda: running(mac, but=first))
    os.kill(second, signal.SIGKILL)
    third = mac.until(lambda: running(mac, but=second))
    assert f"process {third}" in mac.call("gateway", "status").stdout
    mac.call("gateway", "stop")
    mac.until(lambda: mac.events[-1] == "exited 0")  # which is written when it has been reaped
    assert "not loaded" in mac.call("gateway", "status", code=3).stdout
    mac.call("gateway", "uninstall")
    assert not plist.exists()
    domain = f"gui/{os.getuid()}"
    assert [call[1:] for call in mac.calls if "keep" not in call] == [
        ["enable", f"{domain}/holdfast"],
        ["bootstrap", domain, str(plist)],
        ["bootout", f"{domain}/holdfast"],
    ]


def test_a_wrong_configuration_is_told_and_not_tried_again(mac: Machine) -> None:
    """E1: launchd would start it for ever, so it ends with 0 after it has reported the problem."""
    mac.call("gateway", "install", "--user")
    mac.paths.config_file.write_text("[gateway]\nprot = 1\n")
    mac.call("gateway", "start")
    mac.until(lambda: mac.events)
    assert mac.events == ["exited 0"]
    log = (mac.paths.logs / "launchd.log").read_text()
    assert "did you mean `port`" in log
    mac.paths.config_file.unlink()
    mac.call("gateway", "start")
    assert mac.until(lambda: running(mac))
