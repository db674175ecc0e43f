"""Builds a gateway: its dependencies, the objects that handle messages, and how they are connected.

Nothing runs before `lifespan.RunningGateway` starts it, and nothing after it has stopped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from random import random
from typing import Any, Protocol

import msgspec

from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.provider_guard import DEFAULT_LIMITS, ProviderLimits
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import CrashHook, CrashPoint
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.outbox import ProactiveDelivery
from holdfast.core.ops.tracing import SpanExporter
from holdfast.core.people.approval import ApprovalDecision, CommandJudge
from holdfast.core.people.memory import MemoryProvider
from holdfast.core.ports.command import Committed, WriteFailed
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock, IdFactory, Lifecycle, WallClockTimer
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.ports.store import Store, StoreEvents
from holdfast.core.ports.store_commands import (
    AcceptMessage,
    AddDeliveries,
    EnableMemory,
    LeaveTurn,
    RecordBusyDecision,
    RecordSteer,
)
from holdfast.core.secrets import Secret
from holdfast.core.sessions.session import BackgroundStart, CommandEffect, ProcessRow
from holdfast.core.turns.model import ModelChoice
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.turn import BeginTurn, EndTurn
from holdfast.documents.reader import DocumentReader
from holdfast.gateway.access import AccessPolicy, Action, DeniedAccessAudit, principal_of
from holdfast.gateway.accounts.accounts import Accounts, PausedAccounts
from holdfast.gateway.accounts.connection import (
    DEFAULT_BACKOFF,
    NO_CREDENTIAL_LOCKS,
    AccountDependencies,
    BackoffSettings,
    CredentialLocks,
)
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.agents.factory import AgentConfig, AgentFactory, LeaseModel
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.approvals.service import APPROVAL_COMMANDS, ApprovalService
from holdfast.gateway.commands.context import (
    AdminContext,
    ApprovalContext,
    CommandContexts,
    HistoryContext,
    InfoContext,
    JobContext,
    MemoryContext,
    ReplyContext,
    RunningTurnContext,
    SessionContext,
    SettingsContext,
)
from holdfast.gateway.commands.dispatcher import CommandDispatcher, load_commands
from holdfast.gateway.committed import (
    ACCEPTING_COMMANDS,
    DELIVERING_COMMANDS,
    ENDING_COMMANDS,
)
from holdfast.gateway.inbound.attachments import AttachmentIntake, StoreFile
from holdfast.gateway.inbound.inbound_policy import GroupPolicy, InboundPolicy
from holdfast.gateway.inbound.intake import GatewayIntake
from holdfast.gateway.inbound.pairing import (
    PAIRING_COMMANDS,
    PairedUsers,
    PairingRequests,
    PairingService,
)
from holdfast.gateway.inbound.router import Router
from holdfast.gateway.internal_platforms import JobPlatform, SubagentPlatform
from holdfast.gateway.jobs.executor import JobExecutor
from holdfast.gateway.jobs.scheduler import JOB_COMMANDS, Scheduler, SleepTimer
from holdfast.gateway.jobs.service import JobDestinations, JobService, RunningJobs
from holdfast.gateway.lifecycle.notices import LifecycleNotices
from holdfast.gateway.lifecycle.recovery import RunnerAdopter
from holdfast.gateway.live.counters import Counters
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.live.message_ends import MessageEnds
from holdfast.gateway.live.subscriptions import MessageSubscriptions, MessageWatcher
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.notify.proactive import ProactiveSender
from holdfast.gateway.notify.send_policy import SendPolicy
from holdfast.gateway.outbound.command_effects import CommandEffects
from holdfast.gateway.outbound.delivery import DeliveryFactory, DeliveryWaiters
from holdfast.gateway.outbound.files import DeleteFile, OutgoingFiles, ReadFile
from holdfast.gateway.outbound.outbox import OutboxWorker
from holdfast.gateway.outbound.quiet_chats import QuietChats
from holdfast.gateway.outbound.reactions import WaitingReactions
from holdfast.gateway.outbound.stream_factory import StreamFactory
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.expiry import Expiry
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.sessions.teardown import (
    ForceStop,
    SessionResources,
    SessionTeardown,
    stop_message,
    stop_session,
)
from holdfast.gateway.sessions.titles import SessionTitles
from holdfast.gateway.snapshot import gateway_snapshot
from holdfast.gateway.subagents import Subagents, SubagentSupervisor
from holdfast.gateway.tracing import MessageTracer
from holdfast.gateway.turns.busy_notices import BusyNotices
from holdfast.gateway.turns.lanes import TURN_COMMANDS, Lanes
from holdfast.tools.registry import Toolbox

log = logging.getLogger(__name__)


class RunnerManager(RunnerAdopter, SessionResources, Protocol):
    """What the gateway needs from the owner of the runners."""

    def sandbox(self, session_id: SessionId, *, shell: str = "") -> Sandbox:
        """`shell`: with a terminal of that name, apart from the session's own."""
        ...

    async def end_all(self) -> None: ...
    async def detach(self) -> None:
        """Let go of all runners, and leave them running for a successor."""
        ...

    async def processes(self, session_id: SessionId) -> Sequence[ProcessRow]: ...


class StoppableResources(SessionResources, Protocol):
    """A holder whose resources all end with the gateway."""

    async def end_all(self) -> None: ...


class GatewayDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a gateway gets from outside."""

    settings: Settings
    store: Store
    platforms: Sequence[Platform]
    runners: RunnerManager
    toolbox: Toolbox
    holders: Sequence[StoppableResources] = ()  # other holders of session resources: browsers
    lease: LeaseModel
    model: ModelChoice
    api_key: Secret | None
    fallback_keys: Sequence[Secret] = ()  # of the fallback models
    secrets: Sequence[Secret]
    redact: Redaction | None = None  # None: the gateway builds one from `secrets`
    clock: Clock
    new_id: IdFactory
    crash: CrashHook
    progress: Callable[[str], None]
    judge: CommandJudge
    lifecycle: Lifecycle | None = None  # None: it cannot be restarted from inside
    alarm: WallClockTimer | None = None  # None: `SleepTimer`, which misses changes of the clock
    read_file: ReadFile | None = None  # None: no files are sent
    delete_file: DeleteFile | None = None  # None: files that were uploaded for sending stay
    store_file: StoreFile | None = None  # None: attachments are not stored
    notes: Notes | None = None  # None: the gateway builds its own
    memory_providers: Sequence[MemoryProvider] = ()
    memory_limits: ProviderLimits = DEFAULT_LIMITS
    credential_locks: CredentialLocks = NO_CREDENTIAL_LOCKS  # on the credentials of accounts
    backoff_settings: BackoffSettings = DEFAULT_BACKOFF  # with accounts that do not answer
    random: Callable[[], float] = random  # from 0 to 1
    spans: SpanExporter | None = None  # None: messages are not traced
    trace_key: str = ""  # distinguishes the traces of this gateway from those of others

    @property
    def agent_config(self) -> AgentConfig:
        """The agent configuration, until another one is applied."""
        return AgentConfig(
            settings=self.settings,
            lease=self.lease,
            model=self.model,
            api_key=self.api_key,
            fallback_keys=self.fallback_keys,
            toolbox=self.toolbox,
            secrets=self.secrets,
        )


class SupervisedTaskGroup:
    """Owns the group of all tasks of the gateway, and the task that holds the group.

    A task group cancels the task that entered it when one of its own tasks fails. If that were
    the task of a start, which ends soon or may be cancelled, a failure would go unnoticed. So the
    group has a task of its own, and a failure sets an event (`failed`).
    """

    def __init__(self) -> None:
        self.tasks = asyncio.TaskGroup()
        self.failed = asyncio.Event()  # set when a task of the gateway has failed
        self.failure: Exception | None = None
        self._entered = asyncio.Event()
        self._closing = asyncio.Event()
        self._holder_task: asyncio.Task[None] | None = None
        self._service_tasks: list[asyncio.Task[None]] = []

    def run_until_closed(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Start a task that runs until the group is closed."""
        self._service_tasks.append(self.tasks.create_task(work, name=name))

    async def open(self) -> None:
        self._holder_task = asyncio.create_task(self._hold_group(), name="gateway task group")
        await self._entered.wait()

    async def close(self) -> None:
        """Returns when every task has ended; if cancelled, it cancels them. Does nothing if it was
        never opened."""
        self._closing.set()
        if self._holder_task is None:
            return
        for task in self._service_tasks:
            task.cancel()
        try:
            await asyncio.shield(self._holder_task)
        except asyncio.CancelledError:
            self._holder_task.cancel()
            raise

    async def _hold_group(self) -> None:
        try:
            async with self.tasks:
                self._entered.set()
                await self._closing.wait()
        except ExceptionGroup as failures:
            found = failures.exceptions[0]
            assert isinstance(found, Exception), "a group of these holds nothing else"
            self.failure = found
            self.failed.set()


class BaseServices(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that the gateway builds before `Services`, which are made from them."""

    live_settings: LiveSettings
    platforms: PlatformRegistry
    redact: Redaction
    outbox: OutboxWorker
    outgoing_files: OutgoingFiles
    subagents: Subagents
    auxiliary: AuxiliaryClient
    tasks: asyncio.TaskGroup
    close: Callable[[SessionId], Awaitable[None]]  # the hard end of a session
    tracer: MessageTracer | None
    subscriptions: MessageSubscriptions
    watcher: MessageWatcher
    jobs: JobService
    cache: AgentCache
    memory: MemoryManager
    access: AccessPolicy
    home_channels: HomeChannels


def build_services(dependencies: GatewayDependencies, base: BaseServices) -> Services:
    subscriptions, feeds = base.subscriptions, SessionFeeds()
    delivery_factory = DeliveryFactory(base.platforms, new_id=dependencies.new_id)
    cache = base.cache
    quiet_chats = QuietChats(dependencies.settings)
    reactions = WaitingReactions(
        base.platforms, base.outbox, quiet_chats=quiet_chats, clock=dependencies.clock
    )
    return Services(
        live_settings=base.live_settings,
        store=dependencies.store,
        clock=dependencies.clock,
        new_id=dependencies.new_id,
        crash=dependencies.crash,
        redact=base.redact,
        subscriptions=subscriptions,
        watcher=base.watcher,
        feeds=feeds,
        subagents=base.subagents,
        jobs=base.jobs,
        platforms=base.platforms,
        delivery_factory=delivery_factory,
        stream_factory=StreamFactory(
            base.live_settings,
            base.platforms,
            base.outbox,
            clock=dependencies.clock,
            new_id=dependencies.new_id,
            redact=base.redact,
            quiet_chats=quiet_chats,
        ),
        busy_notices=BusyNotices(
            base.platforms,
            delivery_factory,
            writes=dependencies.store,
            clock=dependencies.clock,
            quiet_chats=quiet_chats,
        ),
        reactions=reactions,
        quiet_chats=quiet_chats,
        effects=CommandEffects(dependencies.store),
        agent_factory=_build_agent_factory(dependencies, base),
        cache=cache,
        memory=base.memory,
        auxiliary=base.auxiliary,
        titles=SessionTitles(
            base.auxiliary,
            writes=dependencies.store,
            feeds=feeds,
            redact=base.redact,
            tasks=base.tasks,
        ),
        sandbox=dependencies.runners.sandbox,
        judge=dependencies.judge,
        counters=Counters(),
        proactive_sender=ProactiveSender(
            store=dependencies.store,
            clock=dependencies.clock,
            platforms=base.platforms,
            cache=cache,
            outgoing_files=base.outgoing_files,
            redact=base.redact,
        ),
        send_policy=SendPolicy(base.platforms, base.access, base.home_channels),
        tracer=base.tracer,
    )


def build_tracer(dependencies: GatewayDependencies, *, redact: Redaction) -> MessageTracer | None:
    if dependencies.spans is None:
        return None
    return MessageTracer(
        dependencies.spans,
        key=dependencies.trace_key,
        ratio=dependencies.settings.otel.sample,
        model=dependencies.model,
        clock=dependencies.clock,
        new_id=dependencies.new_id,
        redact=redact,
    )


def _build_agent_factory(dependencies: GatewayDependencies, base: BaseServices) -> AgentFactory:
    return AgentFactory(
        dependencies.agent_config,
        reads=dependencies.store,
        clock=dependencies.clock,
        close=base.close,
    )


def _build_agent_cache(dependencies: GatewayDependencies) -> AgentCache:
    settings = dependencies.settings.cache
    return AgentCache(
        max_agents=settings.max_agents,
        max_bytes=settings.max_mb * 1_000_000,
        idle_ttl=settings.idle_ttl,
    )


def _build_memory_hooks(dependencies: GatewayDependencies, redact: Redaction) -> MemoryManager:
    max_chars = dependencies.settings.memory.max_chars
    notes = dependencies.notes or Notes(
        dependencies.store, clock=dependencies.clock, redact=redact, max_chars=max_chars
    )
    return MemoryManager(
        dependencies.memory_providers,
        notes=notes,
        store=dependencies.store,
        clock=dependencies.clock,
        redact=redact,
        limits=dependencies.memory_limits,
    )


def build_reply_context(services: Services) -> ReplyContext:
    return ReplyContext(
        effects=services.effects,
        clock=services.clock,
        delivery_factory=services.delivery_factory,
        subscriptions=services.subscriptions,
    )


def build_command_contexts(
    services: Services,
    lanes: Lanes,
    *,
    replies: ReplyContext,
    sessions: SessionStore,
    approvals: ApprovalService,
    access: AccessPolicy,
    close: Callable[[SessionId], Awaitable[None]],
    force_stop: ForceStop,
    home_channels: HomeChannels,
    lifecycle_notices: LifecycleNotices,
    pairing: PairingService,
    lifecycle: Lifecycle | None,
) -> CommandContexts:
    return CommandContexts(
        admin=AdminContext(
            replies=replies,
            lifecycle=lifecycle,
            lifecycle_notices=lifecycle_notices,
            pairing=pairing,
            home_channels=home_channels,
            quiet_chats=services.quiet_chats,
            live_settings=services.live_settings,
            clock=services.clock,
        ),
        approvals=ApprovalContext(
            replies=replies,
            store=services.store,
            approvals=approvals,
            is_operator=access.is_operator,
            clock=services.clock,
        ),
        history=HistoryContext(
            replies=replies,
            store=services.store,
            lanes=lanes,
            cache=services.cache,
            agent_factory=services.agent_factory,
            memory=services.memory,
            auxiliary=services.auxiliary,
            redact=services.redact,
            clock=services.clock,
        ),
        info=InfoContext(
            replies=replies,
            store=services.store,
            lanes=lanes,
            cache=services.cache,
            agent_factory=services.agent_factory,
            subagents=services.subagents,
            lifecycle=lifecycle,
            access=access,
        ),
        jobs=JobContext(replies=replies, jobs=services.jobs, clock=services.clock),
        memory=MemoryContext(replies=replies, store=services.store, memory=services.memory),
        sessions=SessionContext(
            replies=replies,
            store=services.store,
            lanes=lanes,
            feeds=services.feeds,
            live_settings=services.live_settings,
            close=close,
            clock=services.clock,
            new_id=services.new_id,
        ),
        settings=SettingsContext(
            replies=replies,
            store=services.store,
            sessions=sessions,
            agent_factory=services.agent_factory,
            cache=services.cache,
            quiet_chats=services.quiet_chats,
            busy_mode=services.busy_mode,
            clock=services.clock,
            new_id=services.new_id,
        ),
        turn=RunningTurnContext(
            replies=replies,
            lanes=lanes,
            sessions=sessions,
            subagents=services.subagents,
            force_stop=force_stop,
            feeds=services.feeds,
            live_settings=services.live_settings,
            clock=services.clock,
            new_id=services.new_id,
        ),
    )


class Gateway:
    """Builds and connects the objects that accept, run and answer messages. Has no state of its
    own."""

    def __init__(self, dependencies: GatewayDependencies) -> None:
        self.dependencies = dependencies
        self._live_settings = LiveSettings(dependencies.settings)
        self._redact = dependencies.redact or Redaction(dependencies.secrets)
        self._subscriptions = MessageSubscriptions()
        self._watcher = MessageWatcher(
            self._subscriptions, reads=dependencies.store, redact=self._redact
        )
        self._subagents = Subagents(
            self._live_settings,
            self._watcher,
            store=dependencies.store,
            clock=dependencies.clock,
            new_id=dependencies.new_id,
        )
        internal: list[Platform] = [
            SubagentPlatform(kind, self._subagents) for kind in SubagentKind
        ]
        internal.append(JobPlatform())
        self._platforms = PlatformRegistry(
            [*dependencies.platforms, *internal], clock=dependencies.clock
        )
        self.task_group = SupervisedTaskGroup()
        self._tasks = self.task_group.tasks
        self._outgoing_files = OutgoingFiles(
            dependencies.read_file, redact=self._redact, delete=dependencies.delete_file
        )
        self.delivery_waiters = DeliveryWaiters()
        self._tracer = build_tracer(dependencies, redact=self._redact)
        self.outbox = OutboxWorker(
            self._platforms,
            writes=dependencies.store,
            clock=dependencies.clock,
            redact=self._redact,
            crash=dependencies.crash,
            outgoing_files=self._outgoing_files,
            delivery_waiters=self.delivery_waiters,
            tracer=self._tracer,
        )
        self.paired_users = PairedUsers(dependencies.store)
        self.access = access = AccessPolicy(dependencies.settings, paired=self.paired_users)
        self.home_channels = HomeChannels(
            self._live_settings, self._platforms, reads=dependencies.store
        )
        self._job_destinations = JobDestinations(self._platforms, self.home_channels)
        self._jobs = JobService(
            self._live_settings,
            self._job_destinations,
            running=RunningJobs(),
            is_operator=access.is_operator,
            store=dependencies.store,
            clock=dependencies.clock,
        )
        self._auxiliary = AuxiliaryClient(
            dependencies.settings, lease=dependencies.lease, model=dependencies.model.name
        )
        self._cache = _build_agent_cache(dependencies)
        self._memory = _build_memory_hooks(dependencies, self._redact)
        self.teardown = SessionTeardown(
            self._cache,
            [
                dependencies.runners,
                self._memory,
                self._auxiliary,
                *dependencies.holders,
                self._subagents,
            ],
        )
        self.services = build_services(dependencies, self._base_services())
        self.lanes = Lanes(self.services, tasks=self._tasks)
        self.sessions = SessionStore(
            self.services,
            self.lanes,
            processes=dependencies.runners.processes,
            close=self.teardown.close,
            tasks=self._tasks,
        )
        self.expiry = Expiry(
            self.services,
            self.lanes,
            self.teardown,
            policies=lambda: self.sessions.policies,
            processes=dependencies.runners.processes,
        )
        self.lanes.on_lane_closed(self.expiry.on_session_idle)
        self.force_stop = ForceStop(self.services, self.lanes, suspend=self.sessions.suspend)
        self.pairing = PairingService(self.services, self.paired_users)
        self.approvals = ApprovalService(
            self.services, self.lanes, access=access, tasks=self._tasks
        )
        self.lifecycle_notices = LifecycleNotices(self.services, self.lanes, self.home_channels)
        replies = build_reply_context(self.services)
        contexts = build_command_contexts(
            self.services,
            self.lanes,
            replies=replies,
            sessions=self.sessions,
            approvals=self.approvals,
            access=access,
            close=self.teardown.close,
            force_stop=self.force_stop,
            home_channels=self.home_channels,
            lifecycle_notices=self.lifecycle_notices,
            pairing=self.pairing,
            lifecycle=dependencies.lifecycle,
        )
        self.dispatcher = CommandDispatcher(
            replies,
            self.lanes,
            access=access,
            tasks=self._tasks,
            load=partial(load_commands, contexts),
        )
        self.router = Router(
            self.dispatcher,
            self.sessions,
            approvals=self.approvals,
            subscriptions=self.services.subscriptions,
        )
        groups = GroupPolicy(dependencies.settings)
        self.denied_access = DeniedAccessAudit(dependencies.store, clock=dependencies.clock)
        policy = InboundPolicy(
            access,
            groups,
            PairingRequests(self.services, self.paired_users, denied_access=self.denied_access),
            clock=dependencies.clock,
        )
        self.document_reader = DocumentReader()
        self.intake = GatewayIntake(
            self.services,
            policy=policy,
            attachments=AttachmentIntake(
                self.sessions,
                live_settings=self._live_settings,
                document_reader=self.document_reader,
                store_file=dependencies.store_file,
                redact=self.services.redact,
            ),
            admit=self.router.route,
        )
        self.accounts = self._build_accounts(dependencies)
        self.subagent_supervisor = SubagentSupervisor(
            self._subagents,
            self._subscriptions,
            stop_session=partial(stop_session, self.services, self.lanes),
            close_session=self.teardown.close,
            running_turn_of=self.lanes.running_turn_of,
            tasks=self._tasks,
        )
        self.job_executor = JobExecutor(
            self.services,
            self._jobs.running,
            destinations=self._job_destinations,
            stop_message=partial(stop_message, self.services, self.lanes),
            close_session=self.teardown.close,
            tasks=self._tasks,
        )
        self.scheduler = Scheduler(
            self.services,
            self.job_executor,
            alarm=dependencies.alarm or SleepTimer(dependencies.clock),
            may_talk=lambda source: access.allows(principal_of(source), Action.TALK, source),
        )
        self._subscribe(dependencies.store.events)
        self._live_settings.subscribe(
            access.apply_settings,
            groups.apply_settings,
            self.services.quiet_chats.apply_settings,
            self.services.cache.apply_settings,
            self.services.memory.apply_settings,
            self.sessions.apply_settings,
            self.expiry.apply_settings,
        )

    def _build_accounts(self, dependencies: GatewayDependencies) -> Accounts:
        account_dependencies = AccountDependencies(
            intake=self.intake,
            platforms=self._platforms,
            credential_locks=dependencies.credential_locks,
            clock=dependencies.clock,
            random=dependencies.random,
            backoff_settings=dependencies.backoff_settings,
            tasks=self._tasks,
            on_connected=self.outbox.account_connected,
            on_disconnected=self.outbox.account_disconnected,
            redact=self.services.redact,
            on_change=self.services.feeds.gateway_changed,
        )
        paused = PausedAccounts(dependencies.store, clock=dependencies.clock)
        return Accounts(account_dependencies, paused)

    def _subscribe(self, events: StoreEvents) -> None:
        """Who learns of which commits, in this order."""
        effects = self.services.effects
        ends = MessageEnds(self._subscriptions, self.services.feeds, redact=self._redact)
        events.on_committed(
            partial(crash_after_commit, self.dependencies.crash),
            *(AcceptMessage, CommandEffect, EndTurn, LeaveTurn),
        )
        events.on_committed(self.lanes.on_committed, RecordSteer, EndTurn)
        events.on_failed(self.lanes.on_failed, *TURN_COMMANDS)
        events.on_committed(effects.on_committed, CommandEffect)
        events.on_failed(effects.on_failed, CommandEffect)
        events.on_committed(self.paired_users.on_committed, *PAIRING_COMMANDS)
        events.on_committed(self.approvals.on_committed, *APPROVAL_COMMANDS)
        events.on_failed(self.approvals.on_failed, ApprovalDecision, CommandEffect)
        events.on_committed(self.outbox.on_committed, *DELIVERING_COMMANDS)
        events.on_committed(ends.on_committed, *ENDING_COMMANDS)
        events.on_committed(self.services.reactions.on_committed, BeginTurn, *ENDING_COMMANDS)
        events.on_committed(self.services.feeds.on_committed)
        proactive = self.services.proactive_sender
        events.on_committed(proactive.on_committed, ProactiveDelivery)
        events.on_failed(proactive.on_failed, ProactiveDelivery)
        events.on_failed(_log_lost_write, AddDeliveries, RecordBusyDecision, EnableMemory)
        events.on_committed(self.services.counters.on_committed, AcceptMessage, EndTurn)
        events.on_committed(self.services.memory.on_committed, EndTurn)
        if self._tracer is not None:
            events.on_committed(self._tracer.on_committed, *ACCEPTING_COMMANDS)
        events.on_committed(self.intake.on_committed, *ACCEPTING_COMMANDS)
        # After the router: a subagent is followed once its task is in a lane.
        events.on_committed(self.subagent_supervisor.on_committed, *ACCEPTING_COMMANDS)
        events.on_committed(self.scheduler.on_committed, *JOB_COMMANDS)

    def _base_services(self) -> BaseServices:
        return BaseServices(
            live_settings=self._live_settings,
            platforms=self._platforms,
            redact=self._redact,
            outbox=self.outbox,
            outgoing_files=self._outgoing_files,
            subagents=self._subagents,
            auxiliary=self._auxiliary,
            tasks=self._tasks,
            close=self.teardown.close,
            cache=self._cache,
            memory=self._memory,
            access=self.access,
            home_channels=self.home_channels,
            tracer=self._tracer,
            subscriptions=self._subscriptions,
            watcher=self._watcher,
            jobs=self._jobs,
        )

    def apply_config(self, agent_config: AgentConfig) -> None:
        """Apply another configuration in one step. A running turn keeps the one it began with; the
        next turn of every chat has the new one. Old secrets are still redacted."""
        self._redact.add_secrets(agent_config.secrets)
        self.services.agent_factory.apply_config(agent_config)
        self._auxiliary.update_settings(
            agent_config.settings, lease=agent_config.lease, model=agent_config.model.name
        )
        if self._tracer is not None:
            self._tracer.model = agent_config.model
        self._live_settings.apply(agent_config.settings)
        self.services.feeds.gateway_changed()

    def snapshot(self) -> dict[str, Any]:
        """The current status, from memory alone: cheap enough to be read often."""
        return {
            **gateway_snapshot(self.services, self.lanes, self.outbox),
            "next_job": self.scheduler.next_due,
            "home_channels": tuple(self.home_channels.all()),
        }

    def open_message_ids(self) -> frozenset[InboxId]:
        """The messages in progress; one leaves the set after its end is committed."""
        return self.services.subscriptions.ids


def crash_after_commit(crash: CrashHook, event: Committed) -> None:
    """The points at which the fault tests kill the process, right after these commits."""
    match event.command:
        # Also for a message that was accepted before: its platform is not told yet.
        case AcceptMessage() | CommandEffect(background=BackgroundStart()):
            crash(CrashPoint.ACCEPT_COMMITTED)
        case EndTurn():
            crash(CrashPoint.END_COMMITTED)
        case LeaveTurn(exit_reason=reason):
            parked = reason is TurnExitReason.PARKED
            crash(CrashPoint.TURN_PARKED if parked else CrashPoint.TURN_MARKED)


def _log_lost_write(event: WriteFailed) -> None:
    """For writes that are not waited for: what they would have saved is lost, and only that."""
    log.warning(
        "Could not save %s: %s",
        type(event.command).__name__,
        event.error,
        extra={"action": "write_failed", "session": event.command.scope.session_id},
    )
