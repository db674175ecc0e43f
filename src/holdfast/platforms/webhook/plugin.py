"""Declares the webhook platform: the settings of an account and of its hooks (who may post, what
becomes of a post, and where)."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import DEFAULT_ACCOUNT, TOOLSETS, PlatformSettings
from holdfast.core.net import is_public, parse_ip
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import (
    AccountIdentity,
    PlatformPlugin,
    PluginContext,
    SetupQuestion,
)
from holdfast.core.turns.subagent import DELEGATE_TOOL, INTERNAL_PLATFORM
from holdfast.platforms.webhook.template import Template, parse_template

PLATFORM = "webhook"
USER_AGENT = "Holdfast"  # what a gateway calls itself where it posts
_SCHEDULE_TOOLSET = "schedule"  # the toolset of jobs
_OWNER_PLATFORMS = frozenset({"api", "web", INTERNAL_PLATFORM})  # all messages are the owner's
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


class SignatureScheme(StrEnum):
    """How a post proves where it comes from."""

    GITHUB = "github"  # HMAC of the body
    SLACK = "slack"  # HMAC of a time and the body, in two headers
    STRIPE = "stripe"  # the same in one header
    STANDARD = "standard"  # HMAC of an id, a time and the body: https://www.standardwebhooks.com
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
_SIGNATURE_SUFFIX = "-signature"  # of the header's name; those of id and time differ in it
_HOOK_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # it is part of a URL


class HookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[platforms.webhook.hooks.NAME]`."""

    secret: str = ""  # a reference: shared with whoever posts
    scheme: SignatureScheme = SignatureScheme.GITHUB
    header: str = ""  # that has the signature or the token; "": the scheme's own
    timestamp_header: str = ""  # "": the scheme's own
    window: Annotated[float, msgspec.Meta(ge=1)] = 300  # seconds that a signed time may be off
    id: str = ""  # a template: what tells one delivery from another; "": what is signed
    event: str = ""  # a template: what kind of event it is; "": the scheme's own
    events: tuple[str, ...] = ()  # the kinds that are taken; (): all
    template: str = "{*}"  # of what is said
    files: str = ""  # the field that has files, each with name and data in base64; "": none
    content_types: tuple[str, ...] = (
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain",
    )
    max_kb: Annotated[int, msgspec.Meta(ge=1, le=8192)] = 1024  # of a body
    per_minute: Annotated[int, msgspec.Meta(ge=0)] = 60  # posts that are taken; 0: no limit
    platform: str = ""  # where it is said; "": here
    account: str = DEFAULT_ACCOUNT  # of that platform
    chat: str = ""  # "": the hook's name
    thread: str = ""  # a template: a conversation of its own for each; "": none
    user: str = ""  # whose word it is; "": the hook's name
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
        """The one whose value is signed."""
        return self._sibling_header("-id") if self.scheme is SignatureScheme.STANDARD else ""

    @property
    def event_template(self) -> str:
        return self.event or _EVENT_TEMPLATES.get(self.scheme, "")

    def _sibling_header(self, ending: str) -> str:
        name = self.signature_header
        return name[: -len(_SIGNATURE_SUFFIX)] + ending

    def check(self) -> None:
        """Raises `ValueError` for what no type can say."""
        if not self.secret:
            raise ValueError(
                'secret is missing: write secret = "env:NAME", put it into the environment or '
                ".env, and give the same to whoever posts"
            )
        if self.scheme is SignatureScheme.STANDARD and not _has_signature_suffix(
            self.signature_header
        ):
            raise ValueError(
                f"header must end with {_SIGNATURE_SUFFIX!r}, as "
                f"{SIGNATURE_HEADERS[self.scheme]} does"
            )
        self._check_templates()
        self._check_destination()
        self._check_rights()

    def _check_templates(self) -> None:
        for key, text in self._templates():
            try:
                template = parse_template(text)
            except ValueError as error:
                raise ValueError(f"{key} is no template: {error}") from None
            if header := self._secret_header_in(template):
                raise ValueError(f"{key} names the header {header}, which proves who posts")
            if key == "id" and template.header_names and self.scheme is not SignatureScheme.BEARER:
                raise ValueError(
                    "id names a header, which is not signed: a copy of a post with another one "
                    "would count as new. Leave id out, or take it from the body"
                )
        if self.events and not self.event_template:
            raise ValueError('events needs event: where the kind of an event stands, as "{type}"')

    def _templates(self) -> Iterator[tuple[str, str]]:
        named = {"template": self.template, "thread": self.thread, "id": self.id}
        yield from {**named, "event": self.event_template}.items()

    def _secret_header_in(self, template: Template) -> str:
        """A header in it whose value must stay secret; "": none."""
        hidden = {*_SECRET_HEADERS, self.signature_header.lower()}
        return next((name for name in template.header_names if name.lower() in hidden), "")

    def _check_destination(self) -> None:
        if self.platform in _OWNER_PLATFORMS:
            raise ValueError(
                f"platform may not be {self.platform}: whatever is said there is the owner's word"
            )
        if self.platform and not (self.chat and self.user):
            raise ValueError("platform needs chat and user: where it is said, and as whose word")

    def _check_rights(self) -> None:
        if self.toolsets is None:
            return
        unknown = sorted(set(self.toolsets) - set(TOOLSETS))
        if unknown:
            raise ValueError(f"toolsets has {unknown[0]!r}; there are {', '.join(TOOLSETS)}")
        # What these begin comes back later, as a message that is confined to nothing.
        if wide := {DELEGATE_TOOL, _SCHEDULE_TOOLSET} & set(self.toolsets):
            raise ValueError(
                f"toolsets may not have {min(wide)}: what it begins would have all the others. "
                "Take it out, or leave toolsets out"
            )
        if self.commands:
            raise ValueError(
                "commands and toolsets exclude each other: commands begin what has all toolsets"
            )


def _has_signature_suffix(header: str) -> bool:
    return header.lower().endswith(_SIGNATURE_SUFFIX) and len(header) > len(_SIGNATURE_SUFFIX)


class WebhookSettings(PlatformSettings, frozen=True, kw_only=True):
    hooks: dict[str, HookSettings] = msgspec.field(default_factory=dict)
    url: str = ""  # that answers are posted to; "": they are fetched
    secret: str = ""  # a reference: what they are signed with
    idempotent: bool = True  # whether the receiver takes one Idempotency-Key once
    allow_private: bool = False  # whether it may be in this machine's own network
    timeout: Annotated[float, msgspec.Meta(ge=1, le=300)] = 20  # seconds for an answer of it
    ping_every: Annotated[float, msgspec.Meta(ge=0)] = 60  # seconds; 0: never

    def __post_init__(self) -> None:
        if not self.enabled:
            return
        if not self.hooks and not self.url:
            raise ValueError(
                "there is neither a hook nor a url: write a table [platforms.webhook.hooks.NAME] "
                "for whoever posts here, or a url that answers are posted to"
            )
        for name, hook in self.hooks.items():
            _check_hook(name, hook)
        if self.url:
            self._check_url()
        # A hook with a secret is let in by being there: its table is the permission.
        senders = [each.user or name for name, each in self.hooks.items() if not each.platform]
        msgspec.structs.force_setattr(self, "allow", tuple(dict.fromkeys((*self.allow, *senders))))

    def _check_url(self) -> None:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError(f"url must begin with https:// and name a host, not {self.url!r}")
        if self.allow_private:
            return
        address = parse_ip(host)
        is_local = f".{host}".rstrip(".").endswith(".localhost")
        if is_local or (address is not None and not is_public(address)):
            raise ValueError(
                f"url leads into this machine's own network ({host}): write allow_private = true "
                "if that is meant"
            )
        if parts.scheme == "http":
            raise ValueError(
                "url must begin with https://, so that nobody on the way reads what is posted; "
                "inside your own network, write allow_private = true"
            )


def _check_hook(name: str, hook: HookSettings) -> None:
    if not _HOOK_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be the name of a hook: letters, digits, _ and - can, for it stands "
            "in an address"
        )
    try:
        hook.check()
    except ValueError as error:
        raise ValueError(f"hooks.{name}: {error}") from None


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
    setup_guide=(
        "Programs post to a hook of this gateway, at /hooks/webhook/default/inbox of its address, "
        "and its answers are posted to an address of yours, if you have one. docs/webhook.md has "
        "the hooks of GitHub and others."
    ),
    setup_questions=(
        SetupQuestion(
            key="hooks.inbox.secret",
            label="The secret of the hook",
            help="Whoever posts signs with it, as GitHub does. Leave it empty to have one made.",
            variable="WEBHOOK_INBOX_SECRET",
            generated=True,
        ),
        SetupQuestion(
            key="url",
            label="The address that answers are posted to",
            help="It begins with https://. Without one, answers are read on the page.",
            optional=True,
        ),
        SetupQuestion(
            key="secret",
            label="The secret that answers are signed with",
            help="The receiver looks by it whether a post is ours.",
            optional=True,
            variable="WEBHOOK_SECRET",
        ),
    ),
    check=_check,
)
