"""Declares the Matrix platform: its settings, its setup questions, and how an account is opened.

Imports little: it is read whenever the configuration is checked.
"""

import re
from typing import Annotated
from urllib.parse import urlsplit

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

_USER_ID = re.compile(r"@[^:\s]+:\S+")


class MatrixSettings(PlatformSettings, frozen=True, kw_only=True):
    homeserver: str = ""  # the URL to which clients of the account connect
    user: str = ""  # the full user id: "@bot:example.org"
    password: str = ""  # a reference
    token: str = ""  # a reference: an access token, instead of the password
    encryption: bool = True  # end-to-end encrypted rooms, if the extra is installed
    read_receipts: bool = True  # shows senders that their messages were accepted
    sync_seconds: Annotated[int, msgspec.Meta(ge=1, le=120)] = 30
    max_file_mb: Annotated[int, msgspec.Meta(ge=0, le=500)] = 25

    def __post_init__(self) -> None:
        if not self.enabled:
            return
        if not _USER_ID.fullmatch(self.user):
            raise InvalidSettings(
                'user = {user!r} is not a full user id: write it as in user = "@bot:example.org"',
                user=self.user,
            )
        if urlsplit(self.homeserver).scheme not in ("https", "http"):
            raise InvalidSettings(
                "homeserver = {url!r} is not a URL: write the one that a "
                'client logs in to, as in homeserver = "https://matrix.example.org"',
                url=self.homeserver,
            )
        self._check_credentials()

    def _check_credentials(self) -> None:
        if not self.password and not self.token:
            raise InvalidSettings(
                'password is missing: write password = "env:MATRIX_PASSWORD" and set that '
                "variable in the environment or in .env; or set token to an access token"
            )
        if self.password and self.token:
            raise InvalidSettings(
                "password and token exclude each other: with a password, the gateway logs "
                "in itself and keeps its device. Remove one of them"
            )


def _open(context: PluginContext[MatrixSettings]) -> Platform:
    from holdfast.platforms.matrix.platform import (  # noqa: PLC0415 - imports an HTTP client
        MatrixPlatform,
    )

    return MatrixPlatform(context)


async def _check(context: PluginContext[MatrixSettings]) -> AccountIdentity:
    from holdfast.platforms.matrix.platform import (  # noqa: PLC0415 - imports an HTTP client
        check_account,
    )

    return await check_account(context)


PLUGIN = PlatformPlugin(
    name="matrix",
    settings=MatrixSettings,
    open=_open,
    identity=("user",),
    if_shared=N_(
        "Log out the other device (in Element: Settings, Sessions), and change the password, or "
        "get a new token for this one."
    ),
    own_common_keys=(
        "allow",
        "operators",
        "chats",
        "pairing",
    ),  # for invitations
    setup_guide=N_(
        "Register a separate account for the gateway at any homeserver, with a client such as "
        "https://app.element.io or through the operator of the server; then log that client out."
    ),
    setup_questions=(
        SetupQuestion(
            key="homeserver",
            label=N_("The URL of the homeserver"),
            help=N_("The URL that clients log in to, such as https://matrix.example.org."),
            default="https://matrix-client.matrix.org",
        ),
        SetupQuestion(
            key="user",
            label=N_("The user id of the account"),
            help=N_("The full id, as in @bot:example.org."),
        ),
        SetupQuestion(
            key="password",
            label=N_("Its password"),
            help=N_("Leave it empty if you have an access token instead."),
            optional=True,
            variable="MATRIX_PASSWORD",
        ),
        SetupQuestion(
            key="token",
            label=N_("Its access token"),
            help=N_("A token that no client uses: docs/matrix.md explains how to get it."),
            skip_if="password",
            variable="MATRIX_TOKEN",
        ),
    ),
    user_id_help=N_("your full user id in Matrix, as in @ann:example.org"),
    check=_check,
)
