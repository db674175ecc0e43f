"""Translation of the texts that people read: replies of the bot, the page and the command line.

`_("…")` returns a text in the language of the current context. The English text itself is the key
of the catalogue, so the code stays readable; values are filled in afterwards:

    _("Session {name} is not known.").format(name=name)

Texts for a model (prompts, notes, results of tools) and log lines are English and are not marked:
a cached prompt must not depend on who reads it, and a log line must be found by its words.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Catalogue(Protocol):
    """The texts of one language. An unknown text stays English."""

    @property
    def language(self) -> str:
        """As in HTTP and HTML: `de`, `pt-BR`."""
        ...

    def gettext(self, message: str, /) -> str: ...
    def ngettext(self, singular: str, plural: str, n: int, /) -> str: ...


class EnglishCatalogue:
    """The texts as they are in the code."""

    language = "en"

    def gettext(self, message: str, /) -> str:
        return message

    def ngettext(self, singular: str, plural: str, n: int, /) -> str:
        return singular if n == 1 else plural


ENGLISH = EnglishCatalogue()

# Not an identity: it only chooses between texts of the same meaning, so a place that was forgotten
# shows the wrong language and nothing worse. Tasks inherit it from the task that starts them.
_current: ContextVar[Catalogue] = ContextVar("catalogue", default=ENGLISH)


def _(message: str) -> str:
    """The text in the language of the current context."""
    # A catalogue has its header under the empty text.
    return _current.get().gettext(message) if message else ""


def _n(singular: str, plural: str, n: int) -> str:
    """The form of a text that fits the number: `_n("{n} file", "{n} files", n).format(n=n)`."""
    return _current.get().ngettext(singular, plural, n)


def N_(message: str) -> str:
    """Marks a text for the catalogue that is translated where it is shown, by `_(constant)`."""
    return message


def translate_filled(text: str, template: str) -> str:
    """The translation of an English text that was made from this template, with the same values.

    For texts that are stored in English. A text that was made from another template, for example
    by an earlier version, is returned as it is.
    """
    pieces = _PLACEHOLDER.split(template)  # literal, name, literal, name, …, literal
    pattern = "".join(
        f"(?P<{piece}>.*)" if index % 2 else re.escape(piece) for index, piece in enumerate(pieces)
    )
    match = re.fullmatch(pattern, text, re.DOTALL)
    return text if match is None else _(template).format_map(match.groupdict())


_PLACEHOLDER = re.compile(r"{(\w+)}")


@contextmanager
def use_catalogue(catalogue: Catalogue) -> Iterator[None]:
    """Texts are of this catalogue in the block, and in the tasks that are started in it."""
    token = _current.set(catalogue)
    try:
        yield
    finally:
        _current.reset(token)


def set_catalogue(catalogue: Catalogue) -> None:
    """For the whole of a process or task, as the command line does at its start."""
    _current.set(catalogue)


def current_language() -> str:
    return _current.get().language
