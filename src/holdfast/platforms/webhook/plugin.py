"""Declares the webhook platform: the settings of an account and of its hooks (who may post, and
what happens to a post)."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import DEFAULT_ACCOUNT, TOOLSETS, PlatformSettings
from holdfast.core.errors import InvalidSettings
from holdfast.core.net import is_public, parse_ip
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import (
    AccountIdentity,
    PlatformPlugin,
    PluginContext,
    SetupQuestion,
)
from holdfast.core.text.translation import N_
from holdfast.core.turns.subagent import DELEGATE_TOOL, INTERNAL_PLATFORM
from holdfast.platforms.webhook.template import Template, parse_template

PLATFORM = "webhook"
USER_AGENT = "Holdfast"  # the User-Agent of posts of a gateway
_SCHEDULE_TOOLSET = "schedule"  # the toolset of jobs
_OWNER_PLATFORMS = frozenset({"api", "web", INTERNAL_PLATFORM})  # all messages are the owner's
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


class SignatureScheme(StrEnum):
    """How a post proves its origin."""

    GITHUB = "github"  # HMAC of the body
    SLACK = "slack"  # HMAC of a timestamp and the body, in two headers
    STRIPE = "stripe"  # the same in one header
    # HMAC of an id, a timestamp and the body: https://www.standardwebhooks.com.
    STANDARD = "standard"
    BEARER = "bearer"  # the secret itself


SIGNATURE_HEADERS = {
    SignatureScheme.GITHUB: "X-Hub-Signature-256",
    SignatureScheme.SLACK: "X-Slack-Signature",
    SignatureScheme.STRIPE: "Stripe-Signature",
    SignatureScheme.STANDARD: "webhook-signature",
    SignatureScheme.BEARER: "Authorization",
}
_TIMESTAMP_HEADERS = {SignatureScheme.SLACK: "X-Slack-Request-Timestamp"}
_EVENT_TEMPLATES = {SignatureScheme.GITHUB: "{@X-GitHub-Event|}"}
# Of the header's name; the headers of id and timestamp differ in it.
_SIGNATURE_SUFFIX = "-signature"
_HOOK_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # it is part of a URL


class HookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[platforms.webhook.hooks.NAME]`."""

    secret: str = ""  # a reference: shared with the sender
    scheme: SignatureScheme = SignatureScheme.GITHUB
    header: str = ""  # contains the signature or the token; "": the scheme's own
    timestamp_header: str = ""  # "": the scheme's own
    # Seconds that a signed timestamp may differ from now.
    window: Annotated[float, msgspec.Meta(ge=1)] = 300
    id: str = ""  # a template for what identifies a delivery; "": the signed part
    event: str = ""  # a template for the kind of event; "": the scheme's own
    events: tuple[str, ...] = ()  # the accepted kinds; (): all
    template: str = "{*}"  # of the message text
    files: str = ""  # the field with files, each with name and data in base64; "": none
    content_types: tuple[str, ...] = (
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain",
    )
    max_kb: Annotated[int, msgspec.Meta(ge=1, le=8192)] = 1024  # of a body
    per_minute: Annotated[int, msgspec.Meta(ge=0)] = 60  # accepted posts; 0: no limit
    platform: str = ""  # where the message appears; "": in a chat of this account
    account: str = DEFAULT_ACCOUNT  # of that platform
    chat: str = ""  # "": the hook's name
    thread: str = ""  # a template: each value is a conversation of its own; "": none
    user: str = ""  # as whose message it counts; "": the hook's name
    toolsets: tuple[str, ...] | None = None  # None: as configured
    commands: bool = False  # whether a leading slash is a command

    @property
    def signature_header(self) -> str:
        return self.header or SIGNATURE_HEADERS[self.scheme]

    @property
    def time_header(self) -> str:
        if self.scheme is SignatureScheme.STANDARD:
            return self.timestamp_header or self._sibling_header("-timestamp")
        return self.timestamp_header or _TIMESTAMP_HEADERS.get(self.scheme, "")

    @property
    def id_header(self) -> str:
        """The header whose value is signed."""
        return self._sibling_header("-id") if self.scheme is SignatureScheme.STANDARD else ""

    @property
    def event_template(self) -> str:
        return self.event or _EVENT_TEMPLATES.get(self.scheme, "")

    def _sibling_header(self, ending: str) -> str:
        name = self.signature_header
        return name[: -len(_SIGNATURE_SUFFIX)] + ending

    def check(self) -> None:
        """Check what types cannot express. Raises `InvalidSettings`."""
        if not self.secret:
            raise InvalidSettings(
                'secret is missing: write secret = "env:NAME", set that variable in the '
                "environment or in .env, and configure the same secret at the sender"
            )
        if self.scheme is SignatureScheme.STANDARD and not _has_signature_suffix(
            self.signature_header
        ):
            raise InvalidSettings(
                "header must end with {suffix!r}, as {header} does",
                suffix=_SIGNATURE_SUFFIX,
                header=SIGNATURE_HEADERS[self.scheme],
            )
        self._check_templates()
        self._check_destination()
        self._check_rights()

    def _check_templates(self) -> None:
        for key, text in self._templates():
            try:
                template = parse_template(text)
            except InvalidSettings as error:
                raise InvalidSettings(
                    "{key} is not a valid template: {error}", key=key, error=error
                ) from None
            if header := self._secret_header_in(template):
                raise InvalidSettings(
                    "{key} uses the header {header}, whose value is secret", key=key, header=header
                )
            if key == "id" and template.header_names and self.scheme is not SignatureScheme.BEARER:
                raise InvalidSettings(
                    "id uses a header, which is not signed: a copied post with another "
                    "header would count as new. Remove id, or take it from the body"
                )
        if self.events and not self.event_template:
            raise InvalidSettings(
                'events needs event: a template for the kind of an event, as "{type}"'
            )

    def _templates(self) -> Iterator[tuple[str, str]]:
        named = {"template": self.template, "thread": self.thread, "id": self.id}
        yield from {**named, "event": self.event_template}.items()

    def _secret_header_in(self, template: Template) -> str:
        """A header in the template whose value must stay secret; "" if there is none."""
        hidden = {*_SECRET_HEADERS, self.signature_header.lower()}
        return next((name for name in template.header_names if name.lower() in hidden), "")

    def _check_destination(self) -> None:
        if self.platform in _OWNER_PLATFORMS:
            raise InvalidSettings(
                "platform may not be {platform}: all messages there count as messages of the owner",
                platform=self.platform,
            )
        if self.platform and not (self.chat and self.user):
            raise InvalidSettings(
                "platform needs chat and user: where the message appears, and as whose message"
            )

    def _check_rights(self) -> None:
        if self.toolsets is None:
            return
        unknown = sorted(set(self.toolsets) - set(TOOLSETS))
        if unknown:
            raise InvalidSettings(
                "toolsets has the unknown {name!r}; known are {known}",
                name=unknown[0],
                known=", ".join(TOOLSETS),
            )
        # Work that these tools start comes back later as a message without restrictions.
        if wide := {DELEGATE_TOOL, _SCHEDULE_TOOLSET} & set(self.toolsets):
            raise InvalidSettings(
                "toolsets may not have {name}: work that it starts could use all "
                "others. Remove it, or remove toolsets",
                name=min(wide),
            )
        if self.commands:
            raise InvalidSettings(
                "commands and toolsets exclude each other: work that commands start could "
                "use all toolsets"
            )


def _has_signature_suffix(header: str) -> bool:
    return header.lower().endswith(_SIGNATURE_SUFFIX) and len(header) > len(_SIGNATURE_SUFFIX)


class WebhookSettings(PlatformSettings, frozen=True, kw_only=True):
    hooks: dict[str, HookSettings] = msgspec.field(default_factory=dict)
    url: str = ""  # answers are posted to it; "": they are fetched
    secret: str = ""  # a reference: signs the answers
    idempotent: bool = True  # whether the receiver accepts one Idempotency-Key only once
    allow_private: bool = False  # whether it may be in this machine's network
    timeout: Annotated[float, msgspec.Meta(ge=1, le=300)] = 20  # seconds to wait for its response
    ping_every: Annotated[float, msgspec.Meta(ge=0)] = 60  # seconds; 0: never

    def __post_init__(self) -> None:
        if not self.enabled:
            return
        if not self.hooks and not self.url:
            raise InvalidSettings(
                "there is neither a hook nor a url: add a table "
                "[platforms.webhook.hooks.NAME] for each sender, or a url that answers are "
                "posted to"
            )
        for name, hook in self.hooks.items():
            _check_hook(name, hook)
        if self.url:
            self._check_url()
        # A hook with a secret needs no other permission.
        senders = [each.user or name for name, each in self.hooks.items() if not each.platform]
        msgspec.structs.force_setattr(self, "allow", tuple(dict.fromkeys((*self.allow, *senders))))

    def _check_url(self) -> None:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host:
            raise InvalidSettings(
                "url must begin with https:// and name a host, not {url!r}", url=self.url
            )
        if self.allow_private:
            return
        address = parse_ip(host)
        is_local = f".{host}".rstrip(".").endswith(".localhost")
        if is_local or (address is not None and not is_public(address)):
            raise InvalidSettings(
                "url leads into this machine's own network ({host}): if that is intended, "
                "set allow_private = true",
                host=host,
            )
        if parts.scheme == "http":
            raise InvalidSettings(
                "url must begin with https://, so that posts cannot be read on the way; "
                "inside your own network, set allow_private = true"
            )


def _check_hook(name: str, hook: HookSettings) -> None:
    if not _HOOK_NAME.fullmatch(name):
        raise InvalidSettings(
            "{name!r} cannot be the name of a hook: it is part of a URL, so use letters, "
            "digits, _ and -",
            name=name,
        )
    try:
        hook.check()
    except InvalidSettings as error:
        raise InvalidSettings("hooks.{name}: {error}", name=name, error=error) from None


def _open(context: PluginContext[WebhookSettings]) -> Platform:
    from holdfast.platforms.webhook.platform import (  # noqa: PLC0415 - imports an HTTP client
        WebhookPlatform,
    )

    return WebhookPlatform(
        context.secrets,
        account=context.account,
        settings=context.settings,
        clock=context.clock,
        new_id=context.new_id,
    )


async def _check(context: PluginContext[WebhookSettings]) -> AccountIdentity:
    from holdfast.platforms.webhook.platform import (  # noqa: PLC0415 - imports an HTTP client
        check_account,
    )

    return await check_account(context)


PLUGIN = PlatformPlugin(
    name=PLATFORM,
    settings=WebhookSettings,
    open=_open,
    identity=(),
    setup_guide=N_(
        "Programs post to a hook of this gateway, at the path /hooks/webhook/default/inbox of "
        "its URL. Its answers are posted to an endpoint of yours, if you have one. "
        "docs/webhook.md explains the hooks of GitHub and others."
    ),
    setup_questions=(
        SetupQuestion(
            key="hooks.inbox.secret",
            label=N_("The secret of the hook"),
            help=N_("Senders sign with it, as GitHub does. Leave it empty to generate one."),
            variable="WEBHOOK_INBOX_SECRET",
            generated=True,
        ),
        SetupQuestion(
            key="url",
            label=N_("The URL that answers are posted to"),
            help=N_("It begins with https://. Without one, read the answers on the page."),
            optional=True,
        ),
        SetupQuestion(
            key="secret",
            label=N_("The secret that answers are signed with"),
            help=N_("The receiver verifies by it that a post is ours."),
            optional=True,
            variable="WEBHOOK_SECRET",
        ),
    ),
    check=_check,
)
