"""Access control: may this principal do this, here? Denied unless the configuration allows it.

Refusals are audited, a limited number of them.
"""

import asyncio
import logging
from collections.abc import Collection, Container
from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.core.config.settings import DEFAULT_ACCOUNT, Settings
from holdfast.core.errors import NotAllowed, StoreError
from holdfast.core.ids import PrincipalId, SessionKey
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Author, Source
from holdfast.core.people.api_tokens import ApiClient, TokenScope, is_client, is_owner
from holdfast.core.people.audit import REFUSED, AuditEntry, AuditKind
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.core.text.translation import N_

log = logging.getLogger(__name__)


ANY_USER = "*"
MAX_ROWS = 20  # audit rows per account and window: unknown senders must not fill the disk
WINDOW = 3600.0  # seconds


class Role(StrEnum):
    """The role of a person at one account and in one of its chats."""

    UNKNOWN = "unknown"
    USER = "user"
    OPERATOR = "operator"


class Action(StrEnum):
    TALK = "talk"
    COMMAND = "command"
    OPERATE = "operate"  # commands for the whole gateway, and what belongs to other people
    DECIDE = "decide"  # about something that belongs to people: an approval, a job
    SEND = "send"  # a message to another chat, unasked
    READ = "read"  # over HTTP: what the gateway stores and does
    MANAGE = "manage"  # over HTTP: change anything


_NOT_ALLOWED = {
    Action.TALK: N_(
        "{user!r} may not talk to the agent on {platform}. To allow it, add the id to {key} in "
        "holdfast.toml."
    ),
    Action.COMMAND: N_(
        "{user!r} may not use commands on {platform}. To allow it, add the id to {key} in "
        "holdfast.toml."
    ),
    Action.OPERATE: N_(
        "{user!r} may not operate the gateway from {platform}. To allow it, add the id to {key} in "
        "holdfast.toml."
    ),
    Action.DECIDE: N_(
        "{user!r} may not decide this on {platform}. To allow it, add the id to {key} in "
        "holdfast.toml."
    ),
    Action.SEND: N_("{user!r} may not send messages on {platform} from here."),
}


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The sender. `authenticated`: by a credential of the gateway's owner. `client`: by a token
    that the owner created."""

    id: PrincipalId
    authenticated: bool
    client: ApiClient | None = None


class OwnedResource(msgspec.Struct, frozen=True, kw_only=True):
    """Something that belongs to people, and the source of the request for it."""

    source: Source
    owners: Collection[PrincipalId]


class SendTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A chat to which something is sent, and the source from which."""

    source: Source
    to: Address
    is_own_or_home: bool  # the chat of the source itself, or a home channel


class GatewayResource(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the API shows, or one session of it (`session`: its route)."""

    session: SessionKey | None = None


Resource = Source | OwnedResource | SendTarget | GatewayResource


class ApiClients(Protocol):
    """The tokens that are valid now."""

    def client(self, user_id: str) -> ApiClient | None:
        """The client that talks as this user; None: its token was revoked, or has expired."""
        ...


def principal_of(source: Source) -> Principal:
    name = f"{source.platform}:{source.account}:{source.user_id}"
    # The API and the page pass on only requests with a token or cookie of the gateway. An operator
    # who writes into a chat of another platform has one, too.
    authenticated = is_owner(source.platform, source.user_id) or source.author is Author.OPERATOR
    return Principal(id=PrincipalId(name), authenticated=authenticated)


_FOR_OPERATORS = (Action.OPERATE, Action.READ, Action.MANAGE)


class AccessPolicy:
    """Owns who is allowed by the current configuration; `paired` are the paired users, `clients`
    the holders of tokens. A check is a lookup in a few sets, because every message needs one."""

    def __init__(
        self,
        settings: Settings,
        *,
        paired: Container[PrincipalId] = (),
        clients: ApiClients | None = None,
    ) -> None:
        self._paired = paired
        self._clients = clients
        self.apply_settings(settings)

    def apply_settings(self, settings: Settings) -> None:
        """Refuse from now on who is not allowed by these."""
        self._operators: set[str] = set()
        self._users: set[str] = set()
        self._chat_users: dict[tuple[str, str, str], frozenset[str]] = {}
        for name, account, each in settings.all_accounts():
            operators = frozenset(each.operators) - {ANY_USER}
            self._operators |= {f"{name}:{account}:{who}" for who in operators}
            self._users |= {f"{name}:{account}:{who}" for who in each.allow}
            for chat_id, chat in each.chats.items():
                if chat.allow:
                    self._chat_users[name, account, chat_id] = frozenset(chat.allow)
        self._send_allowlist = frozenset(settings.send.allow)

    def authorise(self, principal: Principal, action: Action, resource: Resource) -> None:
        """Returns, or raises `NotAllowed` with the key that would allow it."""
        if self.allows(principal, action, resource):
            return
        if isinstance(resource, GatewayResource):
            raise NotAllowed(
                "The scope {scope} of this token does not allow that. `holdfast token create` "
                "makes one of another scope.",
                scope=principal.client.scope if principal.client else "",
            )
        source = _source_of(resource)
        if isinstance(resource, SendTarget):
            raise NotAllowed(
                "Agents may not send messages to {chat} from here. To allow it, add {chat!r} to "
                "send.allow in holdfast.toml.",
                chat=f"{resource.to.platform}:{resource.to.chat_id}",
            )
        key = "operators" if action in (Action.OPERATE, Action.DECIDE) else "allow"
        raise NotAllowed(
            _NOT_ALLOWED[action],
            user=source.user_id,
            platform=source.platform,
            key=f"{_config_table(source)}.{key}",
        )

    def allows(self, principal: Principal, action: Action, resource: Resource) -> bool:
        if isinstance(resource, GatewayResource):
            return principal.authenticated or _token_allows(
                principal.client, action, resource.session
            )
        if isinstance(resource, SendTarget):
            # Operators are no exception: it is their agent that asks.
            known = self.role(principal, resource.source) is not Role.UNKNOWN
            return known and (resource.is_own_or_home or self.may_send_to(resource.to))
        owned = resource if isinstance(resource, OwnedResource) else None
        role = self.role(principal, _source_of(resource))
        if role is Role.OPERATOR:
            return True
        if role is Role.UNKNOWN or action in _FOR_OPERATORS:
            return False
        own = owned is not None and principal.id in owned.owners
        return own or action is not Action.DECIDE

    def role(self, principal: Principal, source: Source) -> Role:
        """Operators may also talk to the agent. Users are not operators, and `"*"` never makes a
        person an operator."""
        if principal.authenticated or principal.id in self._operators:
            return Role.OPERATOR
        if is_client(source.platform, source.user_id):
            # Asked each time: what a revoked token has started must not go on.
            client = self._clients.client(source.user_id) if self._clients else None
            allowed = client is not None and client.may_talk_in(source.chat_id)
            return Role.USER if allowed else Role.UNKNOWN
        if principal.id in self._users or principal.id in self._paired:
            return Role.USER
        if f"{source.platform}:{source.account}:{ANY_USER}" in self._users:
            return Role.USER
        here = self._chat_users.get((source.platform, source.account, source.chat_id), frozenset())
        return Role.USER if source.user_id in here or ANY_USER in here else Role.UNKNOWN

    def is_named(self, principal: Principal) -> bool:
        """Whether the person is known by their own id: an operator, a user or a paired person, and
        not just admitted with everyone, or with a chat."""
        if principal.authenticated or principal.id in self._operators:
            return True
        known = principal.id in self._users or principal.id in self._paired
        return known and not principal.id.endswith(f":{ANY_USER}")

    def may_send_to(self, to: Address) -> bool:
        """Whether the configuration lets agents send to that chat."""
        chat = f"{to.platform}:{to.chat_id}"
        return chat in self._send_allowlist or f"{to.platform}:{ANY_USER}" in self._send_allowlist

    def is_operator(self, source: Source) -> bool:
        """Whether the sender is an operator."""
        return self.allows(principal_of(source), Action.OPERATE, source)


def _token_allows(client: ApiClient | None, action: Action, session: SessionKey | None) -> bool:
    if client is None:
        return False
    if client.scope is TokenScope.ADMIN:
        return True
    if action is not Action.READ:
        return False
    if client.scope is TokenScope.READ:
        return True
    return session is not None and client.may_read_session(session)


def _source_of(resource: Source | OwnedResource | SendTarget) -> Source:
    return resource if isinstance(resource, Source) else resource.source


def _config_table(source: Source) -> str:
    """The table of that account in holdfast.toml."""
    usual = source.account == DEFAULT_ACCOUNT
    name = f"platforms.{source.platform}"
    return name if usual else f"{name}.accounts.{source.account}"


class DeniedAccessAudit:
    """Owns which senders have an audit row in the current window, by account. Each has one row; at
    the limit, the last row says that others are not listed."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._since = clock.now()
        self._recorded: dict[str, set[str]] = {}

    async def record(self, kind: AuditKind, actor: str, *, account: str, subject: str = "") -> None:
        """Returns when the row is durable, or is beyond the limit. A store failure does not change
        the refusal."""
        if (more := self._count(account, actor)) is None:
            return
        act = AuditEntry(
            kind=kind,
            actor=actor,
            at=self._clock.now(),
            subject=subject or account,
            outcome=REFUSED,
            facts={"others_not_listed": True} if more else {},
        )
        try:
            await asyncio.shield(self._store.write(RecordAudit(entry=act)))
        except StoreError as error:
            log.warning(
                "Could not write the refusal of %s to the audit log: %s",
                actor,
                error,
                extra={"action": "denied_access_not_audited"},
            )

    def _count(self, account: str, actor: str) -> bool | None:
        """Whether this is the last row of the window. None: it gets no row."""
        now = self._clock.now()
        if not 0 <= now - self._since < WINDOW:
            self._since = now
            self._recorded.clear()
        known = self._recorded.setdefault(account, set())
        if actor in known or len(known) >= MAX_ROWS:
            return None
        known.add(actor)
        return len(known) == MAX_ROWS
