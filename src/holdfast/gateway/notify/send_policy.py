"""Outreach: which chats an agent may speak to besides its own, and who is asked before."""

from holdfast.core.errors import NotAllowed
from holdfast.core.jobs.job import HOME
from holdfast.core.messages.handing import HERE
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address
from holdfast.core.people.judgement import HARMLESS, Judgement, Level
from holdfast.core.turns.subagent import HOUSE
from holdfast.gateway.inbound.authorise import Action, Authority, Elsewhere, Principal, principal_of
from holdfast.gateway.notify.chat_addresses import NamedChats, NoSuchChat, shown_chat
from holdfast.gateway.notify.home_channels import Homes
from holdfast.gateway.outbound.replies import address_of


class Outreach:
    """Owns nothing: the configuration says where agents may speak, homes where people are told
    things, doors what there is. Who may is known once the house is built."""

    def __init__(self, chats: NamedChats) -> None:
        self._chats = chats
        self._authority: Authority
        self._homes: Homes

    def settle_in(self, authority: Authority, homes: Homes) -> None:
        self._authority = authority
        self._homes = homes

    def place(self, to: str, row: InboxRow) -> Address:
        """The chat that is meant by whoever works for that message. Raises `NoSuchChat`."""
        if to == HERE:
            return address_of(row)
        if to == HOME:
            return self._home(row.inbound.source.platform)
        address = self._chats.find(to)
        own = address_of(row)
        here = _same_chat(address, own) and address.thread_id == own.thread_id
        return own if here else address  # with what it answers, as all that is said there

    def authorise(self, to: Address, row: InboxRow) -> None:
        """Returns, or raises `NotAllowed`: also where somebody was asked, and said yes."""
        source = row.inbound.source
        # What a job does was allowed when somebody who may talk made it.
        inner = source.platform == HOUSE
        principal = Principal(id=row.principal, vouched=inner or principal_of(source).vouched)
        self._authority.authorise(
            principal, Action.SEND, Elsewhere(place=source, to=to, near=self._near(to, row))
        )

    def judged(self, to: str, row: InboxRow) -> Judgement:
        """What is thought of a message to that chat before it is sent. One that makes no sense is
        harmless: sending it says what is wrong."""
        try:
            address = self.place(to, row)
        except NoSuchChat:
            return HARMLESS
        if _same_chat(address, address_of(row)) or row.inbound.child is not None:
            return HARMLESS
        try:
            self.authorise(address, row)
        except NotAllowed as error:
            return Judgement(level=Level.HOPELESS, why=str(error))
        if self._authority.listed(address):
            return HARMLESS
        chat = shown_chat(address)
        return Judgement(
            level=Level.DANGEROUS,
            rule=f"send to {chat}",
            why=f"It sends a message to another chat: {chat}.",
        )

    def _near(self, to: Address, row: InboxRow) -> bool:
        homes = (home.address for home in self._homes.all())
        return any(_same_chat(to, near) for near in (address_of(row), *homes))

    def _home(self, platform: str) -> Address:
        homes = [home.address for home in self._homes.all()]
        own = [address for address in homes if address.platform == platform]
        for address in (*own, *homes):
            return address
        raise NoSuchChat("There is no home channel: somebody has to say /sethome in one first.")


def _same_chat(one: Address, other: Address) -> bool:
    """Whoever is in a chat is in its threads."""
    mine = (one.platform, one.account, one.chat_id)
    return mine == (other.platform, other.account, other.chat_id)
