"""Supervised: what follows for this process from the unit that started it."""

import os

from holdfast.config import Config
from holdfast.core.config.settings import SupervisorChoice
from holdfast.core.ports.protocols import Clock
from holdfast.runner.scopes import SystemdScopes, systemd_run_prefix
from holdfast.service.supervisors.supervisor import (
    current_unit,
    detect_supervisor,
    parent_name,
    read_own_cgroup,
)


def runner_scopes(config: Config, *, clock: Clock) -> SystemdScopes | None:
    """How runners are kept out of the unit (E1); None: no unit of systemd's started us."""
    by = detect_supervisor(
        config.settings.gateway.supervisor, config.environ, pid=os.getpid(), parent=parent_name()
    )
    if by is not SupervisorChoice.SYSTEMD:
        return None
    ours = current_unit(config.environ, cgroup=read_own_cgroup())
    asked = systemd_run_prefix(
        config.environ, user_unit=ours is not None and ours.user, uid=os.getuid()
    )
    return SystemdScopes(config.home, asked, clock=clock)
