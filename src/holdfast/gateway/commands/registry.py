"""Every command there is, with what it needs to be carried out."""

from holdfast.core.messages.inbox import BusyMode
from holdfast.core.ports.protocols import Lifecycle
from holdfast.gateway.approvals.service import Approvals
from holdfast.gateway.commands.approvals import ApprovalsCommand
from holdfast.gateway.commands.approve import Approve
from holdfast.gateway.commands.approving import Approving
from holdfast.gateway.commands.background import Background
from holdfast.gateway.commands.busy import Busy
from holdfast.gateway.commands.command import Command
from holdfast.gateway.commands.compact import Compact
from holdfast.gateway.commands.deny import Deny
from holdfast.gateway.commands.dispatcher import CommandDesk
from holdfast.gateway.commands.fork import Fork
from holdfast.gateway.commands.help import Help
from holdfast.gateway.commands.jobs import Cron
from holdfast.gateway.commands.memory import MemoryCommand
from holdfast.gateway.commands.model import Model
from holdfast.gateway.commands.new import Close, New
from holdfast.gateway.commands.pairing import PairingCommand
from holdfast.gateway.commands.quiet import QuietCommand
from holdfast.gateway.commands.restart import Restart
from holdfast.gateway.commands.resume import Resume
from holdfast.gateway.commands.retry import Retry
from holdfast.gateway.commands.say import Say
from holdfast.gateway.commands.search import Search
from holdfast.gateway.commands.sessions import Sessions
from holdfast.gateway.commands.sethome import SetHome
from holdfast.gateway.commands.status import Status
from holdfast.gateway.commands.stop import Stop
from holdfast.gateway.commands.title import Title
from holdfast.gateway.commands.undo import Undo
from holdfast.gateway.commands.usage import Usage
from holdfast.gateway.inbound.authorise import Authority
from holdfast.gateway.inbound.pairing import Pairing
from holdfast.gateway.notify.home_channels import Homes
from holdfast.gateway.notify.lifecycle_notices import Telling
from holdfast.gateway.services import House
from holdfast.gateway.sessions.insisting import Insisting
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.turns.lanes import Lanes


def every_command(
    house: House,
    lanes: Lanes,
    *,
    desk: CommandDesk,
    sessions: SessionStore,
    approvals: Approvals,
    authority: Authority,
    close: Close,
    insisting: Insisting,
    homes: Homes,
    telling: Telling,
    pairing: Pairing,
    lifecycle: Lifecycle | None,
) -> list[Command]:
    """In no order: `core/people/commands.py` has the one that people see."""
    approving = Approving(house, approvals)
    return [
        Help(house, commands=desk.listed_for),
        New(house, lanes, close=close, under_way=desk.under_way),
        Stop(house, lanes, insisting),
        Status(house, lanes, lifecycle=lifecycle),
        MemoryCommand(house),
        Model(house, sessions),
        Background(house, lanes, sessions),
        Approve(house, approving),
        ApprovalsCommand(house, approvals, operates=authority.operates),
        Busy(house, sessions),
        Fork(house, lanes),
        PairingCommand(house, pairing),
        QuietCommand(house),
        Resume(house, lanes),
        Restart(house, lifecycle=lifecycle, telling=telling),
        Retry(house, lanes),
        Sessions(house),
        SetHome(house, homes),
        Title(house),
        Undo(house, lanes),
        Usage(house, lanes),
        Deny(approving),
        Compact(house, lanes),
        Cron(house),
        Say("queue", sessions, mode=BusyMode.QUEUE),
        Say("steer", sessions, mode=BusyMode.STEER),
        Search(house),
    ]
