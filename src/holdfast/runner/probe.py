"""The probe: finds out once how runners can be started here, and says so if they are open."""

import asyncio
import logging
from pathlib import Path

from holdfast.core.config.settings import RunnerSettings, SandboxMode
from holdfast.runner.sandbox import BUBBLEWRAP_HINT, ConfinementPlan, make_plan

log = logging.getLogger(__name__)


class SandboxProbe:
    """Owns the plan. However many ask, bubblewrap is tried once; a failure is tried again."""

    def __init__(self, settings: RunnerSettings, *, runs: Path, bwrap: str) -> None:
        self._settings, self._runs, self._bwrap = settings, runs, bwrap
        self._task: asyncio.Task[ConfinementPlan] | None = None
        self.result: ConfinementPlan | None = None

    async def plan(self) -> ConfinementPlan:
        if self._task is None or (self._task.done() and self._task.exception()):
            self._task = asyncio.create_task(self._make())
        return await asyncio.shield(self._task)

    async def _make(self) -> ConfinementPlan:
        plan = await asyncio.to_thread(
            make_plan, self._settings, runs=self._runs, bwrap=self._bwrap
        )
        self.result = plan
        if not plan.sandboxed and self._settings.sandbox != SandboxMode.OFF:
            log.warning(
                "COMMANDS RUN WITHOUT A SANDBOX (%s): they can read and change whatever the"
                " gateway can, its keys and control socket included. To confine them: %s",
                plan.why_unsandboxed,
                BUBBLEWRAP_HINT,
                extra={"action": "runner_unsandboxed"},
            )
        return plan
