"""Which chats an agent may send to besides its own, and when a person is asked first."""

from holdfast.core.errors import NotAllowed
from holdfast.core.jobs.job import HOME
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import HERE, Address
from holdfast.core.people.approval import HARMLESS, CommandRisk, CommandVerdict
from holdfast.core.text.translation import N_
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.access import (
    AccessPolicy,
    Action,
    Principal,
    SendTarget,
    principal_of,
)
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.notify.chat_addresses import NoSuchChat, find_chat, format_chat
from holdfast.gateway.notify.home_channels import HomeChannels
from holdfast.gateway.outbound.delivery import reply_address

SEND_RULE = "send to {chat}"  # the rule is stored under it: never changed
SEND_REASON = N_("It sends a message to another chat: {chat}.")


class SendPolicy:
    """Decides by the configuration (where agents may send), the home channels and the platforms. It
    has no state."""

    def __init__(
        self, platforms: PlatformRegistry, access: AccessPolicy, home_channels: HomeChannels
    ) -> None:
        self._platforms = platforms
        self._access = access
        self._home_channels = home_channels

    def resolve(self, to: str, row: InboxRow) -> Address:
        """The chat that `to` names, for the turn that answers that message. Raises
        `NoSuchChat`."""
        if to == HERE:
            return reply_address(row)
        if to == HOME:
            return self._home(row.inbound.source.platform)
        address = find_chat(self._platforms, to)
        own = reply_address(row)
        here = _same_chat(address, own) and address.thread_id == own.thread_id
        return own if here else address  # with the message that it answers

    def authorise(self, to: Address, row: InboxRow) -> None:
        """Returns, or raises `NotAllowed`: also for a send that a person has approved."""
        source = row.inbound.source
        # The work of a job was authorised when the job was created.
        inner = source.platform == INTERNAL_PLATFORM
        principal = Principal(
            id=row.principal, authenticated=inner or principal_of(source).authenticated
        )
        self._access.authorise(
            principal,
            Action.SEND,
            SendTarget(source=source, to=to, is_own_or_home=self._is_own_or_home(to, row)),
        )

    def is_own_chat(self, to: str, row: InboxRow) -> bool:
        """Whether it is the chat of the turn. An invalid address counts as it: nothing is sent."""
        try:
            return _same_chat(self.resolve(to, row), reply_address(row))
        except NoSuchChat:
            return True

    def judge(self, to: str, row: InboxRow) -> CommandVerdict:
        """The verdict on a message to that chat before it is sent. An invalid address is harmless:
        sending it fails with the reason."""
        try:
            address = self.resolve(to, row)
        except NoSuchChat:
            return HARMLESS
        if _same_chat(address, reply_address(row)) or row.inbound.subagent is not None:
            return HARMLESS
        try:
            self.authorise(address, row)
        except NotAllowed as error:
            return CommandVerdict(level=CommandRisk.FORBIDDEN, why=str(error))
        if self._access.may_send_to(address):
            return HARMLESS
        chat = format_chat(address)
        return CommandVerdict(
            level=CommandRisk.DANGEROUS,
            rule=SEND_RULE.format(chat=chat),
            why=SEND_REASON.format(chat=chat),
        )

    def _is_own_or_home(self, to: Address, row: InboxRow) -> bool:
        homes = (home.address for home in self._home_channels.all())
        return any(_same_chat(to, near) for near in (reply_address(row), *homes))

    def _home(self, platform: str) -> Address:
        homes = [home.address for home in self._home_channels.all()]
        own = [address for address in homes if address.platform == platform]
        for address in (*own, *homes):
            return address
        raise NoSuchChat("There is no home channel. Send /sethome in a chat first.")


def _same_chat(one: Address, other: Address) -> bool:
    """Whether it is the same chat, in any thread: everyone in a chat is in its threads."""
    mine = (one.platform, one.account, one.chat_id)
    return mine == (other.platform, other.account, other.chat_id)
