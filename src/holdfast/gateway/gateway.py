"""The gateway: all who take, run and answer messages, and who of them knows whom."""

import logging
from typing import Any

from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.core.ids import DeliveryId, InboxId, SessionId
from holdfast.core.ports.protocols import Lifecycle, Platform
from holdfast.core.turns.subagent import SubagentKind
from holdfast.documents.documents import DocumentReader
from holdfast.gateway.accounts.accounts import Accounts
from holdfast.gateway.accounts.connection import AccountDependencies
from holdfast.gateway.accounts.inner_door import SubagentPlatform
from holdfast.gateway.accounts.job_door import JobPlatform
from holdfast.gateway.accounts.paused import PausedAccounts
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.agents.outfit import AgentConfig
from holdfast.gateway.approvals.service import ApprovalService
from holdfast.gateway.children import Subagents
from holdfast.gateway.commands.command import Command
from holdfast.gateway.commands.dispatcher import CommandDispatcher
from holdfast.gateway.furnishing import BaseServices, build_services, build_tracer
from holdfast.gateway.household import SupervisedTaskGroup
from holdfast.gateway.inbound.authorise import AccessPolicy
from holdfast.gateway.inbound.denials import DeniedAccessAudit
from holdfast.gateway.inbound.groups import GroupPolicy
from holdfast.gateway.inbound.intake import GatewayIntake
from holdfast.gateway.inbound.paired import PairedUsers
from holdfast.gateway.inbound.pairing import PairingService
from holdfast.gateway.inbound.receiving import AttachmentIntake
from holdfast.gateway.inbound.reception import Router
from holdfast.gateway.inbound.strangers import PairingRequests
from holdfast.gateway.inbound.threshold import InboundPolicy
from holdfast.gateway.jobs.scheduler import SleepTimer
from holdfast.gateway.live.snapshot import gateway_snapshot
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.notify.lifecycle_notices import LifecycleNotices
from holdfast.gateway.outbound.delivery import OutboxWorker
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.outbound.receipts import DeliveryWaiters
from holdfast.gateway.parts import GatewayDependencies
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.closing import SessionTeardown
from holdfast.gateway.sessions.expiry import Expiry
from holdfast.gateway.sessions.insisting import ForceStop
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.settling import build_scheduler, connect_subagents
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)


class Gateway:
    """Owns nobody's state: it makes those who do, and introduces them. They do nothing before it
    runs (`running.py`), and nothing after it has stopped."""

    def __init__(self, dependencies: GatewayDependencies) -> None:
        self.dependencies = dependencies
        self._live_settings = LiveSettings(dependencies.settings)
        self._subagents = Subagents(
            store=dependencies.store, clock=dependencies.clock, new_id=dependencies.new_id
        )
        inner: list[Platform] = [SubagentPlatform(kind, self._subagents) for kind in SubagentKind]
        inner.append(JobPlatform())
        self._platforms = PlatformRegistry(
            [*dependencies.platforms, *inner], clock=dependencies.clock
        )
        self._redact = dependencies.redact or Redaction(dependencies.secrets)
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
            on_failed=self._on_delivery_failed,
            tracer=self._tracer,
        )
        self._auxiliary = AuxiliaryClient(
            dependencies.settings, lease=dependencies.lease, model=dependencies.model.name
        )
        self.services = build_services(dependencies, self._base_services())
        self.teardown = SessionTeardown(self.services.cache)
        self.teardown.add(
            [dependencies.runners, self.services.memory, self._auxiliary, *dependencies.holders]
        )
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
        self.lanes.on_lane_closed = self.expiry.on_session_idle
        self.force_stop = ForceStop(self.services, self.lanes, suspend=self.sessions.suspend)
        self.paired_users = PairedUsers(dependencies.store)
        self.pairing = PairingService(self.services, self.paired_users)
        self.access = authority = AccessPolicy(dependencies.settings, paired=self.paired_users)
        self.approvals = ApprovalService(self.services, self.lanes, access=authority)
        self.home_channels = HomeChannels(
            self._live_settings, self._platforms, reads=dependencies.store
        )
        self.services.send_policy.set_access(authority, self.home_channels)
        self.lifecycle_notices = LifecycleNotices(self.services, self.lanes, self.home_channels)
        self.dispatcher = CommandDispatcher(
            self.services, self.lanes, access=authority, tasks=self._tasks
        )
        self.router = Router(
            self.dispatcher,
            self.sessions,
            approvals=self.approvals,
            subagents=self._subagents,
            subscriptions=self.services.subscriptions,
        )
        groups = GroupPolicy(dependencies.settings)
        self.denied_access = DeniedAccessAudit(dependencies.store, clock=dependencies.clock)
        threshold = InboundPolicy(
            authority,
            groups,
            PairingRequests(self.services, self.paired_users, denied_access=self.denied_access),
            clock=dependencies.clock,
        )
        self.document_reader = DocumentReader()
        self.intake = GatewayIntake(
            self.services,
            policy=threshold,
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
        self._platforms.on_lost = self.accounts.connection_lost
        self._connect_services(dependencies)
        self._live_settings.subscribe(
            authority.apply_settings,
            groups.apply_settings,
            self.services.quiet_chats.apply_settings,
            self.services.cache.apply_settings,
            self.services.memory.apply_settings,
            self.sessions.apply_settings,
            self.expiry.apply_settings,
        )
        self.dispatcher.set_factory(lambda: self._build_commands(dependencies.lifecycle))

    def _build_commands(self, lifecycle: Lifecycle | None) -> list[Command]:
        from holdfast.gateway.commands.registry import build_commands  # noqa: PLC0415 - see the desk

        return build_commands(
            self.services,
            self.lanes,
            dispatcher=self.dispatcher,
            sessions=self.sessions,
            approvals=self.approvals,
            access=self.access,
            close=self.teardown.close,
            force_stop=self.force_stop,
            home_channels=self.home_channels,
            lifecycle_notices=self.lifecycle_notices,
            pairing=self.pairing,
            lifecycle=lifecycle,
        )

    def _build_accounts(self, dependencies: GatewayDependencies) -> Accounts:
        ground = AccountDependencies(
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
        return Accounts(ground, PausedAccounts(dependencies.store, clock=dependencies.clock))

    def _connect_services(self, dependencies: GatewayDependencies) -> None:
        connect_subagents(
            self._subagents,
            self.services,
            self.lanes,
            intake=self.intake,
            sessions=self.sessions,
            teardown=self.teardown,
            tasks=self._tasks,
        )
        self.job_executor, self.scheduler = build_scheduler(
            self.services,
            self.lanes,
            intake=self.intake,
            sessions=self.sessions,
            teardown=self.teardown,
            home_channels=self.home_channels,
            access=self.access,
            alarm=dependencies.alarm or SleepTimer(dependencies.clock),
            tasks=self._tasks,
        )

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
            close=self._close_session,
            tracer=self._tracer,
        )

    def apply_config(self, agent_config: AgentConfig) -> None:
        """Put another configuration into force, in one step: a turn that runs keeps what it began
        with, and the next one of every chat has this. What was a secret before stays one."""
        self._redact.add_secrets(agent_config.secrets)
        self.services.agent_factory.apply_config(agent_config)
        self._auxiliary.update_settings(
            agent_config.settings, lease=agent_config.lease, model=agent_config.model.name
        )
        if self._tracer is not None:
            self._tracer.model = agent_config.model
        self._live_settings.apply(agent_config.settings)
        self.services.feeds.gateway_changed()

    async def _close_session(self, session_id: SessionId) -> None:
        await self.teardown.close(session_id)

    def _on_delivery_failed(self, delivery_id: DeliveryId) -> None:
        self._tasks.create_task(self.approvals.end_undeliverable(delivery_id), name="undeliverable")

    def snapshot(self) -> dict[str, Any]:
        """What is true now, from memory alone: cheap enough to be asked often."""
        return {
            **gateway_snapshot(self.services, self.lanes, self.outbox),
            "homes": tuple(self.home_channels.all()),
        }

    def open_message_ids(self) -> frozenset[InboxId]:
        """The messages that are worked on here; an end is known here after its commit."""
        return self.services.subscriptions.ids
