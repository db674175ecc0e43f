"""The contexts of commands: one per subject, with the few components that it uses; and which
commands a sender may use.

The gateway builds them all at its start, so this file imports no command.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.core.commands import CommandRequest, CommandSpec, Permission
from holdfast.core.ids import SessionId
from holdfast.core.messages.source import Source
from holdfast.core.ports.runtime import Clock, Lifecycle, Runtime
from holdfast.core.ports.store import Store
from holdfast.gateway.access import AccessPolicy, Action, principal_of
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.agents.session_agents import SessionAgents
from holdfast.gateway.approvals.service import ApprovalService
from holdfast.gateway.inbound.pairing import PairingService
from holdfast.gateway.jobs.executor import JobExecutor
from holdfast.gateway.jobs.service import JobService
from holdfast.gateway.lifecycle.notices import LifecycleNotices
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.outbound.command_effects import CommandEffects
from holdfast.gateway.outbound.delivery import DeliveryFactory
from holdfast.gateway.outbound.quiet_chats import QuietChats
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.sessions.teardown import ForceStop
from holdfast.gateway.subagents import Subagents
from holdfast.gateway.turns.lanes import Lanes

Command = Callable[[CommandRequest], Awaitable[None]]
"""What must happen at this instant happens before the call returns; the rest is awaited.

The effect of a command commits together with the end of its inbox row.
"""

CloseSession = Callable[[SessionId], Awaitable[None]]


class ReplyContext(msgspec.Struct, frozen=True, kw_only=True):
    """For the commit of a command, and what follows it. Every command has this."""

    effects: CommandEffects
    clock: Clock
    delivery_factory: DeliveryFactory
    subscriptions: MessageSubscriptions


class SessionContext(msgspec.Struct, frozen=True, kw_only=True):
    """For /new, /sessions, /resume, /fork, /title and /search."""

    replies: ReplyContext
    store: Store
    lanes: Lanes
    live_settings: LiveSettings
    close: CloseSession
    runtime: Runtime


class HistoryContext(msgspec.Struct, frozen=True, kw_only=True):
    """For /undo, /retry and /compact."""

    replies: ReplyContext
    store: Store
    lanes: Lanes
    agents: SessionAgents
    auxiliary: AuxiliaryClient
    redact: Redaction


class RunningTurnContext(msgspec.Struct, frozen=True, kw_only=True):
    """For /stop, /queue, /steer and /background."""

    replies: ReplyContext
    lanes: Lanes
    sessions: SessionStore
    subagents: Subagents
    force_stop: ForceStop
    live_settings: LiveSettings
    runtime: Runtime


class ApprovalContext(msgspec.Struct, frozen=True, kw_only=True):
    """For /approve, /deny and /approvals."""

    replies: ReplyContext
    store: Store
    approvals: ApprovalService
    is_operator: Callable[[Source], bool]
    clock: Clock


class SettingsContext(msgspec.Struct, frozen=True, kw_only=True):
    """For /model, /busy and /quiet."""

    replies: ReplyContext
    store: Store
    sessions: SessionStore
    agents: SessionAgents
    quiet_chats: QuietChats
    live_settings: LiveSettings
    runtime: Runtime


class AdminContext(msgspec.Struct, frozen=True, kw_only=True):
    """For /restart and /sethome."""

    replies: ReplyContext
    lifecycle: Lifecycle | None  # None: the gateway cannot be restarted from inside
    lifecycle_notices: LifecycleNotices
    home_channels: HomeChannels
    quiet_chats: QuietChats
    live_settings: LiveSettings
    clock: Clock


class InfoContext(msgspec.Struct, frozen=True, kw_only=True):
    """For /status and /usage."""

    replies: ReplyContext
    store: Store
    lanes: Lanes
    agents: SessionAgents
    subagents: Subagents
    lifecycle: Lifecycle | None  # None: the gateway cannot be restarted from inside


class JobContext(msgspec.Struct, frozen=True, kw_only=True):
    """For /cron."""

    replies: ReplyContext
    jobs: JobService
    executor: JobExecutor
    clock: Clock


class MemoryContext(msgspec.Struct, frozen=True, kw_only=True):
    """For /memory."""

    replies: ReplyContext
    store: Store
    memory: MemoryManager


class CommandContexts(msgspec.Struct, frozen=True, kw_only=True):
    """The context of each subject, and what the commands without one use. `bind_commands` takes it
    apart; no command gets it."""

    replies: ReplyContext
    access: AccessPolicy
    pairing: PairingService
    admin: AdminContext
    approvals: ApprovalContext
    history: HistoryContext
    info: InfoContext
    jobs: JobContext
    memory: MemoryContext
    sessions: SessionContext
    settings: SettingsContext
    turn: RunningTurnContext


def command_action(spec: CommandSpec | None) -> Action:
    """What a sender must be allowed to do in order to give this command."""
    operates = spec is not None and spec.permission is Permission.OPERATE
    return Action.OPERATE if operates else Action.COMMAND


def allowed_commands(
    specs: Sequence[CommandSpec], access: AccessPolicy, source: Source
) -> list[CommandSpec]:
    """Those that this sender may give."""
    principal = principal_of(source)
    return [spec for spec in specs if access.allows(principal, command_action(spec), source)]
