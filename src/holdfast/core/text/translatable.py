"""Texts for people that are made before it is known who reads them.

Apart from `translation.py`, because the help of the command line needs no msgspec.
"""

from collections.abc import Callable

import msgspec

from holdfast.core.text.translation import _


class Translatable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text that is made before it is known who reads it: its English template, and its values.

    `str` is the English text; `for_person` is in the language of the current context. A value may
    be such a text itself.
    """

    template: str = ""
    values: "dict[str, str | int | float | Translatable]" = {}

    def __str__(self) -> str:
        if not self.values:
            return self.template
        return self.template.format_map(self.values)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __bool__(self) -> bool:
        return bool(self.template)

    def for_person(self) -> str:
        translated = _(self.template)
        if not self.values:
            return translated
        values = {
            name: value.for_person() if isinstance(value, Translatable) else value
            for name, value in self.values.items()
        }
        return translated.format_map(values)

    def redacted(self, redact: Callable[[str], str]) -> "Translatable":
        """The same text, with this applied to what is not part of our own words."""
        if not self.values:
            return Translatable(redact(self.template))
        values = {
            name: value.redacted(redact)
            if isinstance(value, Translatable)
            else redact(value)
            if isinstance(value, str)
            else value
            for name, value in self.values.items()
        }
        return Translatable(self.template, values)


NO_TEXT = Translatable()
