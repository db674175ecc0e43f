"""Declares the XMPP platform: its settings, its setup questions, and how an account is opened.

Imports little: it is read whenever the configuration is checked.
"""

from ipaddress import ip_address
from typing import Annotated

import msgspec

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.errors import InvalidSettings
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import (
    AccountIdentity,
    PlatformPlugin,
    PluginContext,
    SetupQuestion,
)
from holdfast.core.text.translation import N_

_DEFAULT_PORT = 5222


class XmppSettings(PlatformSettings, frozen=True, kw_only=True):
    jid: str = ""  # the address of the account: "bot@example.org"
    password: str = ""  # a reference
    host: str = ""  # of its server; "": by the DNS records of the domain
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = _DEFAULT_PORT  # only with `host`
    tls: bool = True  # False: not encrypted, only for a server on this machine
    ca_file: str = ""  # certificate authority of the server; "": those of this machine
    resource: str = "holdfast"  # distinguishes this connection from others of the same account
    rooms: tuple[str, ...] = ()  # rooms to enter: "team@conference.example.org"
    nick: str = ""  # in rooms; "": the local part of the JID
    # Servers, besides its own, from which files are fetched at any address. Others must have a
    # public address.
    file_hosts: tuple[str, ...] = ()
    max_file_mb: Annotated[int, msgspec.Meta(ge=0, le=500)] = 25  # 0: no files

    @property
    def nickname(self) -> str:
        return self.nick or self.jid.partition("@")[0]

    def __post_init__(self) -> None:
        if not self.enabled:
            return
        if not _is_bare_jid(self.jid):
            raise InvalidSettings(
                "jid = {jid!r} is not the address of an account: write it as in jid "
                '= "bot@example.org", without a resource',
                jid=self.jid,
            )
        if not self.password:
            raise InvalidSettings(
                'password is missing: write password = "env:XMPP_PASSWORD" and set that '
                "variable in the environment or in .env"
            )
        for room in self.rooms:
            if not _is_bare_jid(room):
                raise InvalidSettings(
                    "rooms: {room!r} is not the address of a room, as in team@rooms.org", room=room
                )
        if not self.tls and not _is_loopback(self.host):
            raise InvalidSettings(
                "tls = false sends the password and every message in clear text: it is "
                'only allowed for a server on this machine, named by host = "127.0.0.1"'
            )


def _is_bare_jid(address: str) -> bool:
    name, at, domain = address.partition("@")
    return bool(name and at and domain) and not set("/@ ") & set(domain)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _open(context: PluginContext[XmppSettings]) -> Platform:
    from holdfast.platforms.xmpp.platform import (  # noqa: PLC0415 - imports an HTTP client
        XmppPlatform,
    )

    return XmppPlatform(
        context.secrets["password"],
        account=context.account,
        settings=context.settings,
        folder=context.folder,
        clock=context.clock,
        new_id=context.new_id,
    )


async def _check(context: PluginContext[XmppSettings]) -> AccountIdentity:
    from holdfast.platforms.xmpp.platform import check_account  # noqa: PLC0415 - imports slixmpp

    return await check_account(context)


PLUGIN = PlatformPlugin(
    name="xmpp",
    settings=XmppSettings,
    open=_open,
    identity=("jid",),
    if_shared=N_("Change the password of the account, and set the new one here alone."),
    setup_guide=N_(
        "Create an account for the bot at an XMPP server, with any client or, on your own "
        "server, as in: prosodyctl adduser bot@example.org. The server should archive messages "
        "(XEP-0313); most do."
    ),
    setup_questions=(
        SetupQuestion(
            key="jid", label=N_("The address of the account"), help=N_("As in bot@example.org.")
        ),
        SetupQuestion(
            key="password", label=N_("The password of the account"), variable="XMPP_PASSWORD"
        ),
        SetupQuestion(
            key="rooms",
            label=N_("Rooms to enter"),
            help=N_("Their addresses, as in team@conference.example.org."),
            optional=True,
        ),
    ),
    user_id_help=N_("your own address, as in ann@example.org"),
    check=_check,
)
