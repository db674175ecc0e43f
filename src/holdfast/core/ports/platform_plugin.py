"""How a platform plugin declares itself: settings, setup questions, and how to open it."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from holdfast.core.config.settings import PlatformSettings, is_secret_key
from holdfast.core.secrets import Secret

if TYPE_CHECKING:
    from holdfast.core.ports.platform import Platform
    from holdfast.core.ports.runtime import Clock, IdFactory


class SetupQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One key of an account's table, and how a person is asked for it.

    What kind of value it takes is what the settings of the door declare. A key that holds a secret
    by its name is asked for unseen, kept in `.env`, and written down as a reference. Answers are
    checked together, by the settings themselves, before anything is written.
    """

    key: str  # in the account's own table; "hooks.build.secret" is a key of a table in it
    label: str  # a few words, as of a field in a form: "The token of the bot"
    help: str = ""  # sentences: what it is, and the page where one gets it
    # Offered, and taken where nobody says anything else; "{imap_host}" stands for what was said
    # to an earlier question.
    default: str = ""
    optional: bool = False  # it may be left empty, and is then not written
    skip_if: str = ""  # an earlier key: once that has an answer, this is not asked
    # Of a secret: the variable that it is kept in. "": the platform and the key, IRC_PASSWORD.
    # Accounts besides the default one have their name appended.
    variable: str = ""
    generated: bool = False  # of a secret: where none is given, one is made by chance

    @property
    def secret(self) -> bool:
        return is_secret_key(self.key)


PLUGIN_ENTRY_POINTS = (
    "holdfast.platforms"  # the group of entry points by which installed doors are found
)

# Where the doors of this package declare themselves. Read only for a name that somebody has
# written into the configuration: a door costs nothing until then.
BUILT_IN_PLUGINS: Mapping[str, str] = {
    "api": "holdfast.platforms.api.plugin:PLUGIN",
    "web": "holdfast.platforms.web.plugin:PLUGIN",
    "simulated": "holdfast.testing.simulated.plugin:PLUGIN",
    "telegram": "holdfast.platforms.telegram.plugin:PLUGIN",
    "discord": "holdfast.platforms.discord.plugin:PLUGIN",
    "slack": "holdfast.platforms.slack.plugin:PLUGIN",
    "matrix": "holdfast.platforms.matrix.plugin:PLUGIN",
    "email": "holdfast.platforms.email.plugin:PLUGIN",
    "xmpp": "holdfast.platforms.xmpp.plugin:PLUGIN",
    "irc": "holdfast.platforms.irc.plugin:PLUGIN",
    "webhook": "holdfast.platforms.webhook.plugin:PLUGIN",
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
