"""A door as it is declared: which settings it has, and how an account of it is opened."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.question import SetupQuestion
from holdfast.core.secret import Secret

if TYPE_CHECKING:  # every command that reads the settings reads this, and needs none of those
    from holdfast.core.ports.protocols import Clock, IdFactory, Platform

PLUGIN_ENTRY_POINTS = (
    "holdfast.platforms"  # the group of entry points by which installed doors are found
)

# Where the doors of this package declare themselves. Read only for a name that somebody has
# written into the configuration: a door costs nothing until then.
BUILT_IN_PLUGINS: Mapping[str, str] = {
    "api": "holdfast.platforms.api.plugin:DOOR",
    "web": "holdfast.platforms.web.plugin:DOOR",
    "simulated": "holdfast.testing.simulated.plugin:DOOR",
    "telegram": "holdfast.platforms.telegram.plugin:DOOR",
    "discord": "holdfast.platforms.discord.plugin:DOOR",
    "slack": "holdfast.platforms.slack.plugin:DOOR",
    "matrix": "holdfast.platforms.matrix.plugin:DOOR",
    "email": "holdfast.platforms.email.plugin:DOOR",
    "xmpp": "holdfast.platforms.xmpp.plugin:DOOR",
    "irc": "holdfast.platforms.irc.plugin:DOOR",
    "webhook": "holdfast.platforms.webhook.door:DOOR",
}

S = TypeVar("S", bound=PlatformSettings)


class PluginContext(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """What one account of a platform is opened with."""

    account: str
    settings: S
    # What the references in the settings stand for, by the path of the key in the account's own
    # table: "token", "hooks.build.secret". One whose key is empty is not there.
    secrets: Mapping[str, Secret]
    folder: Path  # its own place in the home; nobody has made it yet
    clock: "Clock"
    new_id: "IdFactory"


class AccountIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the vendor of an account says of it."""

    name: str  # as people there call it: "@my_bot", "bot@example.org"
    chat_link: str = ""  # a link that opens a chat with it
    # What it was not granted and could use, each with what is missing without it and what to do.
    missing_grants: tuple[str, ...] = ()


class PlatformPlugin(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """Declared as a constant in a file that imports little: it is read to check the settings,
    also of accounts that are not enabled. What the door needs to work, `open` imports.

    `settings` extends `PlatformSettings` by keys of its own. A key whose name ends in `token`,
    `key`, `secret` or `password` holds a reference to a secret. What types cannot say is checked
    in `__post_init__`, which raises `ValueError`.
    """

    name: str
    settings: type[S]
    # Makes the account and connects nothing. None: the process makes it itself, from more than
    # its settings, and it is there without being configured.
    open: "Callable[[PluginContext[S]], Platform] | None"
    # The keys that say together which account of the vendor this is. While one gateway of this
    # machine has it, no other takes it. Empty, or all of them unset: it may be shared.
    identity: tuple[str, ...] = ("token",)
    # Of the keys that every account has, those that this door reads itself: an account whose own
    # changes is connected anew. All others the gateway reads, and a change disturbs no connection.
    own_common_keys: tuple[str, ...] = ()
    # What is to be done at the vendor before there is anything to answer, in sentences; and what
    # `holdfast setup` asks then, in this order. Keys that few people change are not asked for.
    setup_guide: str = ""
    setup_questions: tuple[SetupQuestion, ...] = ()
    # How `allow` names a person there, and where one finds that: "the number of your account
    # (@userinfobot tells it)". "": nobody has a name beforehand, and pairing is the way.
    user_id_help: str = ""
    # Asks the vendor whose these credentials are, and changes nothing there: no message is taken,
    # no presence shown for longer than it has to be, nothing kept in `Opening.folder`. Raises a
    # `ConnectError` or a `SendError`. None: what is wrong shows when the account is connected.
    check: "Callable[[PluginContext[S]], Awaitable[AccountIdentity]] | None" = None
