"""The gateway: builds everything that messages pass through, runs it, and stops it phase by phase.

Read `Gateway.__init__` from top to bottom: each component gets what it needs from those before it.
`_subscribe` lists which of them follow which commits. `_start` and `phases` are the start and the
stop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self

from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.core.config.settings import Settings
from holdfast.core.crash_points import CrashHook, CrashPoint, no_crash
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.people.approval import ApprovalDecision, CommandJudge
from holdfast.core.ports.command import Committed, WriteFailed
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Lifecycle, Runtime, WallClockTimer
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.ports.store import Store, StoreEvents
from holdfast.core.ports.store_commands import (
    AcceptMessage,
    AddDeliveries,
    EnableMemory,
    MarkResumePending,
    ParkTurn,
    RecordBusyDecision,
    RecordSteer,
    ReportFailedDelivery,
    SettleDelivery,
)
from holdfast.core.sessions.session import BackgroundStart, CommandEffect, ProcessRow
from holdfast.core.text.translation import N_
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.turn import BeginTurn, EndTurn
from holdfast.documents.reader import DocumentReader
from holdfast.gateway.access import (
    AccessPolicy,
    Action,
    ApiClients,
    DeniedAccessAudit,
    principal_of,
)
from holdfast.gateway.accounts.accounts import Accounts, PausedAccounts
from holdfast.gateway.accounts.connection import (
    DEFAULT_CONNECTION_POLICY,
    AccountConnection,
    ConnectionPolicy,
)
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.accounts.supervisor import AccountSupervisor
from holdfast.gateway.agents.cache import AgentCache, start_pacer
from holdfast.gateway.agents.factory import AgentConfig, AgentFactory
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.agents.session_agents import SessionAgents
from holdfast.gateway.agents.session_notes import NOTING_COMMANDS, SessionNotes
from holdfast.gateway.agents.titles import name_session
from holdfast.gateway.approvals.gate import ApprovalGate, Approvers
from holdfast.gateway.approvals.service import (
    APPROVAL_COMMANDS,
    ApprovalService,
    withdraw_outdated_rules,
)
from holdfast.gateway.chat_languages import ChatLanguages
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
from holdfast.gateway.inbound.attachments import attach_files
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
from holdfast.gateway.jobs.executor import RUN_COMMANDS, JobExecutor, submit_run
from holdfast.gateway.jobs.scheduler import JOB_COMMANDS, Scheduler, SleepTimer
from holdfast.gateway.jobs.service import JobDestinations, JobService, RunningJobs
from holdfast.gateway.lifecycle.drain import DRAIN, NewTurnDrainer, TurnDrainer
from holdfast.gateway.lifecycle.notices import LifecycleNotices
from holdfast.gateway.lifecycle.phases import Phase, run_phases
from holdfast.gateway.lifecycle.recovery import RunnerAdopter, recover
from holdfast.gateway.lifecycle.task_group import SupervisedTaskGroup
from holdfast.gateway.live.counters import Counters
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.live.message_ends import publish_message_ends
from holdfast.gateway.live.subscriptions import MessageSubscriptions, MessageWatcher
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.notify.proactive import ProactiveSender
from holdfast.gateway.notify.send_policy import SendPolicy
from holdfast.gateway.outbound.command_effects import CommandEffects
from holdfast.gateway.outbound.delivery import DeliveryFactory, DeliveryWaiters
from holdfast.gateway.outbound.failure_reports import FailureReports
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.outbox import OutboxWorker
from holdfast.gateway.outbound.quiet_chats import QuietChats
from holdfast.gateway.outbound.reactions import WaitingReactions
from holdfast.gateway.outbound.sender import Sender
from holdfast.gateway.outbound.stream_factory import StreamFactory
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.expiry import Expiry, IdleMemory, Retention
from holdfast.gateway.sessions.resolver import SessionStore, has_work
from holdfast.gateway.sessions.teardown import (
    ForceStop,
    SessionResources,
    SessionStopper,
    SessionTeardown,
    delete_session,
)
from holdfast.gateway.snapshot import gateway_snapshot
from holdfast.gateway.subagents import Subagents, SubagentSupervisor
from holdfast.gateway.tracing import MessageTracer
from holdfast.gateway.turns.admission import Admission
from holdfast.gateway.turns.busy_notices import send_busy_notice
from holdfast.gateway.turns.lane import Lane
from holdfast.gateway.turns.lanes import TURN_COMMANDS, Lanes
from holdfast.gateway.turns.turn_context import TurnContext
from holdfast.gateway.turns.turn_factory import TurnFactory
from holdfast.gateway.turns.turn_output import TurnOutput
from holdfast.gateway.turns.turn_tools import TurnTools
from holdfast.system.pacing import IterationPacer

log = logging.getLogger(__name__)

_AFTER_PHASES = 4.25  # seconds of the process's phases after the gateway's, at most
_SHUTDOWN_SECONDS = 1.5  # in which memory providers and auxiliary clients shut down
_URGENT_SECONDS = 0.5  # that memory providers get even in an urgent stop


class StoppableResources(SessionResources, Protocol):
    """A holder of session resources that all end with the gateway."""

    async def end_all(self) -> None: ...


class RunnerManager(RunnerAdopter, StoppableResources, Protocol):
    """What the gateway needs from the owner of the runners."""

    def sandbox(self, session_id: SessionId, *, shell: str = "") -> Sandbox:
        """`shell`: with a terminal of that name, apart from the session's own."""
        ...

    async def detach(self) -> None:
        """Let go of all runners, and leave them running for a successor."""
        ...

    async def processes(self, session_id: SessionId) -> Sequence[ProcessRow]: ...


class FileStorage(Protocol):
    """Stores and reads the files of messages. Every method blocks and raises
    `AttachmentUnavailable` if it cannot be done."""

    def put(self, session_id: SessionId, name: str, data: bytes, /) -> str:
        """Store an attachment in the workspace of the session and return its path. The same data
        under the same name is the same file."""
        ...

    def read(self, session_id: SessionId | None, path: str, max_bytes: int, /) -> bytes:
        """A file of the workspace; without a session, one that was uploaded to be sent."""
        ...

    def drop(self, path: str, /) -> None:
        """Delete an uploaded file; one that is gone already is no error."""
        ...


class GatewayCrashed(HoldfastError):
    """A bug in Holdfast: the gateway has stopped phase by phase rather than run without a part."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"an internal error stopped the gateway ({type(error).__name__}: {error}). Nothing "
            "that was accepted is lost: start it again. The log has the details; please report it"
        )


class Gateway:
    """Owns the components that accept, run and answer messages, and their start and stop.

    Inside `async with` it has recovered and accepts messages; after it, it has stopped phase by
    phase, and everything pending is in the store. The service starts and stops it by `start` and
    `phases` instead, between the phases of the process.
    """

    def __init__(
        self,
        agent_config: AgentConfig,
        *,
        store: Store,
        platforms: Sequence[Platform],
        runtime: Runtime,
        redact: Redaction,
        memory: MemoryManager,
        runners: RunnerManager,
        judge: CommandJudge,
        turn_starts: IterationPacer | None = None,
        browsers: StoppableResources | None = None,
        files: FileStorage | None = None,  # None: no attachments are stored and no files sent
        connection_policy: ConnectionPolicy = DEFAULT_CONNECTION_POLICY,
        api_clients: ApiClients | None = None,  # None: the owner has created no tokens
        tracer: MessageTracer | None = None,  # None: messages are not traced
        lifecycle: Lifecycle | None = None,  # None: it cannot be restarted from inside
        timer: WallClockTimer | None = None,  # None: one that misses changes of the wall clock
        progress: Callable[[str], None] = lambda phase: None,
    ) -> None:
        settings, clock = agent_config.settings, runtime.clock
        self.redact = redact
        self._store = store
        self.runtime = runtime
        self._tracer = tracer
        self._progress = progress
        self._runners = runners
        self._browsers = browsers
        self.live_settings = live_settings = LiveSettings(settings)
        self._languages = languages = ChatLanguages(live_settings)
        self.task_group = SupervisedTaskGroup()
        tasks = self.task_group.tasks

        # What is seen of messages and sessions while they are worked on.
        self.subscriptions = MessageSubscriptions()
        self.feeds = SessionFeeds()
        self.counters = Counters()
        watcher = MessageWatcher(self.subscriptions, reads=store, redact=redact)

        # The cached agents, which get the notes that are added to their sessions.
        turn_starts = turn_starts or start_pacer()
        self.cache = AgentCache(
            max_agents=settings.cache.max_agents,
            max_bytes=settings.cache.max_mb * 1_000_000,
            idle_ttl=settings.cache.idle_ttl,
            pacer=turn_starts,
        )
        self._session_notes = SessionNotes(store, self.cache)

        # Platforms, and what is sent through them.
        self.subagents = Subagents(
            live_settings, watcher, store=store, clock=clock, new_id=runtime.new_id
        )
        internal = [SubagentPlatform(kind, self.subagents) for kind in SubagentKind]
        self.platforms = PlatformRegistry(
            [*platforms, *internal, JobPlatform()],
            clock=clock,
            on_change=self.feeds.gateway_changed,
        )
        self.delivery_waiters = DeliveryWaiters()
        outgoing_files = OutgoingFiles(
            files.read if files else None, redact=redact, delete=files.drop if files else None
        )
        self._delivery_sender = Sender(
            self.platforms,
            runtime,
            writes=store,
            redact=redact,
            outgoing_files=outgoing_files,
            failure_reports=FailureReports(
                write=self._session_notes.write,
                new_id=runtime.new_id,
                languages=languages,
                redact=redact,
            ),
            delivery_waiters=self.delivery_waiters,
            tracer=tracer,
        )
        self.outbox = OutboxWorker(
            self.platforms,
            self._delivery_sender,
            clock=clock,
            delivery_waiters=self.delivery_waiters,
            tracer=tracer,
        )
        self.quiet_chats = QuietChats(settings)
        deliveries = DeliveryFactory(self.platforms, new_id=runtime.new_id)
        streams = StreamFactory(
            live_settings,
            self.platforms,
            self.outbox,
            clock=clock,
            new_id=runtime.new_id,
            redact=redact,
            quiet_chats=self.quiet_chats,
        )
        self.reactions = WaitingReactions(
            self.platforms, self.outbox, quiet_chats=self.quiet_chats, clock=clock
        )
        busy_notice = partial(
            send_busy_notice,
            platforms=self.platforms,
            deliveries=deliveries,
            writes=store,
            clock=clock,
            quiet_chats=self.quiet_chats,
            languages=languages,
        )
        self._effects = CommandEffects(store)

        # People: who may do what, and where they are reached.
        self.paired_users = PairedUsers(store)
        self.access = AccessPolicy(settings, paired=self.paired_users, clients=api_clients)
        self.denied_access = DeniedAccessAudit(store, clock=clock)
        self.pairing = PairingService(store, runtime, self.paired_users, languages=languages)
        self.home_channels = HomeChannels(live_settings, self.platforms, reads=store)
        send_policy = SendPolicy(self.platforms, self.access, self.home_channels)

        # Agents, and what a session holds outside the store.
        self.memory = memory
        self.auxiliary = AuxiliaryClient(
            settings, lease=agent_config.lease, model=agent_config.model.name
        )
        holders: list[SessionResources] = [runners, memory, self.auxiliary, self.subagents]
        if browsers is not None:
            holders.append(browsers)
        self.teardown = SessionTeardown(self.cache, holders)
        self.agent_factory = AgentFactory(
            agent_config, reads=store, clock=clock, close=self.teardown.close
        )
        self._agents = agents = SessionAgents(
            self.cache,
            self.agent_factory,
            memory=memory,
            live_settings=live_settings,
            writes=store,
        )
        self.proactive_sender = ProactiveSender(
            store=store,
            clock=clock,
            platforms=self.platforms,
            notes=self._session_notes,
            outgoing_files=outgoing_files,
            redact=redact,
        )
        job_destinations = JobDestinations(self.platforms, self.home_channels)
        self.jobs = JobService(
            live_settings,
            job_destinations,
            running=RunningJobs(),
            is_operator=self.access.is_operator,
            store=store,
            clock=clock,
        )

        # Turns, and the lanes that run them.
        new_output = partial(
            TurnOutput,
            streams=streams,
            feeds=self.feeds,
            subscriptions=self.subscriptions,
            redact=redact,
            clock=clock,
            tracer=tracer,
        )
        new_context = partial(
            TurnContext,
            agents=agents,
            tools=TurnTools(
                runners.sandbox,
                subagents=self.subagents,
                jobs=self.jobs,
                sender=self.proactive_sender,
                send_policy=send_policy,
                auxiliary=self.auxiliary,
            ),
            gate=ApprovalGate(
                store,
                runtime,
                judge=judge,
                send_policy=send_policy,
                approvers=Approvers(self.access, self.home_channels, self.platforms),
                deliveries=deliveries,
                redact=redact,
                languages=languages,
            ),
            send_busy_notice=busy_notice,
            new_output=new_output,
        )
        self.turns = TurnFactory(
            store,
            runtime,
            agents=agents,
            deliveries=deliveries,
            subscriptions=self.subscriptions,
            languages=languages,
            new_context=new_context,
        )
        admission = Admission(
            store,
            live_settings,
            platforms=self.platforms,
            subagents=self.subagents,
            subscriptions=self.subscriptions,
            reactions=self.reactions,
            send_busy_notice=busy_notice,
        )
        new_lane = partial(
            Lane,
            turns=self.turns,
            agents=agents,
            admission=admission,
            feeds=self.feeds,
            name_session=partial(
                name_session,
                auxiliary=self.auxiliary,
                writes=store,
                redact=redact,
                tasks=tasks,
            ),
        )
        self.lanes = Lanes(new_lane, agents=agents, new_id=runtime.new_id, tasks=tasks)

        # Sessions: which one a message goes to, and how they end.
        self.sessions = SessionStore(
            store,
            runtime,
            live_settings,
            self.lanes,
            has_work=partial(has_work, self.subagents, runners.processes),
            close=self.teardown.close,
            tasks=tasks,
        )
        self.stopper = SessionStopper(
            self.lanes, self._effects, subscriptions=self.subscriptions, clock=clock
        )
        self.force_stop = ForceStop(
            store, self.lanes, stopper=self.stopper, clock=clock, suspend=self.sessions.suspend
        )
        self.delete_session = partial(
            delete_session,
            store=store,
            lanes=self.lanes,
            stopper=self.stopper,
            teardown=self.teardown,
            clock=clock,
        )
        self.expiry = Expiry(
            store,
            clock,
            live_settings,
            self.sessions,
            retention=Retention(
                live_settings,
                store=store,
                clock=clock,
                delete=self.delete_session,
                in_use=self.sessions.is_in_use,
            ),
            idle_memory=IdleMemory(
                live_settings,
                store=store,
                clock=clock,
                lanes=self.lanes,
                cache=self.cache,
                memory=memory,
            ),
            teardown=self.teardown,
            cache=self.cache,
        )

        # Work that runs besides the chats: subagents and jobs.
        self.subagent_supervisor = SubagentSupervisor(
            self.subagents,
            self.subscriptions,
            stop_session=self.stopper.stop_session,
            close_session=self.teardown.close,
            running_turn_of=self.lanes.running_turn_of,
            tasks=tasks,
        )
        self.job_executor = JobExecutor(
            store,
            runtime,
            self.jobs.running,
            partial(submit_run, store, runtime, live_settings, job_destinations),
            subscriptions=self.subscriptions,
            stop_message=self.stopper.stop_message,
            close_session=self.teardown.close,
            tasks=tasks,
        )
        self.scheduler = Scheduler(
            store,
            runtime,
            live_settings,
            self.job_executor,
            alarm=timer or SleepTimer(clock),
            may_talk=lambda source: self.access.allows(principal_of(source), Action.TALK, source),
        )

        # The way in: commands, answers to approvals, and messages.
        self.approvals = ApprovalService(
            store,
            runtime,
            self.lanes,
            live_settings=live_settings,
            feeds=self.feeds,
            access=self.access,
            tasks=tasks,
        )
        self.lifecycle_notices = LifecycleNotices(
            store,
            runtime,
            live_settings,
            self.lanes,
            home_channels=self.home_channels,
            platforms=self.platforms,
            quiet_chats=self.quiet_chats,
            languages=languages,
        )
        self.reply_context = ReplyContext(
            effects=self._effects,
            clock=clock,
            delivery_factory=deliveries,
            subscriptions=self.subscriptions,
        )
        self.dispatcher = CommandDispatcher(
            self.reply_context,
            self.lanes,
            access=self.access,
            tasks=tasks,
            turn_starts=turn_starts,
            languages=languages,
            load=partial(load_commands, self._command_contexts(lifecycle)),
        )
        self.router = Router(
            self.dispatcher,
            self.sessions,
            approvals=self.approvals,
            subscriptions=self.subscriptions,
        )
        self._recover = partial(
            recover,
            store,
            runtime,
            mode=settings.gateway.crash_recovery,
            router=self.router,
            sessions=self.sessions,
            lanes=self.lanes,
            turns=self.turns,
            outbox=self.outbox,
            runners=runners,
        )
        self._new_drainer: NewTurnDrainer = partial(
            TurnDrainer,
            lanes=self.lanes,
            sessions=self.sessions,
            progress=progress,
            detach=runners.detach,
        )
        groups = GroupPolicy(settings)
        self.document_reader = DocumentReader()
        self.intake = GatewayIntake(
            store,
            runtime,
            live_settings,
            policy=InboundPolicy(
                self.access,
                groups,
                PairingRequests(
                    store,
                    runtime,
                    live_settings,
                    self.paired_users,
                    denied_access=self.denied_access,
                ),
                languages=languages,
                clock=clock,
            ),
            attach=partial(
                attach_files,
                self.sessions,
                live_settings,
                self.document_reader,
                files.put if files else None,
                redact,
            ),
            platforms=self.platforms,
            watcher=watcher,
            admit=self.router.route,
        )
        new_connection = partial(
            AccountConnection,
            intake=self.intake,
            platforms=self.platforms,
            outbox=self.outbox,
            policy=connection_policy,
            clock=clock,
        )
        self.accounts = Accounts(
            self.platforms,
            PausedAccounts(store, clock=clock),
            outbox=self.outbox,
            tasks=tasks,
            new_supervisor=partial(
                AccountSupervisor,
                platforms=self.platforms,
                policy=connection_policy,
                clock=clock,
                tasks=tasks,
                redact=redact,
                new_connection=new_connection,
            ),
        )

        self._subscribe(store.events)
        live_settings.subscribe(
            self.access.apply_settings,
            groups.apply_settings,
            self.quiet_chats.apply_settings,
            self.cache.apply_settings,
            self.memory.apply_settings,
            self.sessions.apply_settings,
            self.expiry.apply_settings,
        )

        self.resumed = 0  # turns of earlier processes that this one continues
        self.stopped = asyncio.Event()  # set when the last phase of its stop has run
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._drainer: TurnDrainer | None = None  # of the stop that has begun
        self._sessions_at_stop: set[SessionId] = set()  # those that had a lane when it began
        self._failure_watcher: asyncio.Task[None] | None = None  # while inside `async with`
        self._cancelled_task: asyncio.Task[Any] | None = None  # cancelled by the watcher

    def _command_contexts(self, lifecycle: Lifecycle | None) -> CommandContexts:
        replies, store, clock = self.reply_context, self._store, self.runtime.clock
        return CommandContexts(
            replies=replies,
            access=self.access,
            pairing=self.pairing,
            admin=AdminContext(
                replies=replies,
                lifecycle=lifecycle,
                lifecycle_notices=self.lifecycle_notices,
                home_channels=self.home_channels,
                quiet_chats=self.quiet_chats,
                live_settings=self.live_settings,
                clock=clock,
            ),
            approvals=ApprovalContext(
                replies=replies,
                store=store,
                approvals=self.approvals,
                is_operator=self.access.is_operator,
                clock=clock,
            ),
            history=HistoryContext(
                replies=replies,
                store=store,
                lanes=self.lanes,
                agents=self._agents,
                auxiliary=self.auxiliary,
                redact=self.redact,
            ),
            info=InfoContext(
                replies=replies,
                store=store,
                lanes=self.lanes,
                agents=self._agents,
                subagents=self.subagents,
                lifecycle=lifecycle,
            ),
            jobs=JobContext(
                replies=replies, jobs=self.jobs, executor=self.job_executor, clock=clock
            ),
            memory=MemoryContext(replies=replies, store=store, memory=self.memory),
            sessions=SessionContext(
                replies=replies,
                store=store,
                lanes=self.lanes,
                live_settings=self.live_settings,
                close=self.teardown.close,
                runtime=self.runtime,
            ),
            settings=SettingsContext(
                replies=replies,
                store=store,
                sessions=self.sessions,
                agents=self._agents,
                quiet_chats=self.quiet_chats,
                live_settings=self.live_settings,
                runtime=self.runtime,
            ),
            turn=RunningTurnContext(
                replies=replies,
                lanes=self.lanes,
                sessions=self.sessions,
                subagents=self.subagents,
                force_stop=self.force_stop,
                live_settings=self.live_settings,
                runtime=self.runtime,
            ),
        )

    def _subscribe(self, events: StoreEvents) -> None:
        """Which components follow which commits, in this order."""
        publish_ends = partial(publish_message_ends, self.subscriptions, self.feeds, self.redact)
        if self.runtime.crash is not no_crash:
            events.on_committed(
                partial(crash_after_commit, self.runtime.crash),
                *(AcceptMessage, CommandEffect, EndTurn, MarkResumePending, ParkTurn),
            )
        events.on_committed(self.lanes.on_committed, RecordSteer, EndTurn)
        events.on_failed(self.lanes.on_failed, *TURN_COMMANDS)
        events.on_committed(self._effects.on_committed, CommandEffect)
        events.on_failed(self._effects.on_failed, CommandEffect)
        events.on_committed(self.paired_users.on_committed, *PAIRING_COMMANDS)
        events.on_committed(self.approvals.on_committed, *APPROVAL_COMMANDS)
        events.on_failed(self.approvals.on_failed, ApprovalDecision, CommandEffect)
        events.on_committed(self.outbox.on_committed, *DELIVERING_COMMANDS)
        events.on_committed(self._delivery_sender.on_committed, SettleDelivery)
        events.on_failed(self._delivery_sender.on_failed, SettleDelivery)
        events.on_committed(publish_ends, *ENDING_COMMANDS)
        events.on_committed(self.reactions.on_committed, BeginTurn, *ENDING_COMMANDS)
        events.on_committed(self.feeds.on_committed)
        events.on_committed(self._delivery_sender.on_reported, ReportFailedDelivery)
        events.on_committed(self._session_notes.on_committed, *NOTING_COMMANDS)
        events.on_failed(self._session_notes.on_failed, *NOTING_COMMANDS)
        events.on_failed(_log_lost_write, AddDeliveries, RecordBusyDecision, EnableMemory)
        events.on_committed(self.counters.on_committed, AcceptMessage, EndTurn)
        events.on_committed(self.memory.on_committed, EndTurn)
        if self._tracer is not None:
            events.on_committed(self._tracer.on_committed, *ACCEPTING_COMMANDS)
        events.on_committed(self.intake.on_committed, *ACCEPTING_COMMANDS)
        # After the router: a subagent is followed once its task is in a lane.
        events.on_committed(self.subagent_supervisor.on_committed, *ACCEPTING_COMMANDS)
        # So is a run, and before the scheduler is woken.
        events.on_committed(self.job_executor.on_committed, *RUN_COMMANDS)
        events.on_committed(self.scheduler.on_committed, *JOB_COMMANDS)
        self.lanes.on_lane_closed(self.expiry.on_session_idle)

    @property
    def settings(self) -> Settings:
        """The current settings. Read them once where several values must fit together."""
        return self.live_settings.current

    def apply_config(self, agent_config: AgentConfig) -> None:
        """Apply another configuration in one step. A running turn keeps the one it began with; the
        next turn of every chat has the new one. Old secrets are still redacted."""
        self.redact.add_secrets(agent_config.secrets)
        self.agent_factory.apply_config(agent_config)
        self.auxiliary.update_settings(
            agent_config.settings, lease=agent_config.lease, model=agent_config.model.name
        )
        if self._tracer is not None:
            self._tracer.set_model(agent_config.model)
        self.live_settings.apply(agent_config.settings)
        self.feeds.gateway_changed()

    def snapshot(self) -> dict[str, Any]:
        """The current status, from memory alone: cheap enough to be read often."""
        return {
            **gateway_snapshot(
                self.lanes,
                self.outbox,
                subagents=self.subagents,
                jobs=self.jobs,
                cache=self.cache,
                agent_factory=self.agent_factory,
                platforms=self.platforms,
            ),
            "next_job": self.scheduler.next_due,
            "home_channels": tuple(self.home_channels.all()),
        }

    def open_message_ids(self) -> frozenset[InboxId]:
        """The messages in progress; one leaves the set after its end is committed."""
        return self.subscriptions.ids

    # Start.

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "this is awaited by a task"
        self._failure_watcher = asyncio.create_task(
            self._cancel_on_failure(task), name="gateway failure watcher"
        )
        try:
            await self.start()
        except BaseException:
            # `__aexit__` is not called then, but resumed turns run and platforms are connected.
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._failure_watcher is not None:
            self._failure_watcher.cancel()
        await self.stop()
        if self._cancelled_task is not None:
            self._cancelled_task.uncancel()  # it gets `GatewayCrashed` instead
        if (failure := self.task_group.failure) is not None:
            raise GatewayCrashed(failure) from failure

    async def _cancel_on_failure(self, task: asyncio.Task[Any]) -> None:
        """Cancel the task inside `async with`, as a task group does."""
        await self.failed.wait()
        task.cancel()
        self._cancelled_task = task

    @property
    def failed(self) -> asyncio.Event:
        """Set when a task of the gateway has failed: the gateway must be stopped."""
        return self.task_group.failed

    @property
    def failure(self) -> HoldfastError | None:
        """The error to report once it has stopped."""
        failure = self.task_group.failure
        return None if failure is None else GatewayCrashed(failure)

    async def start(self) -> None:
        """Returns when it has recovered and accepts messages. The caller reports that it runs, once
        it has opened the rest. A stop may cancel this anywhere: its phases end what was started
        and skip what was not."""
        self._starting = asyncio.create_task(self._start(), name="start")
        await self._starting

    async def _start(self) -> None:
        group = self.task_group
        await group.open()
        group.run_until_closed(self.subagent_supervisor.run(), name="subagent supervisor")
        await self.memory.start()
        self._progress("recovering")
        await self.home_channels.load()
        await self.quiet_chats.load(self._store)
        await self.paired_users.load()
        self.resumed = await self._recover()
        await self.subagent_supervisor.follow_recovered()
        await self.job_executor.follow_recovered()
        self.intake.open()
        self._progress("connecting")
        await self.accounts.open()
        await withdraw_outdated_rules(
            self._store, self.runtime, self.home_channels, self._languages
        )
        group.run_until_closed(self.expiry.run(), name="expiry")
        group.run_until_closed(self.scheduler.run(), name="scheduler")

    # Stop.

    async def stop(
        self, order: StopOrder | None = None, *, urgent: asyncio.Event | None = None
    ) -> None:
        """Run the phases once: a second call waits for the same stop. Without an order it stops as
        after an unplanned signal."""
        if self._stopping is None:
            order = order or StopOrder(
                kind=StopKind.SIGNAL, by=StopRequester.SIGNAL, at=self.runtime.clock.now()
            )
            took: dict[str, float] = {}
            phases = self.phases(order, urgent=urgent or asyncio.Event(), took=took)
            running = run_phases(phases, progress=self._progress, took=took)
            self._stopping = asyncio.create_task(running, name="stop")
        await asyncio.shield(self._stopping)

    def phases(
        self, order: StopOrder, *, urgent: asyncio.Event, took: Mapping[str, float]
    ) -> Iterator[Phase]:
        """C1: the phases of a stop in order. Components that were never started are skipped.

        `urgent`: from the instant in which it is set, the stop waits for nothing. `took`: the
        seconds of each phase that has ended. All but the drain take 19 seconds at most if memory
        providers are quick; the rest of the 25 are the process's. Providers that are not may use
        what the others have left of `gateway.stop_timeout`.
        """
        settings = self.settings.gateway
        self._drainer = drainer = self._new_drainer(order, settings=settings, urgent=urgent)
        longest = drainer.finish_timeout + drainer.park_timeout + 1
        notify = partial(self.lifecycle_notices.send_shutdown_notices, order)
        end_tools = partial(self._end_tools, restarts=order.kind.restarts)
        yield Phase(N_("close intake"), 0.5, partial(self._close_intake, drainer))
        yield Phase(N_("notify"), 1.5, notify)
        yield Phase(DRAIN, longest, drainer.drain)
        yield Phase(N_("mark"), 2, drainer.mark)
        yield Phase(N_("interrupt"), 3, partial(self._interrupt, drainer))
        yield Phase(N_("kill tools"), 2, partial(self._kill_tools, drainer, end_tools))
        yield Phase(N_("finalise agents"), 1, self._finalise_agents)
        yield Phase(N_("empty the cache"), 0.5, self._empty_cache)
        yield Phase(N_("flush outbox"), 2, self.outbox.flush)
        yield Phase(N_("disconnect platforms"), 2, self._disconnect)
        yield Phase(N_("cancel tasks"), 1.5, self._cancel_tasks)
        yield Phase(N_("kill tools again"), 1, end_tools)
        spent = sum(seconds for name, seconds in took.items() if name != DRAIN)
        left = max(2, settings.stop_timeout - spent - _AFTER_PHASES)
        close = partial(self._close_auxiliary_clients, left - _SHUTDOWN_SECONDS, urgent)
        yield Phase(N_("close auxiliary clients"), left, close)

    @property
    def parked(self) -> int:
        """Turns that a stop has left at a step boundary."""
        return self._drainer.parked if self._drainer else 0

    @property
    def interrupted(self) -> int:
        """Turns that a stop has interrupted."""
        return self._drainer.interrupted if self._drainer else 0

    async def _close_intake(self, drainer: TurnDrainer) -> None:
        self.intake.close()
        # Turns that are given time to finish may need subagents for that.
        self.lanes.hold(allow_subagents=drainer.finish_timeout > 0)
        try:
            await self._cancel_start()
        finally:  # also where the start cannot be cancelled in time
            self.subagents.detach()
            self.scheduler.close()
            self.expiry.close()
            # Read before the lanes end: an agent that is mid-turn may not be in the cache any more.
            self._sessions_at_stop = {lane.session_id for lane in self.lanes}

    async def _cancel_start(self) -> None:
        """When this returns, nothing more is started."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait({self._starting})

    async def _interrupt(self, drainer: TurnDrainer) -> None:
        self.intake.close_to_subagents()
        try:
            await drainer.interrupt()
        finally:
            # After the turns: readers of one that has just ended learn how it ended.
            self.subscriptions.close()
            self.feeds.close()

    async def _kill_tools(
        self, drainer: TurnDrainer, end_tools: Callable[[], Awaitable[None]]
    ) -> None:
        """C4: where turns had to be interrupted, before the platforms are disconnected, so that the
        kill timer of a supervisor finds no child alive. Otherwise the last sweep is enough."""
        if drainer.interrupted:
            await end_tools()

    async def _finalise_agents(self) -> None:
        await self.memory.finalise({*self._sessions_at_stop, *self.cache})

    async def _empty_cache(self) -> None:
        self.cache.clear()

    async def _disconnect(self) -> None:
        try:
            await self.accounts.close()
        finally:
            await self.outbox.close()

    async def _cancel_tasks(self) -> None:
        await self.auxiliary.close()  # the request for a title is one of the tasks
        await self.task_group.close()

    async def _end_tools(self, *, restarts: bool) -> None:
        """On a restart, the runners are left to the successor; everything else ends."""
        ending = [self._runners.detach() if restarts else self._runners.end_all()]
        if self._browsers is not None:
            ending.append(self._browsers.end_all())
        failures = [
            failure
            for failure in await asyncio.gather(*ending, return_exceptions=True)
            if isinstance(failure, Exception)
        ]
        if failures:
            raise ExceptionGroup("what the sessions held could not be ended", failures)

    async def _close_auxiliary_clients(self, seconds: float, urgent: asyncio.Event) -> None:
        """Memory providers too, after the tasks: a command that ends a session is one of those.
        They have so many seconds to process the ends of the sessions, unless the stop is urgent;
        the next start reports the rest."""
        try:
            await self._wait_for_memory(seconds, urgent)
            await asyncio.gather(self.auxiliary.close(), self.memory.close())
        finally:
            self.stopped.set()

    async def _wait_for_memory(self, seconds: float, urgent: asyncio.Event) -> None:
        processing = asyncio.create_task(self.memory.join(), name="memory ends")
        hurry = asyncio.create_task(urgent.wait(), name="hurry")
        try:
            quick = min(seconds, _URGENT_SECONDS)
            await asyncio.wait({processing}, timeout=quick)
            await asyncio.wait(
                {processing, hurry}, timeout=seconds - quick, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            processing.cancel()
            hurry.cancel()


def crash_after_commit(crash: CrashHook, event: Committed) -> None:
    """The points at which the fault tests kill the process, right after these commits."""
    match event.command:
        # Also for a message that was accepted before: its platform is not told yet.
        case AcceptMessage() | CommandEffect(background=BackgroundStart()):
            crash(CrashPoint.ACCEPT_COMMITTED)
        case EndTurn():
            crash(CrashPoint.END_COMMITTED)
        case ParkTurn():
            crash(CrashPoint.TURN_PARKED)
        case MarkResumePending():
            crash(CrashPoint.TURN_MARKED)


def _log_lost_write(event: WriteFailed) -> None:
    """For writes that are not waited for: what they would have saved is lost, and only that."""
    log.warning(
        "Could not save %s: %s",
        type(event.command).__name__,
        event.error,
        extra={"action": "write_failed", "session": event.command.scope.session_id},
    )
