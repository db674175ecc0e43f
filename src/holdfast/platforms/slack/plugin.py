"""Declares the Slack platform: its settings, its setup questions, and how an account is opened.

Imports little: it is read whenever the configuration is checked. The HTTP client is imported by
`platform.py`.
"""

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

DEFAULT_BASE_URL = "https://slack.com/api"


class SlackSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference: the app's bot token, "xoxb-…"
    app_token: str = ""  # a reference: for Socket Mode, "xapp-…"
    signing_secret: str = ""  # a reference: if Slack posts its events, instead of Socket Mode
    base_url: str = DEFAULT_BASE_URL
    threads: bool = True  # in a channel, a message to the bot opens a thread
    max_file_mb: Annotated[int, msgspec.Meta(ge=0, le=1000)] = (
        50  # of one file; 0: files are ignored
    )

    def __post_init__(self) -> None:
        if not self.enabled:
            return
        if not self.token:
            raise InvalidSettings(
                "token is missing: copy it from OAuth & Permissions of the app "
                '(https://api.slack.com/apps), write token = "env:SLACK_BOT_TOKEN" and set '
                "that variable in the environment or in .env"
            )
        if not self.app_token and not self.signing_secret:
            raise InvalidSettings(
                "app_token is missing: create one with the scope connections:write under "
                "Basic Information of the app; or set signing_secret if Slack posts its "
                "events over HTTP"
            )
        if self.app_token and self.signing_secret:
            raise InvalidSettings(
                "app_token and signing_secret exclude each other: app_token receives "
                "events over a socket, signing_secret over HTTP. Remove one of them"
            )


def _open(context: PluginContext[SlackSettings]) -> Platform:
    from holdfast.platforms.slack.platform import (  # noqa: PLC0415 - imports an HTTP client
        SlackPlatform,
    )

    return SlackPlatform(
        context.secrets,
        account=context.account,
        settings=context.settings,
        folder=context.folder,
        clock=context.clock,
    )


async def _check(context: PluginContext[SlackSettings]) -> AccountIdentity:
    from holdfast.platforms.slack.platform import (  # noqa: PLC0415 - imports an HTTP client
        check_account,
    )

    return await check_account(context)


PLUGIN = PlatformPlugin(
    name="slack",
    settings=SlackSettings,
    open=_open,
    setup_guide=N_(
        "Open https://api.slack.com/apps, choose Create New App, From a manifest, and paste "
        "the manifest from docs/slack.md; then choose Install to Workspace."
    ),
    setup_questions=(
        SetupQuestion(
            key="token",
            label=N_("The token of the app's bot"),
            help=N_("The Bot User OAuth Token under OAuth & Permissions; it begins with xoxb-."),
            variable="SLACK_BOT_TOKEN",
        ),
        SetupQuestion(
            key="app_token",
            label=N_("The token for Socket Mode"),
            help=N_(
                "An App-Level Token with the scope connections:write, under Basic Information; it "
                "begins with xapp-. Leave it empty if Slack posts its events to you over HTTP."
            ),
            optional=True,
            variable="SLACK_APP_TOKEN",
        ),
        SetupQuestion(
            key="signing_secret",
            label=N_("The signing secret"),
            help=N_("Under Basic Information; it proves that a request comes from Slack."),
            skip_if="app_token",
            variable="SLACK_SIGNING_SECRET",
        ),
    ),
    user_id_help=N_("your member ID (in your profile, under the three dots)"),
    check=_check,
)
