"""Declares the IRC platform: its settings, its setup questions, and how an account is opened.

Imports little: it is read whenever the configuration is checked.
"""

import re
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr as set_attribute

from holdfast.core.config.settings import PlatformSettings, Port
from holdfast.core.errors import InvalidSettings
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import (
    AccountIdentity,
    PlatformPlugin,
    PluginContext,
    SetupQuestion,
)
from holdfast.core.text.translation import N_

TLS_PORT, PLAIN_PORT = 6697, 6667
# RFC 2812, 2.3.1. Networks differ in the maximum length, and refuse a nick that is too long.
_NICK = re.compile(r"[A-Za-z\[\]\\`_^{|}][A-Za-z0-9\[\]\\`_^{|}-]*")
_CHANNEL = re.compile(r"[#&+!][^\s,\x00\x07]+")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class IdentifyBy(StrEnum):
    """How a user is identified."""

    ACCOUNTS = "accounts"  # the account of a user who is logged in, otherwise nick!user@host
    NICKS = "nicks"  # for networks where no user can take the nick of another


class KeyedChannel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[platforms.irc.locked.CHANNEL]`: a channel that needs a key to join."""

    key: str = ""  # a reference


class IrcSettings(PlatformSettings, frozen=True, kw_only=True):
    host: str = ""
    port: Port = 0  # 0: 6697, or 6667 without TLS
    tls: bool = True
    ca_file: str = ""  # the certificate authority of the server, if it is not a public one
    nick: str = "holdfast"
    channels: tuple[str, ...] = ()  # to join, and to rejoin
    locked: dict[str, KeyedChannel] = msgspec.field(default_factory=dict)  # the same, with a key
    username: str = ""  # of the account that the password belongs to; "": the nick
    password: str = ""  # a reference: of that account, for SASL
    server_password: str = ""  # a reference: for the server itself, or a bouncer
    identify_by: IdentifyBy = IdentifyBy.ACCOUNTS
    # The flood limit of the network: lines at once, and then seconds per line.
    burst: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    line_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 2.0

    def __post_init__(self) -> None:
        if not self.enabled:
            return
        if not self.host:
            raise InvalidSettings(
                'host is missing: name the server, as in host = "irc.libera.chat"'
            )
        if not _NICK.fullmatch(self.nick):
            raise InvalidSettings(
                "nick = {nick!r} is not a valid nick: use letters, digits and "
                "-_[]|^`, and begin with neither a digit nor a dash",
                nick=self.nick,
            )
        for channel in self.all_channels:
            if not _CHANNEL.fullmatch(channel):
                raise InvalidSettings(
                    "{channel!r} is not a channel: its name must begin with # and have no "
                    "spaces or commas",
                    channel=channel,
                )
        if self.ca_file and not self.ca_file.startswith(("/", "~")):
            raise InvalidSettings(
                "ca_file = {file!r} is not an absolute path: it must begin with / or ~",
                file=self.ca_file,
            )
        if (self.password or self.server_password) and not self.tls and self.host not in _LOOPBACK:
            raise InvalidSettings(
                "without tls the password would be sent in clear text: set tls = true"
            )
        self._check_case()
        self._lowercase_channels()

    def _check_case(self) -> None:
        """Servers ignore case and report nicks in either, so nicks are lowercased before they are
        compared with the configuration. Accounts are compared as registered."""
        names_by_key = {
            "allow": self.allow,
            "operators": self.operators,
            "chats": tuple(self.chats),
        }
        for key, names in names_by_key.items():
            for name in names:
                folds = self.identify_by is IdentifyBy.NICKS or "!" in name
                if folds and not _is_channel(name) and name != (lowered := _lowercase(name)):
                    raise InvalidSettings(
                        "{key}: write {lowered!r} instead of {name!r}",
                        key=key,
                        lowered=lowered,
                        name=name,
                    )

    def _lowercase_channels(self) -> None:
        """Lowercase the names of channels: `#Team` is `#team` on every network. Which other
        characters are equal depends on the server."""
        chats = {_lowercase(name) if _is_channel(name) else name: name for name in self.chats}
        if len(chats) < len(self.chats):
            twice = sorted(set(self.chats) - set(chats.values()))
            raise InvalidSettings(
                "chats: {name!r} occurs twice, in upper and lower case", name=twice[0]
            )
        set_attribute(self, "chats", {lowered: self.chats[name] for lowered, name in chats.items()})
        if _is_channel(self.home.partition("/")[0]):
            set_attribute(self, "home", _lowercase(self.home))

    @property
    def all_channels(self) -> tuple[str, ...]:
        return (*self.channels, *self.locked)

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port or (TLS_PORT if self.tls else PLAIN_PORT)


def _is_channel(name: str) -> bool:
    return bool(_CHANNEL.fullmatch(name))


def _lowercase(name: str) -> str:
    return "".join(each.lower() if each.isascii() else each for each in name)


def _open(context: PluginContext[IrcSettings]) -> Platform:
    from holdfast.platforms.irc.platform import IrcPlatform  # noqa: PLC0415 - imports TLS

    return IrcPlatform(
        context.secrets,
        account=context.account,
        settings=context.settings,
        folder=context.folder,
        clock=context.clock,
        new_id=context.new_id,
    )


async def _check(context: PluginContext[IrcSettings]) -> AccountIdentity:
    from holdfast.platforms.irc.platform import check_account  # noqa: PLC0415 - imports TLS

    return await check_account(context)


PLUGIN = PlatformPlugin(
    name="irc",
    settings=IrcSettings,
    open=_open,
    identity=("host", "nick"),
    setup_guide=N_(
        "Choose a nick for the bot. If the network has accounts, register one for it (on most "
        "networks, /msg NickServ help register explains how)."
    ),
    setup_questions=(
        SetupQuestion(
            key="host",
            label=N_("The server"),
            help=N_("Its name, such as irc.libera.chat; the connection uses TLS."),
        ),
        SetupQuestion(key="nick", label=N_("The nick of the bot"), default="holdfast"),
        SetupQuestion(
            key="channels",
            label=N_("The channels to join"),
            help=N_("With their #, separated by commas."),
            optional=True,
        ),
        SetupQuestion(
            key="username",
            label=N_("The account of the bot on that network"),
            help=N_("As registered with NickServ; leave it empty if the bot has none."),
            optional=True,
        ),
        SetupQuestion(
            key="password",
            label=N_("The password of that account"),
            help=N_("It is sent to the server by SASL only."),
            optional=True,
        ),
    ),
    user_id_help=N_(
        "your account on that network; without one, nick!user@host as shown by /whois, in "
        "lower case"
    ),
    check=_check,
)
