"""The one question every entry asks: may this principal do this, here? Nobody may until told."""

from collections.abc import Collection, Container
from enum import StrEnum

import msgspec

from holdfast.core.config.settings import DEFAULT_ACCOUNT, Settings
from holdfast.core.errors import NotAllowed
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Author, Source

EVERYBODY = "*"


class Role(StrEnum):
    """What somebody is, at one account and in one chat of it."""

    STRANGER = "stranger"
    USER = "user"
    OPERATOR = "operator"


class Action(StrEnum):
    TALK = "talk"
    COMMAND = "command"
    OPERATE = "operate"  # commands about the gateway as a whole, and everybody's things
    DECIDE = "decide"  # about a thing that belongs to people: an approval, a job
    SEND = "send"  # a message to a chat where nobody has asked for one


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking. `vouched`: the platform itself checked a credential of ours."""

    id: PrincipalId
    vouched: bool


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that belongs to people, and the place from which somebody reaches for it."""

    place: Source
    owners: Collection[PrincipalId]


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """A chat that something is to be sent to, and the place from which."""

    place: Source
    to: Address
    near: bool  # it is the chat of the place itself, or a home channel


Resource = Source | Owned | Elsewhere


def principal_of(source: Source) -> Principal:
    name = f"{source.platform}:{source.account}:{source.user_id}"
    # The API and the page hand on only what came with the gateway's own token, or its cookie; so
    # does whoever speaks as the operator into a chat of another platform.
    vouched = source.platform in ("api", "web") or source.author is Author.OPERATOR
    return Principal(id=PrincipalId(name), vouched=vouched)


class Authority:
    """Owns who is allowed by the configuration that is in force; `paired` are those who were let
    in besides. Each question is a look into a few sets: it is asked for every message."""

    def __init__(self, settings: Settings, *, paired: Container[PrincipalId] = ()) -> None:
        self._paired = paired
        self.follow(settings)

    def follow(self, settings: Settings) -> None:
        """Who is not allowed by these is turned away from now on."""
        self._operators: set[str] = set()
        self._users: set[str] = set()
        self._in_chat: dict[tuple[str, str, str], frozenset[str]] = {}
        for name, account, each in settings.every_account():
            operators = frozenset(each.operators) - {EVERYBODY}
            self._operators |= {f"{name}:{account}:{who}" for who in operators}
            self._users |= {f"{name}:{account}:{who}" for who in each.allow}
            for chat_id, chat in each.chats.items():
                if chat.allow:
                    self._in_chat[name, account, chat_id] = frozenset(chat.allow)
        self._listed = frozenset(settings.send.allow)

    def authorise(self, principal: Principal, action: Action, resource: Resource) -> None:
        """Returns, or raises `NotAllowed` with the key that would allow it."""
        if self.may(principal, action, resource):
            return
        place = _place(resource)
        if isinstance(resource, Elsewhere):
            to = f"{resource.to.platform}:{resource.to.chat_id}"
            raise NotAllowed(
                f"From here nothing may be sent to {to}: add {to!r} to send.allow in "
                "holdfast.toml to let agents."
            )
        key = "operators" if action in (Action.OPERATE, Action.DECIDE) else "allow"
        raise NotAllowed(
            f"{place.user_id!r} may not {action} on {place.platform}: add the id to "
            f"{_table(place)}.{key} in holdfast.toml to let them."
        )

    def may(self, principal: Principal, action: Action, resource: Resource) -> bool:
        if isinstance(resource, Elsewhere):
            # Whoever runs the gateway is no exception: it is their agent that asks, and not they.
            known = self.role(principal, resource.place) is not Role.STRANGER
            return known and (resource.near or self.listed(resource.to))
        owned = resource if isinstance(resource, Owned) else None
        role = self.role(principal, _place(resource))
        if role is Role.OPERATOR:
            return True
        if role is Role.STRANGER or action is Action.OPERATE:
            return False
        own = owned is not None and principal.id in owned.owners
        return own or action is not Action.DECIDE

    def role(self, principal: Principal, place: Source) -> Role:
        """Whoever may run the gateway may talk to it. Not the other way round, and to allow
        everybody makes an operator of nobody."""
        if principal.vouched or principal.id in self._operators:
            return Role.OPERATOR
        if principal.id in self._users or principal.id in self._paired:
            return Role.USER
        if f"{place.platform}:{place.account}:{EVERYBODY}" in self._users:
            return Role.USER
        here = self._in_chat.get((place.platform, place.account, place.chat_id), frozenset())
        return Role.USER if place.user_id in here or EVERYBODY in here else Role.STRANGER

    def listed(self, to: Address) -> bool:
        """Whether the configuration lets agents send to that chat."""
        chat = f"{to.platform}:{to.chat_id}"
        return chat in self._listed or f"{to.platform}:{EVERYBODY}" in self._listed

    def operates(self, source: Source) -> bool:
        """Whether whoever asks from there may run the gateway."""
        return self.may(principal_of(source), Action.OPERATE, source)


def _place(resource: Resource) -> Source:
    return resource if isinstance(resource, Source) else resource.place


def _table(place: Source) -> str:
    """Where holdfast.toml speaks of that account."""
    usual = place.account == DEFAULT_ACCOUNT
    name = f"platforms.{place.platform}"
    return name if usual else f"{name}.accounts.{place.account}"
