"""Afterwards: when a process has stopped, whoever is to start the next one is asked for it."""

import logging
from collections.abc import Awaitable, Callable, Mapping

from holdfast.core.config.settings import SupervisorChoice
from holdfast.core.errors import HoldfastError
from holdfast.core.turns.stop import StopKind
from holdfast.service.supervisors.supervisor import (
    current_unit,
    read_own_cgroup,
    request_systemd_restart,
)
from holdfast.system import exits

log = logging.getLogger(__name__)

RESTART_EXIT = exits.GATEWAY_SERVICE_RESTART_EXIT_CODE


async def request_successor(
    kind: StopKind,
    *,
    supervisor: SupervisorChoice,
    environ: Mapping[str, str],
    start: Callable[[], Awaitable[None]],
) -> int:
    """The exit code of this process. `start` starts a successor where nobody else would."""
    if kind is not StopKind.RESTART:
        return exits.OK
    if supervisor not in (SupervisorChoice.SYSTEMD, SupervisorChoice.NONE):
        return RESTART_EXIT
    try:
        if supervisor is SupervisorChoice.SYSTEMD:
            await request_systemd_restart(current_unit(environ, cgroup=read_own_cgroup()), environ)
        else:
            await start()
    except HoldfastError as error:
        log.error(
            "A successor could not be arranged for: %s. Ending with %d, which asks for it.",
            error,
            RESTART_EXIT,
            extra={"action": "successor_request_failed"},
        )
        return RESTART_EXIT
    return exits.OK
