"""Builds all chat commands; `core/commands.py` describes them. Imported at the first command."""

from holdfast.core.messages.inbox import BusyMode
from holdfast.core.ports.runtime import Lifecycle
from holdfast.gateway.approvals.service import ApprovalService
from holdfast.gateway.commands.admin import PairingCommand, RestartCommand
from holdfast.gateway.commands.approvals import (
    ApprovalReplies,
    ApprovalsCommand,
    ApproveCommand,
    DenyCommand,
)
from holdfast.gateway.commands.command import Command
from holdfast.gateway.commands.dispatcher import CommandDispatcher
from holdfast.gateway.commands.history import CompactCommand, RetryCommand, UndoCommand
from holdfast.gateway.commands.info import HelpCommand, StatusCommand, UsageCommand
from holdfast.gateway.commands.jobs import CronCommand
from holdfast.gateway.commands.memory import MemoryCommand
from holdfast.gateway.commands.sessions import (
    CloseSession,
    ForkCommand,
    NewCommand,
    ResumeCommand,
    SearchCommand,
    SessionsCommand,
    TitleCommand,
)
from holdfast.gateway.commands.settings import (
    BusyCommand,
    ModelCommand,
    QuietCommand,
    SetHomeCommand,
)
from holdfast.gateway.commands.turn import BackgroundCommand, QueueSteerCommand, StopCommand
from holdfast.gateway.inbound.access import AccessPolicy
from holdfast.gateway.inbound.pairing import PairingService
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.notify.lifecycle_notices import LifecycleNotices
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.sessions.teardown import ForceStop
from holdfast.gateway.turns.lanes import Lanes


def build_commands(
    services: Services,
    lanes: Lanes,
    *,
    dispatcher: CommandDispatcher,
    sessions: SessionStore,
    approvals: ApprovalService,
    access: AccessPolicy,
    close: CloseSession,
    force_stop: ForceStop,
    home_channels: HomeChannels,
    lifecycle_notices: LifecycleNotices,
    pairing: PairingService,
    lifecycle: Lifecycle | None,
) -> list[Command]:
    """In no order: `core/commands.py` has the one that people see."""
    approving = ApprovalReplies(services, approvals)
    return [
        HelpCommand(services, commands=dispatcher.available_for),
        NewCommand(services, lanes, close=close, running_commands=dispatcher.running),
        StopCommand(services, lanes, force_stop),
        StatusCommand(services, lanes, lifecycle=lifecycle),
        MemoryCommand(services),
        ModelCommand(services, sessions),
        BackgroundCommand(services, lanes, sessions),
        ApproveCommand(services, approving),
        ApprovalsCommand(services, approvals, is_operator=access.is_operator),
        BusyCommand(services, sessions),
        ForkCommand(services, lanes),
        PairingCommand(services, pairing),
        QuietCommand(services),
        ResumeCommand(services, lanes),
        RestartCommand(services, lifecycle=lifecycle, lifecycle_notices=lifecycle_notices),
        RetryCommand(services, lanes),
        SessionsCommand(services),
        SetHomeCommand(services, home_channels),
        TitleCommand(services),
        UndoCommand(services, lanes),
        UsageCommand(services, lanes),
        DenyCommand(approving),
        CompactCommand(services, lanes),
        CronCommand(services),
        QueueSteerCommand("queue", sessions, mode=BusyMode.QUEUE),
        QueueSteerCommand("steer", sessions, mode=BusyMode.STEER),
        SearchCommand(services),
    ]
