"""Every command there is, with what it needs to be carried out."""

from holdfast.core.messages.inbox import BusyMode
from holdfast.core.ports.protocols import Lifecycle
from holdfast.gateway.approvals.service import ApprovalService
from holdfast.gateway.commands.approvals import ApprovalsCommand
from holdfast.gateway.commands.approve import ApproveCommand
from holdfast.gateway.commands.approving import ApprovalReplies
from holdfast.gateway.commands.background import BackgroundCommand
from holdfast.gateway.commands.busy import BusyCommand
from holdfast.gateway.commands.command import Command
from holdfast.gateway.commands.compact import CompactCommand
from holdfast.gateway.commands.deny import DenyCommand
from holdfast.gateway.commands.dispatcher import CommandDispatcher
from holdfast.gateway.commands.fork import ForkCommand
from holdfast.gateway.commands.help import HelpCommand
from holdfast.gateway.commands.jobs import CronCommand
from holdfast.gateway.commands.memory import MemoryCommand
from holdfast.gateway.commands.model import ModelCommand
from holdfast.gateway.commands.new import CloseSession, NewCommand
from holdfast.gateway.commands.pairing import PairingCommand
from holdfast.gateway.commands.quiet import QuietCommand
from holdfast.gateway.commands.restart import RestartCommand
from holdfast.gateway.commands.resume import ResumeCommand
from holdfast.gateway.commands.retry import RetryCommand
from holdfast.gateway.commands.say import QueueSteerCommand
from holdfast.gateway.commands.search import SearchCommand
from holdfast.gateway.commands.sessions import SessionsCommand
from holdfast.gateway.commands.sethome import SetHomeCommand
from holdfast.gateway.commands.status import StatusCommand
from holdfast.gateway.commands.stop import StopCommand
from holdfast.gateway.commands.title import TitleCommand
from holdfast.gateway.commands.undo import UndoCommand
from holdfast.gateway.commands.usage import UsageCommand
from holdfast.gateway.inbound.authorise import AccessPolicy
from holdfast.gateway.inbound.pairing import PairingService
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.notify.lifecycle_notices import LifecycleNotices
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.insisting import ForceStop
from holdfast.gateway.sessions.resolver import SessionStore
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
    """In no order: `core/people/commands.py` has the one that people see."""
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
