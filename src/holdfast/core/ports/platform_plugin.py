"""How a platform plugin declares itself: settings, setup questions, and how to open it."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from holdfast.core.config.settings import PlatformSettings, is_secret_key
from holdfast.core.secrets import Secret
from holdfast.core.text.translatable import Translatable

if TYPE_CHECKING:
    from holdfast.core.ports.platform import Platform
    from holdfast.core.ports.runtime import Clock, IdFactory

S = TypeVar("S", bound=PlatformSettings)


class SetupQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One key of an account's table, and how `holdfast setup` asks for it.

    The plugin's settings declare the type of its value. A key whose name marks a secret is asked
    for without echo, stored in `.env`, and written as a reference. The settings check all answers
    together before anything is written.
    """

    key: str  # in the account's own table; "hooks.build.secret" is a key of a table in it
    label: str  # a few words, as of a field in a form: "The token of the bot"
    help: str = ""  # sentences: what it is, and the page where to get it
    # Used if the answer is empty; "{imap_host}" is replaced by the answer to an earlier question.
    default: str = ""
    optional: bool = False  # it may be left empty, and is then not written
    skip_if: str = ""  # an earlier key: if it has an answer, this is not asked
    # Of a secret: the variable that stores it. "": platform and key, as in IRC_PASSWORD. For
    # accounts other than the default one, the account name is appended.
    variable: str = ""
    generated: bool = False  # of a secret: if none is given, a random one is generated

    @property
    def secret(self) -> bool:
        return is_secret_key(self.key)


class PluginContext(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """What one account of a platform is opened with."""

    account: str
    settings: S
    # The secrets that the settings refer to, by key path in the account's own table: "token",
    # "hooks.build.secret". Empty keys are left out.
    secrets: Mapping[str, Secret]
    folder: Path  # its own directory in the home; not created yet
    clock: "Clock"
    new_id: "IdFactory"


class AccountIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the vendor knows about an account."""

    name: str  # as people see it there: "@my_bot", "bot@example.org"
    chat_link: str = ""  # a link that opens a chat with it
    # Permissions that it lacks, each with what does not work without it and what to do.
    missing_grants: tuple[Translatable, ...] = ()


class PlatformPlugin(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """Declared as a constant in a module with few imports: it is read to check the settings,
    including those of disabled accounts. `open` imports what the adapter needs.

    `settings` extends `PlatformSettings` by keys of its own. A key whose name ends in `token`,
    `key`, `secret` or `password` holds a reference to a secret. `__post_init__` checks what types
    cannot express, and raises `ValueError`.
    """

    name: str
    settings: type[S]
    # Creates the account without connecting it. None: the process creates it itself, from more
    # than its settings, and it exists without being configured.
    open: "Callable[[PluginContext[S]], Platform] | None"
    # The keys that together identify the account at the vendor. Only one gateway of this machine
    # uses it at a time. Empty, or all of them unset: it may be shared.
    identity: tuple[str, ...] = ("token",)
    # Set if the vendor gives each message to every connection with these credentials: a second
    # gateway on another machine, which this one cannot see, would answer it, too. How to take the
    # account back from it, in sentences.
    if_shared: str = ""
    # Of the common keys, those that this plugin reads itself: a change reconnects the account. The
    # gateway reads all others, and a change does not affect the connection.
    own_common_keys: tuple[str, ...] = ()
    # What to do at the vendor first, in sentences; and what `holdfast setup` asks then, in this
    # order. It does not ask for keys that few people change.
    setup_guide: str = ""
    setup_questions: tuple[SetupQuestion, ...] = ()
    # How `allow` names a person there, and where to find that: "the number of your account
    # (@userinfobot tells it)". "": ids are not known beforehand; use pairing.
    user_id_help: str = ""
    # Asks the vendor whose credentials these are, and changes nothing there: it takes no
    # message, shows presence no longer than necessary, and stores nothing in `folder`. Raises a
    # `ConnectError` or a `SendError`. None: errors show when the account is connected.
    check: "Callable[[PluginContext[S]], Awaitable[AccountIdentity]] | None" = None
