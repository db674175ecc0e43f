"""The state machine: all rules, and the checks at the end of a run."""

from tests.state_machine import invariants
from tests.state_machine.api_rules import ApiRules
from tests.state_machine.chat_rules import ChatRules
from tests.state_machine.configs import DEFAULT_CONFIG
from tests.state_machine.fault_rules import FaultRules
from tests.state_machine.job_rules import JobRules
from tests.state_machine.model_rules import ModelRules
from tests.state_machine.process_rules import ProcessRules


class GatewayStateMachine(ProcessRules, ChatRules, ApiRules, ModelRules, JobRules, FaultRules):
    """Everything that can happen to a home. At the end it runs until it is idle, twice, and is
    checked."""

    def teardown(self) -> None:
        try:
            self._end()
        finally:
            self.close_home()
        assert not self.home.loop.errors, self.home.loop.errors

    def _end(self) -> None:
        self.check_step_invariants()
        self.home.disk.clear()
        if not self.home.ready:
            self.home.stop()
            self.home.start(DEFAULT_CONFIG)
        self.home.run_until_idle()
        self.check(invariants.WHEN_IDLE)
        self.home.stop()
        self.home.start(DEFAULT_CONFIG)
        self.home.run_until_idle()
        self.check(invariants.WHEN_IDLE)
        self.check(invariants.AT_THE_END)
        self.home.stop()
