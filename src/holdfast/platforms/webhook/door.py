"""Webhooks as a door: what can be set about an account, its hooks and its receiver."""

import re
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.net import is_public, parse_ip
from holdfast.core.ports.door import AccountIdentity, PlatformPlugin, PluginContext
from holdfast.core.ports.protocols import Platform
from holdfast.core.ports.question import SetupQuestion
from holdfast.platforms.webhook.hook_settings import PLATFORM, HookSettings

_HOOK_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # it stands in an address


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
        voices = [each.user or name for name, each in self.hooks.items() if not each.platform]
        msgspec.structs.force_setattr(self, "allow", tuple(dict.fromkeys((*self.allow, *voices))))

    def _check_url(self) -> None:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError(f"url must begin with https:// and name a host, not {self.url!r}")
        if self.allow_private:
            return
        address = parse_ip(host)
        ours = f".{host}".rstrip(".").endswith(".localhost")
        if ours or (address is not None and not is_public(address)):
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
    from holdfast.platforms.webhook.check import check_account  # noqa: PLC0415 - imports an HTTP client

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
