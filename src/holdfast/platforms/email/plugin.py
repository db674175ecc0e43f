"""Declares the e-mail platform: its settings, its setup questions, and how a mailbox is opened.

Imports little: it is read whenever the configuration is checked.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import PlatformSettings, Port
from holdfast.core.errors import InvalidSettings
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import (
    AccountIdentity,
    PlatformPlugin,
    PluginContext,
    SetupQuestion,
)
from holdfast.core.text.translation import N_

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MAX_IDLE_SECONDS = 29 * 60  # seconds: RFC 2177, a server may hang up after half an hour


class ConnectionSecurity(StrEnum):
    """How a connection to a server is encrypted."""

    TLS = "tls"  # from its first byte
    STARTTLS = "starttls"  # before the login
    PLAIN = "plain"


class SentCopies(StrEnum):
    """Whether the server or we store copies of sent mails in the folder of sent mail."""

    AUTO = "auto"  # Gmail does it itself; elsewhere we do, if there is such a folder
    SERVER = "server"  # a mail that is not there was not sent, so deliveries can be looked up
    OURS = "ours"
    NONE = "none"


class EmailSettings(PlatformSettings, frozen=True, kw_only=True):
    address: str = ""
    name: str = ""  # display name
    aliases: tuple[str, ...] = ()  # further addresses of this mailbox
    username: str = ""  # "": the address
    password: str = ""  # a reference
    token_url: str = ""  # of the OAuth provider, instead of a password
    client_id: str = ""  # of the OAuth app
    client_secret: str = ""  # a reference; "": none
    refresh_token: str = ""  # a reference; "": client credentials
    scope: str = ""  # of tokens; "": the granted one
    imap_host: str = ""
    imap_port: Port = 0  # 0: the default
    imap_security: ConnectionSecurity = ConnectionSecurity.TLS
    smtp_host: str = ""
    smtp_port: Port = 0
    smtp_security: ConnectionSecurity = ConnectionSecurity.TLS
    smtp_login: bool = True  # False: the server accepts us without a password
    plaintext: bool = False  # True: allow "plain" to other machines
    ca_file: str = ""  # certificate authority of the servers; "": those of the system
    folder: str = "INBOX"
    copies: SentCopies = SentCopies.AUTO
    authserv_id: str = ""  # the server whose Authentication-Results are trusted
    trust_from: bool = False  # True: trust every From header
    hourly_limit: Annotated[int, msgspec.Meta(ge=1)] = 30  # mails per sender
    idle_seconds: Annotated[float, msgspec.Meta(gt=0, le=_MAX_IDLE_SECONDS)] = 240
    max_mail_mb: Annotated[int, msgspec.Meta(ge=1, le=150)] = 25
    busy_notices: bool = False
    restart_notices: bool = False
    # A pairing code would tell spammers that the mailbox is read.
    pairing: bool = False
    busy_mode: BusyMode | None = BusyMode.QUEUE

    def __post_init__(self) -> None:
        for problem in self._problems() if self.enabled else ():
            raise problem

    def effective_imap_port(self) -> int:
        return self.imap_port or (993 if self.imap_security is ConnectionSecurity.TLS else 143)

    def effective_smtp_port(self) -> int:
        usual = {
            ConnectionSecurity.TLS: 465,
            ConnectionSecurity.STARTTLS: 587,
            ConnectionSecurity.PLAIN: 25,
        }
        return self.smtp_port or usual[self.smtp_security]

    def _problems(self) -> Iterator[InvalidSettings]:
        yield from self._missing_keys()
        for key, host, security in (
            ("imap_security", self.imap_host, self.imap_security),
            ("smtp_security", self.smtp_host, self.smtp_security),
        ):
            if security is ConnectionSecurity.PLAIN and not (self.plaintext or host in _LOOPBACK):
                yield InvalidSettings(
                    '{key} = "plain" would send mail and password in clear text to '
                    '{host}: set it to "tls" or "starttls", or set plaintext = true',
                    key=key,
                    host=host,
                )
        yield from self._uppercase_addresses()

    def _missing_keys(self) -> Iterator[InvalidSettings]:
        if "@" not in self.address:
            yield InvalidSettings(
                'address is missing: the address of the mailbox, as "bot@example.org"'
            )
        yield from self._credential_problems()
        for key in ("imap_host", "smtp_host"):
            if not {"imap_host": self.imap_host, "smtp_host": self.smtp_host}[key]:
                yield InvalidSettings(
                    "{key} is missing: see the help pages of your provider", key=key
                )
        if not self.authserv_id and not self.trust_from:
            yield InvalidSettings(
                "authserv_id is missing: anyone can forge a From address. Set it to the "
                "first word of the header Authentication-Results that your provider adds "
                'to incoming mail (as "mx.google.com"), or set trust_from = true to trust '
                "every From"
            )

    def _credential_problems(self) -> Iterator[InvalidSettings]:
        if not self.password and not self.token_url:
            yield InvalidSettings(
                'password is missing: write password = "env:EMAIL_PASSWORD" and set that '
                "variable in the environment or in .env. Many providers require an app "
                "password; for those that no longer accept passwords, such as Microsoft, "
                "set token_url"
            )
        if not self.token_url:
            return
        if self.password:
            yield InvalidSettings("password and token_url exclude each other: remove one of them")
        url = urlsplit(self.token_url)
        if url.scheme != "https" and not (url.scheme == "http" and url.hostname in _LOOPBACK):
            yield InvalidSettings("token_url: write the whole URL, with https://")
        if not self.client_id:
            yield InvalidSettings(
                "client_id is missing: copy it from the registration of the app at the provider"
            )
        if not (self.refresh_token or self.client_secret):
            yield InvalidSettings(
                "refresh_token is missing: docs/email.md explains how to get one; an app "
                "that may read the mailbox in its own name needs a client_secret instead"
            )

    def _uppercase_addresses(self) -> Iterator[InvalidSettings]:
        """Addresses are compared in lowercase."""
        named = {
            "allow": self.allow,
            "operators": self.operators,
            "aliases": self.aliases,
            "chats": tuple(self.chats),
            "address": (self.address,),
        }
        for key, addresses in named.items():
            for each in addresses:
                if each != each.lower():
                    yield InvalidSettings(
                        "{key}: write {lowered!r} instead of {name!r}, in lower case",
                        key=key,
                        lowered=each.lower(),
                        name=each,
                    )


def _open(context: PluginContext[EmailSettings]) -> Platform:
    from holdfast.platforms.email.platform import (  # noqa: PLC0415 - needed by an account only
        EmailPlatform,
    )

    return EmailPlatform(context)


async def _check(context: PluginContext[EmailSettings]) -> AccountIdentity:
    from holdfast.platforms.email.platform import check_account  # noqa: PLC0415 - needed by setup only

    return await check_account(context)


# Skipped if there is a password.
OAUTH_QUESTIONS = (
    SetupQuestion(
        key="token_url",
        label=N_("The URL that issues tokens"),
        help=N_(
            "Microsoft: https://login.microsoftonline.com/TENANT/oauth2/v2.0/token; Google: "
            "https://oauth2.googleapis.com/token. To use a password instead, give "
            "password=env:NAME."
        ),
        skip_if="password",
    ),
    SetupQuestion(
        key="client_id",
        label=N_("The id of the app"),
        help=N_("As shown in the registration of the app at the provider."),
        skip_if="password",
    ),
    SetupQuestion(
        key="client_secret",
        label=N_("The secret of the app"),
        help=N_("Leave it empty if it has none."),
        variable="EMAIL_CLIENT_SECRET",
        optional=True,
        skip_if="password",
    ),
    SetupQuestion(
        key="refresh_token",
        label=N_("The refresh token"),
        help=N_("Leave it empty if the app may read the mailbox in its own name."),
        variable="EMAIL_REFRESH_TOKEN",
        optional=True,
        skip_if="password",
    ),
    SetupQuestion(
        key="scope",
        label=N_("The scope of tokens"),
        help=N_("For an app of Microsoft in its own name: https://outlook.office365.com/.default."),
        optional=True,
        skip_if="password",
    ),
)

PLUGIN = PlatformPlugin(
    name="email",
    settings=EmailSettings,
    open=_open,
    identity=("imap_host", "address", "folder"),
    own_common_keys=("pairing",),  # its default differs from that of other platforms
    setup_guide=N_(
        "Create a separate mailbox for the agent: it answers every mail of the people whom you "
        "allow. Many providers require an app password (Gmail: "
        "https://myaccount.google.com/apppasswords). Microsoft 365 no longer accepts passwords: "
        "there the agent logs in by OAuth, as an app that you register (docs/email.md)."
    ),
    setup_questions=(
        SetupQuestion(
            key="address", label=N_("The address of the mailbox"), help=N_("As bot@example.org.")
        ),
        SetupQuestion(
            key="password",
            label=N_("Its password"),
            help=N_("An app password, if the provider has such. Leave it empty for OAuth."),
            variable="EMAIL_PASSWORD",
            optional=True,
        ),
        *OAUTH_QUESTIONS,
        SetupQuestion(
            key="imap_host", label=N_("The IMAP server"), help=N_("As imap.example.org, with TLS.")
        ),
        SetupQuestion(
            key="smtp_host", label=N_("The SMTP server"), help=N_("As smtp.example.org, with TLS.")
        ),
        SetupQuestion(
            key="authserv_id",
            label=N_("The server that checks senders"),
            help=N_(
                "Anyone can forge a From address. Your provider checks it and records the result "
                "in a header of each mail, Authentication-Results. Enter the first word of that "
                "header, such as mx.google.com; the source of a received mail shows it."
            ),
        ),
    ),
    user_id_help=N_("your e-mail address, in lower case"),
    check=_check,
)
