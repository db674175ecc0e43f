"""Supervised: what follows for this process from the unit that started it."""

import os

from holdfast.config import Config
from holdfast.core.config.settings import SupervisorChoice
from holdfast.core.ports.protocols import Clock
from holdfast.runner.scopes import Scopes, front
from holdfast.service.supervisors.supervisor import own_cgroup, parent_name, supervisor, unit


def scopes_of(config: Config, *, clock: Clock) -> Scopes | None:
    """How runners are kept out of the unit (E1); None: no unit of systemd's started us."""
    by = supervisor(
        config.settings.gateway.supervisor, config.environ, pid=os.getpid(), parent=parent_name()
    )
    if by is not SupervisorChoice.SYSTEMD:
        return None
    ours = unit(config.environ, cgroup=own_cgroup())
    asked = front(config.environ, user_unit=ours is not None and ours.user, uid=os.getuid())
    return Scopes(config.home, asked, clock=clock)
