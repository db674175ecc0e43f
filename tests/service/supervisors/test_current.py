"""Detection of this process's supervisor from its environment and parent."""

import pytest

from holdfast.core.config.settings import SupervisorChoice as S
from holdfast.service.supervisors.current import (
    CurrentUnit,
    SupervisorUnreachable,
    current_unit,
    detect_supervisor,
    request_systemd_restart,
)


@pytest.mark.parametrize(
    ("environ", "pid", "parent", "who"),
    [
        ({}, 10, "bash", S.NONE),
        ({"INVOCATION_ID": "a"}, 10, "systemd", S.SYSTEMD),
        ({"INVOCATION_ID": "a", "SYSTEMD_EXEC_PID": "10"}, 10, "systemd", S.SYSTEMD),
        # A shell in a terminal that a service of the desktop started.
        ({"INVOCATION_ID": "a", "SYSTEMD_EXEC_PID": "4"}, 10, "bash", S.NONE),
        ({}, 10, "s6-supervise", S.S6),
        ({}, 10, "runsv", S.S6),
        ({}, 1, "", S.CONTAINER),
        ({"HOLDFAST_BOOT": "1"}, 10, "holdfast", S.CONTAINER),
        ({"XPC_SERVICE_NAME": "org.holdfast"}, 10, "launchd", S.LAUNCHD),
        ({"XPC_SERVICE_NAME": "0"}, 10, "zsh", S.NONE),
        ({"XPC_SERVICE_NAME": "application.com.apple.Terminal.1"}, 10, "zsh", S.NONE),
    ],
)
def test_the_supervisor_is_detected_from_environment_and_parent(
    environ: dict[str, str], pid: int, parent: str, who: S
) -> None:
    """E1: variables inherited from another service are not taken for our own."""
    assert detect_supervisor(S.AUTO, environ, pid=pid, parent=parent) is who
    assert detect_supervisor(S.S6, environ, pid=pid, parent=parent) is S.S6


@pytest.mark.parametrize(
    ("environ", "cgroup", "found"),
    [
        (
            {"HOLDFAST_UNIT": "holdfast.service", "HOLDFAST_SCOPE": "user"},
            "",
            CurrentUnit(name="holdfast.service", user=True),
        ),
        (
            {"HOLDFAST_UNIT": "holdfast-b.service", "HOLDFAST_SCOPE": "system"},
            "",
            CurrentUnit(name="holdfast-b.service", user=False),
        ),
        (
            {},
            "0::/system.slice/holdfast.service\n",
            CurrentUnit(name="holdfast.service", user=False),
        ),
        (
            {},
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/hf.service\n",
            CurrentUnit(name="hf.service", user=True),
        ),
        ({}, "0::/user.slice/user-1000.slice/session-2.scope\n", None),
        ({}, "", None),
    ],
)
def test_the_unit_is_read_from_the_environment_or_the_cgroup(
    environ: dict[str, str], cgroup: str, found: CurrentUnit | None
) -> None:
    assert current_unit(environ, cgroup=cgroup) == found


async def test_a_failed_systemctl_call_reports_its_reason() -> None:
    with pytest.raises(SupervisorUnreachable, match="name of its unit is unknown"):
        await request_systemd_restart(None, {})
    with pytest.raises(
        SupervisorUnreachable, match=r"`systemctl --no-block restart x.service` cannot be start"
    ):
        await request_systemd_restart(
            CurrentUnit(name="x.service", user=False), {"PATH": "/nowhere"}
        )
