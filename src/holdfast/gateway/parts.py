"""What a gateway is made of: every part comes in from outside."""

from collections.abc import Callable, Sequence
from random import random
from typing import Protocol

import msgspec

from holdfast.agent.memory.guarded import DEFAULT_LIMITS, ProviderLimits
from holdfast.agent.memory.notes import Notes
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import CrashHook
from holdfast.core.ids import SessionId
from holdfast.core.ops.tracing import SpanExporter
from holdfast.core.people.judgement import CommandJudge
from holdfast.core.people.memory import MemoryProvider
from holdfast.core.ports.protocols import (
    Clock,
    IdFactory,
    Lifecycle,
    Platform,
    Store,
    WallClockTimer,
)
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.secret import Secret
from holdfast.core.sessions.session import ProcessRow
from holdfast.core.turns.model import ModelChoice
from holdfast.gateway.accounts.backoff import DEFAULT_BACKOFF, BackoffSettings
from holdfast.gateway.accounts.connection import NO_CREDENTIAL_LOCKS, CredentialLocks
from holdfast.gateway.agents.outfit import AgentConfig, LeaseModel
from holdfast.gateway.inbound.receiving import StoreFile
from holdfast.gateway.lifecycle.recovery import RunnerAdopter
from holdfast.gateway.outbound.files import DeleteFile, ReadFile
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.closing import SessionResources
from holdfast.tools.registry import Toolbox


class RunnerManager(RunnerAdopter, SessionResources, Protocol):
    """What the gateway asks of whoever owns the runners."""

    def sandbox(self, session_id: SessionId, *, shell: str = "") -> Sandbox:
        """`shell`: with a terminal of that name, apart from the session's own."""
        ...

    async def end_all(self) -> None: ...
    async def detach(self) -> None:
        """Let go of everything, and leave it running for a successor."""
        ...

    async def processes(self, session_id: SessionId) -> Sequence[ProcessRow]: ...


class StoppableResources(SessionResources, Protocol):
    """A holder whose things all end with the gateway."""

    async def end_all(self) -> None: ...


class GatewayDependencies(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    store: Store
    platforms: Sequence[Platform]
    runners: RunnerManager
    toolbox: Toolbox
    holders: Sequence[StoppableResources] = ()  # who else holds something for sessions: browsers
    lease: LeaseModel
    model: ModelChoice
    api_key: Secret | None
    fallback_keys: Sequence[Secret] = ()  # of the models that stand in for it
    secrets: Sequence[Secret]
    redact: Redaction | None = None  # None: one of the gateway's own, which knows them
    clock: Clock
    new_id: IdFactory
    crash: CrashHook
    progress: Callable[[str], None]
    judge: CommandJudge
    lifecycle: Lifecycle | None = None  # None: nobody here can restart it
    alarm: WallClockTimer | None = (
        None  # None: one that sleeps, and does not hear of a clock that is set
    )
    read_file: ReadFile | None = None  # None: no file is handed to people
    delete_file: DeleteFile | None = None  # None: what was handed in to be sent stays
    store_file: StoreFile | None = None  # None: what is attached to messages is not kept
    notes: Notes | None = None  # None: the gateway's own
    memory_providers: Sequence[MemoryProvider] = ()
    memory_limits: ProviderLimits = DEFAULT_LIMITS
    credential_locks: CredentialLocks = NO_CREDENTIAL_LOCKS  # on the credentials of accounts
    backoff_settings: BackoffSettings = DEFAULT_BACKOFF  # with accounts that do not answer
    random: Callable[[], float] = random  # from 0 to 1
    spans: SpanExporter | None = None  # None: nobody traces messages
    trace_key: str = ""  # tells the traces of this gateway from those of others

    @property
    def agent_config(self) -> AgentConfig:
        """What agents are made of, until another configuration is put into force."""
        return AgentConfig(
            settings=self.settings,
            lease=self.lease,
            model=self.model,
            api_key=self.api_key,
            fallback_keys=self.fallback_keys,
            toolbox=self.toolbox,
            secrets=self.secrets,
        )
