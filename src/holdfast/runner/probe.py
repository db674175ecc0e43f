"""The probe: finds out once how runners can be started here, and says so if they are open."""

import asyncio
import logging
from pathlib import Path

from holdfast.core.config.settings import RunnerSettings, SandboxMode
from holdfast.runner.sandbox import HOW_TO_GET_IT, Plan, make_plan

log = logging.getLogger(__name__)


class Probe:
    """Owns the plan. However many ask, bubblewrap is tried once; a failure is tried again."""

    def __init__(self, settings: RunnerSettings, *, runs: Path, bwrap: str) -> None:
        self._settings, self._runs, self._bwrap = settings, runs, bwrap
        self._planning: asyncio.Task[Plan] | None = None
        self.found: Plan | None = None

    async def plan(self) -> Plan:
        if self._planning is None or (self._planning.done() and self._planning.exception()):
            self._planning = asyncio.create_task(self._make())
        return await asyncio.shield(self._planning)

    async def _make(self) -> Plan:
        plan = await asyncio.to_thread(
            make_plan, self._settings, runs=self._runs, bwrap=self._bwrap
        )
        self.found = plan
        if not plan.sandboxed and self._settings.sandbox != SandboxMode.OFF:
            log.warning(
                "COMMANDS RUN WITHOUT A SANDBOX (%s): they can read and change whatever the"
                " gateway can, its keys and control socket included. To confine them: %s",
                plan.why_unsandboxed,
                HOW_TO_GET_IT,
                extra={"action": "runner_unsandboxed"},
            )
        return plan
