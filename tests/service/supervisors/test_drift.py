"""Drift: an installed unit that differs from the configuration is reported with its remedy."""

import re
import sys
from pathlib import Path

import pytest

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.text.translation import use_catalogue
from holdfast.service.supervisors import systemd_unit
from holdfast.service.supervisors.backend import ProgramResult
from holdfast.service.supervisors.drift import describe_drift, launchd_problems, systemd_problems
from holdfast.service.supervisors.installed_units import SupervisorBackends, needed_unit, unit_drift
from holdfast.service.supervisors.launchd import parse_plist, render_plist
from holdfast.service.supervisors.unit import Unit, UnitScope, stop_seconds_needed
from holdfast.system.languages import PseudoCatalogue

UNIT = Unit(
    name="holdfast",
    scope=UnitScope.USER,
    home=Path("/home/ann/.holdfast"),
    program=(sys.executable, "-m", "holdfast.cli"),
    stop_seconds=90,
)
FILE = Path("/home/ann/.config/systemd/user/holdfast.service")
TEXT = systemd_unit.render_unit(UNIT, version=252)


def test_a_freshly_written_unit_has_no_drift() -> None:
    assert systemd_problems(TEXT, unit=UNIT) == []


@pytest.mark.parametrize(
    ("before", "after", "message", "broken"),
    [
        ("TimeoutStopSec=90", "TimeoutStopSec=1min 29s", "89 s", False),
        ("TimeoutStopSec=90", "TimeoutStopSec=soon", "no readable time", False),
        (f"ExecStart={sys.executable}", "ExecStart=/bin/sh", "another program", False),
        (f"ExecStart={sys.executable}", "ExecStart=-/nowhere/x", "/nowhere/x", True),
        ("ExecStart=", "#", "starts nothing", True),
        ("/home/ann/.holdfast\nW", "/srv/other\nW", "another home, /srv/other", False),
        ("RestartForceExitStatus=75", "", "RestartForceExitStatus=75", False),
        ("RestartPreventExitStatus=78", "", "RestartPreventExitStatus=78", False),
        ("Type=notify", "Type=simple", "Type=notify", False),
        ("KillMode=mixed", "", "KillMode=mixed", False),
    ],
)
def test_each_difference_is_reported(before: str, after: str, message: str, broken: bool) -> None:
    """E2: a stop timeout too short, another program, another home, exit codes that are missing."""
    assert before in TEXT
    (found,) = systemd_problems(TEXT.replace(before, after), unit=UNIT)
    assert message in str(found.sentence(FILE))
    assert found.broken is broken


def test_the_drift_message_names_the_file_and_the_command_that_repairs_it() -> None:
    """E2."""
    found = systemd_problems(TEXT.replace("TimeoutStopSec=90", "TimeoutStopSec=5"), unit=UNIT)
    message = str(*describe_drift(found, unit=UNIT, file=FILE))
    assert message.startswith(f"{FILE} allows 5 s for a stop")
    assert "`holdfast gateway install --force`" in message


def test_the_drift_message_is_in_the_language_of_its_reader() -> None:
    """No word of it may be outside of the brackets of the pseudo-locale, except values."""
    text = "[Service]\nExecStart=/bin/sh gateway run\nTimeoutStopSec=5\n"
    problems = [*systemd_problems(text, unit=UNIT), *launchd_problems({}, unit=UNIT)]
    assert len(problems) > 7
    for message in describe_drift(problems, unit=UNIT, file=FILE):
        with use_catalogue(PseudoCatalogue()):
            assert re.fullmatch(r"⟦⟦[^⟦⟧]*⟧ ⟦[^⟦⟧]*⟧ [^⟦⟧]*⟧", message.for_person())


@pytest.mark.parametrize(
    "same",
    [
        TEXT.replace("RestartForceExitStatus=75", "RestartForceExitStatus=TEMPFAIL 75"),
        TEXT.replace("TimeoutStopSec=90", "TimeoutStopSec=infinity"),
        TEXT.replace("TimeoutStopSec=90", "TimeoutStopSec=5\nTimeoutStopSec=2min"),
        TEXT.replace(" gateway run", " \\\n  # as a comment\n  gateway run"),
    ],
)
def test_equivalent_spellings_are_no_drift(same: str) -> None:
    assert systemd_problems(same, unit=UNIT) == []


def test_a_property_list_is_compared_in_the_same_way() -> None:
    """E2."""
    document = parse_plist(render_plist(UNIT))
    assert launchd_problems(document, unit=UNIT) == []
    assert "5 s" in str(
        launchd_problems(document | {"ExitTimeOut": 5}, unit=UNIT)[0].sentence(FILE)
    )
    assert launchd_problems(document | {"ExitTimeOut": 0}, unit=UNIT) == []
    assert launchd_problems(document | {"KeepAlive": True}, unit=UNIT)
    assert launchd_problems({}, unit=UNIT)[1].broken


def _backends(tmp_path: Path) -> SupervisorBackends:
    def run_nothing(argv: object) -> ProgramResult:
        raise AssertionError(f"called {argv}")

    return SupervisorBackends(
        environ={"HOME": str(tmp_path), "PATH": ""}, user_id=0, run=run_nothing
    )


def test_the_drift_of_a_home_reads_files_and_runs_no_program(tmp_path: Path) -> None:
    """E2: a longer drain than the unit was written for."""
    home, settings = tmp_path / ".holdfast", GatewaySettings()
    backends = _backends(tmp_path)
    assert unit_drift(home, settings, backends=backends) == []
    unit = needed_unit(home, settings, environ=backends.environ, scope=UnitScope.USER)
    file = backends.unit_dir(UnitScope.USER) / "holdfast.service"
    file.parent.mkdir(parents=True)
    file.write_text(systemd_unit.render_unit(unit, version=252))
    assert unit_drift(home, settings, backends=backends) == []
    longer = GatewaySettings(restart_drain_timeout=300)
    (message,) = unit_drift(home, longer, backends=backends)
    assert f"{stop_seconds_needed(longer):g} s" in str(message)


def test_drop_in_files_of_systemctl_edit_count(tmp_path: Path) -> None:
    home, backends = tmp_path / ".holdfast", _backends(tmp_path)
    longer = GatewaySettings(restart_drain_timeout=300)
    unit = needed_unit(home, GatewaySettings(), environ=backends.environ, scope=UnitScope.USER)
    file = backends.unit_dir(UnitScope.USER) / "holdfast.service"
    over = file.with_name("holdfast.service.d") / "override.conf"
    over.parent.mkdir(parents=True)
    file.write_text(systemd_unit.render_unit(unit, version=252))
    over.write_text("[Service]\nTimeoutStopSec=10min\n")
    assert unit_drift(home, longer, backends=backends) == []
