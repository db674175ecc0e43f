"""The objects that lanes, turns and commands share: built once by the gateway and passed down."""

from typing import Protocol

import msgspec

from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import CrashHook
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.source import Source
from holdfast.core.people.approval import CommandJudge
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.ports.store import Store
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.agents.factory import AgentFactory
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.jobs.service import JobService
from holdfast.gateway.live.counters import Counters
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.live.subscriptions import MessageSubscriptions, MessageWatcher
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.proactive import ProactiveSender
from holdfast.gateway.notify.send_policy import SendPolicy
from holdfast.gateway.outbound.command_effects import CommandEffects
from holdfast.gateway.outbound.delivery import DeliveryFactory
from holdfast.gateway.outbound.quiet_chats import QuietChats
from holdfast.gateway.outbound.reactions import WaitingReactions
from holdfast.gateway.outbound.stream_factory import StreamFactory
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.titles import SessionTitles
from holdfast.gateway.subagents import Subagents
from holdfast.gateway.tracing import MessageTracer
from holdfast.gateway.turns.busy_notices import BusyNotices


class SandboxFactory(Protocol):
    def __call__(self, session_id: SessionId, *, shell: str = "") -> Sandbox: ...


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """A plain container of the shared objects."""

    live_settings: LiveSettings
    store: Store
    clock: Clock
    new_id: IdFactory
    crash: CrashHook
    redact: Redaction
    subscriptions: MessageSubscriptions
    watcher: MessageWatcher
    feeds: SessionFeeds
    subagents: Subagents
    jobs: JobService
    platforms: PlatformRegistry
    delivery_factory: DeliveryFactory
    stream_factory: StreamFactory
    busy_notices: BusyNotices
    reactions: WaitingReactions
    quiet_chats: QuietChats
    effects: CommandEffects
    agent_factory: AgentFactory
    cache: AgentCache
    memory: MemoryManager
    auxiliary: AuxiliaryClient
    titles: SessionTitles
    sandbox: SandboxFactory
    judge: CommandJudge
    counters: Counters
    proactive_sender: ProactiveSender
    send_policy: SendPolicy
    tracer: MessageTracer | None = None  # None: messages are not traced

    @property
    def settings(self) -> Settings:
        """The current settings. Read them once where several values must fit together."""
        return self.live_settings.current

    def busy_mode(self, source: Source) -> BusyMode:
        """What a message from there does to a running turn, if it does not say so itself."""
        settings = self.settings.account(source.platform, source.account)
        own = settings.busy_mode if settings else None
        return own or self.settings.gateway.busy_mode
