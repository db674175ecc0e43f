"""What a gateway of the machine is configured as: drawn anew for each of its lives."""

import msgspec
from hypothesis import strategies as st
from tests.state_machine.model import HELPER, MODELS

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


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """As it stands here, it is the one with which a home is left in peace."""

    busy_mode: BusyMode = BusyMode.QUEUE
    recovery: CrashRecovery = CrashRecovery.RESUME
    drain: int = 0
    model: str = MODELS[0]
    window: int = 0
    instructions: str = ""
    schedules: bool = True  # agents have the tool for it
    max_agents: int = 128
    idle_ttl: float = 3600
    reset: ResetMode = ResetMode.NONE
    shared: bool = False  # a group has one conversation, not one for each of its people
    streams: bool = True
    bob: bool = True  # he may talk to it
    approvals: ApprovalMode = ApprovalMode.ASK


PEACE = Config()

CONFIGS = st.builds(
    Config,
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


def settings_of(config: Config) -> Settings:
    people = ("ann", "bob") if config.bob else ("ann",)
    # No pairing: a code is drawn from what nobody can repeat.
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
        auxiliary=AuxiliarySettings(model=HELPER, titles=False),
        approvals=ApprovalSettings(mode=config.approvals, timeout=300),
        compaction=CompactionSettings(at=0.5, keep=0.02),
        model=ModelSettings(name=config.model, context_window=config.window),
        sessions=SessionSettings(
            reset=config.reset, idle_minutes=20, group_sessions_per_user=not config.shared
        ),
        jobs=JobSettings(time_zone="UTC", max_per_person=3, parallel=2, time_limit=1800),
    )
