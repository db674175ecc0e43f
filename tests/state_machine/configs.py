"""The configurations of a gateway, drawn anew for each of its runs."""

import msgspec
from hypothesis import strategies as st
from tests.state_machine.model import AUXILIARY_MODEL, MODELS

from holdfast.core.config.settings import (
    AgentSettings,
    ApprovalMode,
    ApprovalSettings,
    AuxiliarySettings,
    CacheSettings,
    CompactionSettings,
    CrashRecovery,
    GatewaySettings,
    JobSettings,
    ModelSettings,
    PlatformSettings,
    SessionSettings,
    Settings,
)
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.sessions.reset import ResetMode


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that vary between runs. The defaults are those of the final runs."""

    busy_mode: BusyMode = BusyMode.QUEUE
    recovery: CrashRecovery = CrashRecovery.RESUME
    drain: int = 0
    model: str = MODELS[0]
    window: int = 0
    instructions: str = ""
    schedules: bool = True  # agents have the schedule tool
    max_agents: int = 128
    idle_ttl: float = 3600
    reset: ResetMode = ResetMode.NONE
    shared: bool = False  # a group has one session, not one per user
    streams: bool = True
    bob: bool = True  # he is on the allow list
    approvals: ApprovalMode = ApprovalMode.ASK


DEFAULT_CONFIG = RunConfig()

CONFIGS = st.builds(
    RunConfig,
    busy_mode=st.sampled_from(BusyMode),
    recovery=st.sampled_from([*CrashRecovery, CrashRecovery.RESUME, CrashRecovery.RESUME]),
    drain=st.sampled_from([0, 0, 20]),
    model=st.sampled_from(MODELS),
    window=st.sampled_from([0, 400]),
    instructions=st.sampled_from(["", "Be brief."]),
    schedules=st.sampled_from([True, True, False]),
    max_agents=st.sampled_from([1, 2, 128]),
    idle_ttl=st.sampled_from([60, 3600]),
    reset=st.sampled_from([ResetMode.NONE, ResetMode.NONE, ResetMode.IDLE]),
    shared=st.booleans(),
    streams=st.sampled_from([True, True, False]),
    bob=st.sampled_from([True, True, True, False]),
    approvals=st.sampled_from([ApprovalMode.ASK, ApprovalMode.ASK, *ApprovalMode]),
)


def settings_of(config: RunConfig) -> Settings:
    people = ("ann", "bob") if config.bob else ("ann",)
    # No pairing: its codes are random and would make a run unrepeatable.
    chats = PlatformSettings(allow=people, pairing=False, stream=config.streams)
    return Settings(
        platforms={"simulated": chats},
        gateway=GatewaySettings(
            busy_mode=config.busy_mode,
            crash_recovery=config.recovery,
            restart_drain_timeout=config.drain,
        ),
        cache=CacheSettings(max_agents=config.max_agents, idle_ttl=config.idle_ttl),
        agent=AgentSettings(max_steps=3, instructions=config.instructions),
        auxiliary=AuxiliarySettings(model=AUXILIARY_MODEL, titles=False),
        approvals=ApprovalSettings(mode=config.approvals, timeout=300),
        compaction=CompactionSettings(at=0.5, keep=0.02),
        model=ModelSettings(name=config.model, context_window=config.window),
        sessions=SessionSettings(
            reset=config.reset, idle_minutes=20, group_sessions_per_user=not config.shared
        ),
        jobs=JobSettings(time_zone="UTC", max_per_person=3, parallel=2, time_limit=1800),
    )
