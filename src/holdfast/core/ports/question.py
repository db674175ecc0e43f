"""A question that a door has for whoever adds an account of it: `holdfast setup` asks it."""

import msgspec

from holdfast.core.config.settings import is_secret_key


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
