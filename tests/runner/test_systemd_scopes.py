"""Runners start in systemd scopes of their own, outside the unit of the gateway."""

from pathlib import Path

import pytest
from tests.support.settable_clock import SettableClock

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ids import SessionId
from holdfast.runner.cgroups import PROCESS_RESERVE
from holdfast.runner.launch import RETRY_AFTER, SystemdScopes, systemd_run_prefix

LIMITS = RunnerSettings(memory_mb=200, processes=50, cpus=1.5)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which there is a systemd-run, and nothing else."""
    program = tmp_path / "systemd-run"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("user_unit", "uid", "whose", "runtime"),
    [
        (True, 1000, "--user", "/run/user/1000"),
        (False, 1000, "--user", "/run/user/1000"),  # of a unit of the machine's
        (True, 0, "--user", "/run/user/0"),
        (False, 0, "--system", None),
    ],
)
def test_root_asks_the_system_manager_and_a_user_the_user_manager(
    path: str, user_unit: bool, uid: int, whose: str, runtime: str | None
) -> None:
    """E1: root uses the system manager, other users their own."""
    asked = systemd_run_prefix({"PATH": path}, user_unit=user_unit, uid=uid)
    assert whose in asked
    runtime_dirs = [word for word in asked if word.startswith("XDG_RUNTIME_DIR=")]
    assert runtime_dirs == ([f"XDG_RUNTIME_DIR={runtime}"] if runtime else [])
    assert {"--scope", "--collect"} <= set(asked)


def test_a_configured_bus_is_used_and_not_passed_on(path: str, tmp_path: Path) -> None:
    """No ambient identity: what a command inherits has no way to the user's systemd."""
    environ = {"PATH": path, "XDG_RUNTIME_DIR": "/run/x", "DBUS_SESSION_BUS_ADDRESS": "unix:y"}
    asked = systemd_run_prefix(environ, user_unit=True, uid=1000)
    assert {"XDG_RUNTIME_DIR=/run/x", "DBUS_SESSION_BUS_ADDRESS=unix:y"} <= set(asked)
    scopes = SystemdScopes(tmp_path, asked, clock=SettableClock())
    wrapper = scopes.wrapper(SessionId("s_1"), LIMITS)
    inside = wrapper[wrapper.index("--") + 1 :]
    assert inside[0] == "/usr/bin/env"
    assert {"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} == set(inside[2::2])


def test_a_scope_has_the_limits_of_a_session(path: str, tmp_path: Path) -> None:
    asked = systemd_run_prefix({"PATH": path}, user_unit=True, uid=1000)
    wrapper = SystemdScopes(tmp_path, asked, clock=SettableClock()).wrapper(
        SessionId("s_1"), LIMITS
    )
    limits = {word for word in wrapper[: wrapper.index("--")] if word.startswith("--property=")}
    assert limits == {
        "--property=MemoryMax=200M",
        "--property=MemorySwapMax=0",
        f"--property=TasksMax={50 + PROCESS_RESERVE}",
        "--property=CPUQuota=150%",
    }


def test_each_runner_has_a_scope_of_its_own(path: str, tmp_path: Path) -> None:
    """Also the next one of the same session: a name is taken while anything is left in it."""
    clock = SettableClock()
    scopes = SystemdScopes(
        tmp_path, systemd_run_prefix({"PATH": path}, user_unit=True, uid=1), clock=clock
    )
    names = set()
    for session in ("s_1", "s_2", "s_1", "an odd/name %i"):
        clock.at += 0.01
        (name,) = [w for w in scopes.wrapper(SessionId(session), LIMITS) if w.startswith("--unit=")]
        assert (
            name.replace("--unit=holdfast-runner-", "").replace("-", "").replace("_", "").isalnum()
        )
        names.add(name)
    assert len(names) == 4


def test_a_systemd_that_failed_is_not_asked_again_for_a_while(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A systemd that is slow to fail must not slow every command down."""
    clock = SettableClock()
    scopes = SystemdScopes(
        tmp_path, systemd_run_prefix({"PATH": path}, user_unit=True, uid=1), clock=clock
    )
    scopes.report_failure("no bus")
    assert "kills it with all its processes" in caplog.text
    assert scopes.wrapper(SessionId("s_1"), LIMITS) == []
    clock.at += RETRY_AFTER
    assert scopes.wrapper(SessionId("s_1"), LIMITS) != []


def test_a_missing_systemd_run_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scopes = SystemdScopes(
        tmp_path, systemd_run_prefix({"PATH": ""}, user_unit=True, uid=1), clock=SettableClock()
    )
    assert [scopes.wrapper(SessionId(name), LIMITS) for name in ("s_1", "s_2")] == [[], []]
    assert caplog.text.count("not installed") == 1
